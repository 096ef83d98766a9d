"""The reward of mathematics: 1 where the answer is the task's reference, else 0."""

from __future__ import annotations

from dataclasses import dataclass

from strop.core.errors import RewardError
from strop.core.types import Rollout, Score, Task
from strop.core.workers import WorkerCall
from strop.rewards.math.decide import judge_readings
from strop.rewards.math.extract import answers

SYMBOLIC = "strop.rewards.math.symbolic:decide"
CANARY = ((r"\sqrt{2}+\sqrt{3}", [r"\sqrt{5+2\sqrt{6}}"]), True)


@dataclass(frozen=True)
class MathReward:
    """1 when the answer in the rollout's text is equivalent to `task.reference` (or to one of them, where it is a list).

    Most pairs are decided here, exactly; the rest go to `symbolic`, a call of `strop.rewards.math.symbolic:decide` in
    worker processes. An answer that makes those overrun or die scores 0 (`timeout`, `crash`); dead workers are `infra`.
    """

    symbolic: WorkerCall | None = None

    async def __call__(self, rollout: Rollout, task: Task) -> Score:
        golds = task.reference if isinstance(task.reference, (list, tuple)) else [task.reference]
        if not golds or any(gold is None or not str(gold).strip() for gold in golds):
            return Score(value=None, outcome="not_applicable", detail="the task has no reference to compare with")
        readings = answers(rollout.text)
        if not readings:
            return Score(value=0.0, detail="no answer, or several that differ")
        return await self.compare([str(gold) for gold in golds], readings)

    async def compare(self, golds: list[str], readings: tuple[str, ...]) -> Score:
        """The score of an answer already extracted."""
        detail = readings[0][:200]
        found = {gold: judge_readings(gold, readings) for gold in golds}
        if any(found.values()):
            return Score(value=1.0, detail=detail)
        for gold in [gold for gold, answer in found.items() if answer is None]:
            if self.symbolic is None:
                raise RewardError("math: exact arithmetic cannot compare all answers; give MathReward symbolic workers")
            said = await self.symbolic(gold, list(readings))
            if said.outcome == "infra":
                return Score(value=None, outcome="infra", detail=said.detail)
            if said.outcome != "scored":
                return Score(value=0.0, outcome=said.outcome, detail=said.detail)
            if said.value:
                return Score(value=1.0, detail=detail)
        return Score(value=0.0, detail=detail)
