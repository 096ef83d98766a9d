"""The scorers of reasoning_gym, made safe."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from strop.core.types import Rollout, Score, Task
from strop.rewards.extract import extract_answer, same_answer


@dataclass(frozen=True)
class ReasoningGymScore:
    """1 for a right answer, else 0; never raises.

    Where the item has one answer it must be equal to it (see rewards/extract.py): several scorers of the library pay
    for parts of answers or for junk. Items without one are scored by the generator's function, 1 only for full marks.
    With `own_scorer` that function scores every item, from 0 to 1: `strop audit` tells which of them can be trusted.
    """

    own_scorer: bool = False

    def __call__(self, rollout: Rollout, task: Task) -> Score:
        answer = extract_answer(rollout.text)
        if answer.text is None:
            return Score(value=0.0, detail=answer.reason)
        if task.reference is not None and not self.own_scorer:
            return Score(value=float(same_answer(answer.text, str(task.reference))), detail=answer.text[:200])
        try:
            dataset = importlib.import_module("reasoning_gym").create_dataset(
                str(task.data["generator"]), size=1, seed=0
            )
            value = float(dataset.score_answer(answer.text, task.data["item"]))
        except Exception as error:  # the scorer's border: junk must not raise
            return Score(value=0.0, detail=f"scorer raised {type(error).__name__}")
        return Score(value=value if self.own_scorer else float(value >= 1.0), detail=answer.text[:200])
