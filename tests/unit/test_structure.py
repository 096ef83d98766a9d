"""The rules that a machine can keep: sizes, names, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "strop"
FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_sizes_and_names(file):
    text = file.read_text()
    assert text.count("\n") <= 400, "a file has at most 400 lines"
    assert file.stem not in {"utils", "helpers", "common", "misc", "base", "manager"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            assert lines <= 60, f"{node.name} has {lines} lines, at most 60"


def test_the_loops_stay_small():
    assert (SOURCE / "train.py").read_text().count("\n") <= 150
    assert (SOURCE / "fit.py").read_text().count("\n") <= 60


@pytest.mark.parametrize(
    "module",
    ["strop", "strop.core.batch", "strop.config.load", "strop.train", "strop.fit", "strop.cli", "strop.testing"],
)
def test_importing_loads_neither_torch_nor_transformers(module):
    code = f"import {module}, sys; print([m for m in ('torch', 'transformers', 'ray') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_public_names_are_these():
    import strop
    import strop.rewards

    assert sorted(strop.__all__) == ["dpo", "evaluate", "reward_model", "sft", "train"]
    assert callable(strop.train) and callable(strop.rewards.from_trl)
