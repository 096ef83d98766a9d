"""The reward of code style: what a linter under a company's own configuration finds in the program of an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from strop.core.errors import RewardError
from strop.core.fences import extract_code
from strop.core.programs import Execution, Limits, Program
from strop.core.protocols import Sandbox
from strop.core.types import Rollout, Score, Task
from strop.rewards.linters import LINTERS, Linter

LIMITS = Limits(cpu_s=20.0, memory_bytes=2 << 30)
MAX_RULES = 20  # cited in the detail, the commonest first


@dataclass(frozen=True)
class LintReward:
    """1 / (1 + per_lines × findings / lines): 1 without a finding, 1/2 for one in every `per_lines` lines of code.

    Lines count where code begins on them; comments that switch rules off do not count. An answer without a program, or
    with one that does not parse, scores 0. `config` is the linter's own file (`ruff.toml` or `pyproject.toml`;
    `eslint.config.mjs`), without references to others. The linter runs in the sandbox and the program is never run.
    """

    sandbox: Sandbox
    linter: Literal["ruff", "eslint"] = "ruff"
    config: str | None = None
    per_lines: float = 10.0
    modules: str | None = None
    limits: Limits = LIMITS
    _config: tuple[str, bytes] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.linter not in LINTERS:
            raise ValueError(f"linter must be 'ruff' or 'eslint', got {self.linter!r}")
        if not 0 < self.per_lines < float("inf"):
            raise ValueError(f"per_lines must be a number above 0, got {self.per_lines!r}")
        if self.linter == "eslint" and self.config is None:
            raise ValueError("eslint has no rules of its own: give config, such as eslint.config.mjs")
        object.__setattr__(self, "_config", None if self.config is None else _read(self.config))

    async def __call__(self, rollout: Rollout, task: Task) -> Score:
        linter = LINTERS[self.linter]
        source = extract_code(rollout.text, linter.language)
        if source is None:
            return Score(value=0.0, detail="no program")
        found = await self._lint(linter, source)
        if isinstance(found, Execution):
            return await self._unread(linter, found, task)
        if found["broken"] is not None:
            return Score(value=0.0, detail=f"does not parse: {found['broken']}")
        lines, findings = found["lines"], sum(found["rules"].values())
        if not lines:
            return Score(value=0.0, detail="no program")
        value = 1.0 / (1.0 + self.per_lines * findings / lines)
        return Score(value=value, detail=f"{findings} findings in {lines} lines{_cited(found['rules'])}")

    async def _lint(self, linter: Linter, source: str) -> dict[str, Any] | Execution:
        """What was found, or how the run ended that found nothing out."""
        files = {linter.file: source.encode("utf-8", "replace")}
        name = ""
        if self._config is not None:
            name, content = self._config
            files[name] = content
        program = Program(
            language=linter.language, source=linter.source, args=(linter.file, name, self.modules or ""), files=files
        )
        done = await self.sandbox.run(program, self.limits)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            return done
        if found.get("missing"):
            raise RewardError(f"the sandbox shows no {self.linter}: {linter.absent}")
        if "failed" in found:
            return replace(done, detail=" ".join(found["failed"].split())[:300])
        return found

    async def _unread(self, linter: Linter, done: Execution, task: Task) -> Score:
        """The answer is to blame only where the linter reads a program without fault; else the configuration is."""
        if done.status == "infra_error":
            return Score(value=None, outcome="infra", detail=done.detail)
        said = done.detail or done.stderr.decode("utf-8", "replace").strip()[-200:] or done.status
        known = await self._lint(linter, "")
        if isinstance(known, Execution) and known.status == "infra_error":
            return Score(value=None, outcome="infra", detail=known.detail)
        if isinstance(known, Execution) or known["broken"] is not None:
            raise RewardError(f"{self.linter} with config = {self.config!r} cannot be run, task {task.id}: {said}")
        outcome: Literal["timeout", "crash"] = "timeout" if done.status == "time_limit" else "crash"
        return Score(value=0.0, outcome=outcome, detail=f"{self.linter} cannot read it: {said}")


def _read(config: str) -> tuple[str, bytes]:
    try:
        return Path(config).name, Path(config).read_bytes()
    except OSError as error:
        raise ValueError(f"config = {config!r} cannot be read: {error.strerror}") from error


def _cited(rules: dict[str, int]) -> str:
    ordered = sorted(rules.items(), key=lambda rule: (-rule[1], rule[0]))
    return ": " + ", ".join(f"{name} ×{count}" for name, count in ordered[:MAX_RULES]) if rules else ""
