"""MBPP (Austin et al., 2108.07732): short functions to write from one sentence and asserts, from a file of its rows."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from strop.core.errors import DataError
from strop.core.problems import problem_to_json
from strop.core.programs import Limits, Problem
from strop.core.types import Message, Task
from strop.tasks.files import read_rows

HELD_OUT = range(11, 511)  # the paper's test split; 1 to 10 are its prompts, 511 to 974 fine-tuning and validation
TRAIN = range(511, 975)
KEYS = ("task_id", "text", "code", "test_list", "test_setup_code")


@dataclass(frozen=True)
class MBPP:
    """The paper's splits by `task_id`: 511 to 974 are training tasks, 11 to 510 are held out.

    The prompt shows the first `num_shown` asserts, since the name of the function stands only there; the paper shows
    all three. Every assert grades, so train with 1: an answer made of the shown values must not pay.
    """

    path: str
    domain: str
    split: Literal["train", "held_out"] = "train"
    num_shown: int = 3
    cpu_s: float = 10.0
    _rows: tuple[Mapping[str, Any], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.num_shown < 1:
            raise ValueError("num_shown must be at least 1: the name of the function stands in the asserts alone")
        wanted = HELD_OUT if self.split == "held_out" else TRAIN
        rows = []
        for where, row in read_rows(self.path):
            missing = [key for key in KEYS if key not in row]
            if missing:
                raise DataError(f"{where}: no key {missing[0]!r}; is this MBPP?")
            if row["task_id"] in wanted:
                rows.append(row)
        object.__setattr__(self, "_rows", tuple(rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Task:
        row = self._rows[index]
        tests = [line.strip() for line in row["test_list"]]
        shown = "\n".join(tests[: self.num_shown])
        setup = _unix(row["test_setup_code"]) or imports_of(tests, row["code"])
        problem = Problem(
            entry_point=entry_point_of(tests[0], row["code"]),
            tests="\n".join([setup, *tests] if setup.strip() else tests) + "\n",
            limits=Limits(cpu_s=self.cpu_s),
        )
        content = f"{row['text'].strip()} Reply with only the code in a ```python block. It must pass:\n{shown}"
        return Task(
            id=f"mbpp-{row['task_id']}",
            domain=self.domain,
            prompt=(Message(role="user", content=content),),
            reference=problem_to_json(problem),
            data={"response": f"```python\n{_unix(row['code']).strip()}\n```"},
        )

    def canonical_solutions(self) -> list[str]:
        """The published solution of each problem, in the order of the tasks."""
        return [_unix(row["code"]) for row in self._rows]


def entry_point_of(test: str, code: str) -> str | None:
    """The function or class of `code` that `test` calls first."""
    defined = {n.name for n in ast.parse(_unix(code)).body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    called = [n.func.id for n in ast.walk(ast.parse(test)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return next((name for name in called if name in defined), None)


def imports_of(tests: Sequence[str], code: str) -> str:
    """The imports of `code` that `tests` rely on: an answer need not have them."""
    used = {node.id for node in ast.walk(ast.parse("\n".join(tests))) if isinstance(node, ast.Name)}
    imports = [node for node in ast.parse(_unix(code)).body if isinstance(node, ast.Import | ast.ImportFrom)]
    needed = [node for node in imports if {alias.asname or alias.name for alias in node.names} & used]
    return "\n".join(ast.unparse(node) for node in needed)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
