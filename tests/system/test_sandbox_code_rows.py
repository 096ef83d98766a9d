"""Programs and whole answers with the verdict each must get, run in the strongest tier that this machine has."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.core.errors import ConfigError
from strop.sandbox.grading import SandboxGrader
from strop.sandbox.jail import LocalSandbox

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sandbox"))
from code_rows import Row, load_rows


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    made = LocalSandbox()
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.mark.parametrize("row", [row for row in load_rows() if not row.disputed], ids=lambda row: row.id)
async def test_verdict(sandbox: LocalSandbox, row: Row) -> None:
    await sandbox.start()
    if row.problem.language not in sandbox.languages.available():
        pytest.skip(f"{row.problem.language} is not installed here")
    verdict = await SandboxGrader(sandbox).grade(row.problem, row.source, response=row.response)
    assert verdict.verdict in row.verdicts, verdict
