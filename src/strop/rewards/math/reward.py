"""The reward of mathematics: 1 where the answer is the task's reference, else 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strop.core.errors import RewardError
from strop.core.types import Rollout, Score, Task
from strop.core.workers import WorkerCall, WorkerOutcome
from strop.rewards.math.decide import judge_readings
from strop.rewards.math.extract import answers


@dataclass(frozen=True)
class MathReward:
    """1 when the answer in the rollout's text is equivalent to `task.reference` (to one of them, where it is a list).

    Most pairs are decided here, exactly; the rest go to `math_workers`, which call `symbolic.decide` in processes
    of their own. An answer that makes those overrun or die scores 0 (`timeout`, `crash`); dead workers are `infra`.
    """

    math_workers: WorkerCall | None = None

    async def __call__(self, rollout: Rollout, task: Task) -> Score:
        golds = task.reference if isinstance(task.reference, (list, tuple)) else [task.reference]
        if not golds or any(gold is None or not str(gold).strip() for gold in golds):
            return Score(value=None, outcome="not_applicable", detail="the task has no reference to compare with")
        return await self.score(rollout.text, [str(gold) for gold in golds])

    async def score(self, text: str, golds: Sequence[str]) -> Score:
        """1 when the answer of `text` is one of `golds`."""
        readings = answers(text)
        if not readings:
            return Score(value=0.0, detail="no answer, or several that differ")
        found = {gold: judge_readings(gold, readings) for gold in golds}
        if any(found.values()):
            return Score(value=1.0, detail=readings[0][:200])
        for gold in [gold for gold, answer in found.items() if answer is None]:
            said = await self._asked(gold, readings)
            if said.outcome != "scored":
                value = None if said.outcome == "infra" else 0.0
                return Score(value=value, outcome=said.outcome, detail=said.detail)
            if said.value:
                return Score(value=1.0, detail=readings[0][:200])
        return Score(value=0.0, detail=readings[0][:200])

    async def _asked(self, gold: str, readings: tuple[str, ...]) -> WorkerOutcome:
        if self.math_workers is None:
            raise RewardError(
                "math: exact arithmetic cannot compare all answers; "
                "give MathReward math_workers=strop.scoring.math_workers.math_workers().call"
            )
        return await self.math_workers(gold, list(readings))
