"""Rewards by rule. Each is a frozen callable of (rollout, task)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from strop.core.seeds import derive_seed
from strop.core.types import Rollout, Score, Task
from strop.rewards.extract import extract_answer, same_answer


@dataclass(frozen=True)
class ExactMatch:
    """1 when the extracted answer equals the task's reference (or one of them, where it is a list), else 0."""

    case_sensitive: bool = False

    def __call__(self, rollout: Rollout, task: Task) -> Score:
        wanted = task.reference if isinstance(task.reference, (list, tuple)) else [task.reference]
        if not wanted or any(w is None or not str(w).strip() for w in wanted):
            return Score(value=None, outcome="not_applicable", detail="the task has no reference to compare with")
        answer = extract_answer(rollout.text)
        if answer.text is None:
            return Score(value=0.0, detail=answer.reason)
        right = any(same_answer(answer.text, str(w), self.case_sensitive) for w in wanted)
        return Score(value=float(right), detail=answer.text[:200])


@dataclass(frozen=True)
class HasAnswer:
    """1 when exactly one answer can be extracted. Pays the form only: give it a small weight, or none."""

    def __call__(self, rollout: Rollout, task: Task) -> float:
        return float(extract_answer(rollout.text).text is not None)


@dataclass(frozen=True)
class ThinkFormat:
    """1 for one `<think>` part that says something, closed, and text after it.

    `prefilled` says that the prompt already opened the tag, so that the completion only closes it.
    """

    prefilled: bool = False

    def __call__(self, rollout: Rollout, task: Task) -> float:
        text = ("<think>" if self.prefilled else "") + rollout.text
        match = re.fullmatch(r"\s*<think>(.*?)</think>(.*)", text, re.DOTALL)
        if match is None or "<think>" in match.group(1) + match.group(2) or "</think>" in match.group(2):
            return 0.0
        return float(bool(match.group(1).strip()) and bool(match.group(2).strip()))


@dataclass(frozen=True)
class SoftOverlong:
    """DAPO eq. 13 (2503.14476): 0 up to max_tokens - buffer, then linear down to -1 at max_tokens and beyond."""

    max_tokens: int
    buffer: int

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.max_tokens:
            raise ValueError(f"buffer must be from 1 to max_tokens = {self.max_tokens}, got {self.buffer}")

    def __call__(self, rollout: Rollout, task: Task) -> float:
        over = rollout.num_tokens - (self.max_tokens - self.buffer)
        return -min(1.0, max(0.0, over / self.buffer))


@dataclass(frozen=True)
class LengthPenalty:
    """Minus the share of `max_tokens` that was written, at least -1. Gate it, or short wrong answers earn."""

    max_tokens: int

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")

    def __call__(self, rollout: Rollout, task: Task) -> float:
        return -min(1.0, rollout.num_tokens / self.max_tokens)


@dataclass(frozen=True)
class RandomReward:
    """0 or 1 by chance, whatever the answer: the control that must not improve anything."""

    seed: int = 0
    share: float = 0.5

    def __call__(self, rollout: Rollout, task: Task) -> float:
        ids = ",".join(str(t) for turn in rollout.turns for t in turn.completion.token_ids.tolist())
        return float(derive_seed(self.seed, task.id, rollout.index, ids) / 2**63 < self.share)


@dataclass(frozen=True)
class FoundNumber:
    """1 when the guessing game was won."""

    def __call__(self, rollout: Rollout, task: Task) -> float:
        return float(bool(rollout.evidence["found"]))


@dataclass(frozen=True)
class FewGuesses:
    """1 / number of guesses of a won game, 0 of a lost one."""

    def __call__(self, rollout: Rollout, task: Task) -> float:
        return 1.0 / max(1, len(rollout.turns)) if rollout.evidence["found"] else 0.0
