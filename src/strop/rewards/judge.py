"""Rewards by another model: a rubric, item by item, or answers of a group against each other.

The thinking part is never shown. What is empty, too short, only announces an answer, or speaks to the judge scores 0
without a call. A judge that cannot be reached, or whose replies are no verdicts, gives no score (`infra`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from strop.core.errors import ConfigError, InfraError, RewardError
from strop.core.types import JSON, Rollout, Score, Task
from strop.rewards.extract import visible
from strop.rewards.judge_asking import AnswerAtFault, Judge
from strop.rewards.judge_forms import PairForm, RubricForm, RubricItem, Setting, setting_of

Winner = Literal["first", "second", "tie"]
BETTER = "The better answer does what the task asks, is right, and says nothing that is not."
KNOWN_SHARE = 0.5  # of an answer's comparisons, below which its win rate says too little


@dataclass(frozen=True, kw_only=True)
class JudgeReward(Judge):
    """The weighted mean of the rubric's items, each scored from 0 to `scale`, as a number from 0 to 1.

    An item is `{text, name?, weight?}` or its text alone. Without a `rubric` each task brings its own in
    `data["rubric"]`.
    """

    rubric: Sequence[str | Mapping[str, JSON]] = ()
    scale: int = 10
    _items: tuple[RubricItem, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.scale <= 100:
            raise ConfigError(f"scale must be from 1 to 100, got {self.scale!r}")
        try:
            object.__setattr__(self, "_items", rubric_items(self.rubric))
        except ValueError as error:
            raise ConfigError(f"rubric: {error}") from error
        super().__post_init__()

    def decides(self) -> list[Any]:
        items = [[item.name, item.text, item.weight] for item in self._items]
        return [*super().decides(), items, self.scale]

    async def __call__(self, rollout: Rollout, task: Task) -> Score:
        reason = self.unasked(task.prompt, _texts(rollout))
        if reason is not None:
            return Score(value=0.0, detail=reason, version=self.version)
        setting = setting_of(task, rollout.turns, show_reference=self.show_reference)
        items = self._items or _own_rubric(task)
        form = RubricForm(setting=setting, answer=visible(rollout.text), items=items, scale=self.scale)
        try:
            verdict = await self.ask(form)
        except AnswerAtFault as fault:
            return Score(value=0.0, outcome="crash", detail=str(fault)[:200], version=self.version)
        except InfraError as error:
            return Score(value=None, outcome="infra", detail=str(error)[:200], version=self.version)
        said = ", ".join(f"{name} {score}" for name, score in verdict["scores"].items())
        return Score(value=form.value(verdict), detail=f"{said} of {self.scale}", version=self.version)


@dataclass(frozen=True, kw_only=True)
class Match:
    """What a judge said of two answers, by number. `winner` None: no verdict could be had."""

    first: int
    second: int
    winner: Winner | None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class PairwiseJudge(Judge):
    """The share of a group's other answers that an answer beats, a tie being half of one; for `per = "group"`.

    Each pair is judged in both orders, and a verdict that changes with the order is a tie. All pairs are judged, or
    with `max_opponents` each answer meets so many others (rounded up to an even number), which is linear in the group.
    Answers that score 0 unasked lose to all others.
    """

    criterion: str = BETTER
    max_opponents: int | None = None

    def __post_init__(self) -> None:
        if not self.criterion.strip():
            raise ConfigError("criterion is empty: say which answer is the better one, or leave it out")
        if self.max_opponents is not None and self.max_opponents < 1:
            raise ConfigError(f"max_opponents must be at least 1, got {self.max_opponents!r}")
        super().__post_init__()

    def decides(self) -> list[Any]:
        return [*super().decides(), self.criterion, self.max_opponents]

    async def __call__(self, rollouts: Sequence[Rollout], task: Task) -> list[Score]:
        if isinstance(rollouts, Rollout):
            raise RewardError('pairwise_judge compares the answers of a group: set per = "group" for it')
        if len(rollouts) < 2:
            alone = Score(value=None, outcome="not_applicable", detail="nothing to compare with", version=self.version)
            return [alone] * len(rollouts)
        reasons = [self.unasked(task.prompt, _texts(rollout)) for rollout in rollouts]
        playing = [number for number, reason in enumerate(reasons) if reason is None]
        setting = setting_of(task, show_reference=self.show_reference)
        answers = [_with_earlier_turns(rollout, task) for rollout in rollouts]
        pairs = [(playing[i], playing[j]) for i, j in pairs_of(len(playing), self.max_opponents)]
        matches = await asyncio.gather(*(self.compare(setting, answers, i, j) for i, j in pairs))
        num_beaten = len(rollouts) - len(playing)
        return [
            self._standing(number, matches, num_beaten, len(playing) - 1)
            if reason is None
            else Score(value=0.0, detail=reason, version=self.version)
            for number, reason in enumerate(reasons)
        ]

    async def compare(self, setting: Setting, answers: Sequence[str], first: int, second: int) -> Match:
        """The better of two of the `answers`, asked in both orders."""
        one, other = answers[first], answers[second]
        if one == other:
            return Match(first=first, second=second, winner="tie", detail="equal")
        try:
            winners = await asyncio.gather(self._better(setting, one, other), self._better(setting, other, one))
        except InfraError as error:
            return Match(first=first, second=second, winner=None, detail=str(error))
        return Match(first=first, second=second, winner=agreed(*winners))

    async def _better(self, setting: Setting, one: str, other: str) -> Winner:
        try:
            verdict = await self.ask(PairForm(setting=setting, first=one, second=other, criterion=self.criterion))
        except AnswerAtFault as fault:
            return "tie" if len(fault.numbers) == 2 else "second" if fault.numbers == (0,) else "first"
        winner: Winner = verdict["winner"]
        return winner

    def _standing(self, number: int, matches: Sequence[Match], num_beaten: int, num_rivals: int) -> Score:
        """The win rate of one answer: over its known matches for its rivals, and 1 over those beaten unasked."""
        own = [match for match in matches if number in (match.first, match.second)]
        known = [match for match in own if match.winner is not None]
        if len(known) < KNOWN_SHARE * len(own):
            detail = next(match.detail for match in own if match.winner is None)
            return Score(value=None, outcome="infra", detail=detail[:200], version=self.version)
        points = sum(_points(match, number) for match in known)
        rate = points / len(known) if known else 0.0
        value = (rate * num_rivals + num_beaten) / (num_rivals + num_beaten)
        detail = f"{points:g} points in {len(known)} comparisons, {num_beaten} beaten unasked"
        return Score(value=value, detail=detail, version=self.version)


def agreed(straight: Winner, swapped: Winner) -> Winner:
    """The winner in the straight order when the swapped order says the same answer, else a tie."""
    same: Mapping[Winner, Winner] = {"first": "second", "second": "first", "tie": "tie"}
    return straight if same[swapped] == straight else "tie"


def pairs_of(count: int, max_opponents: int | None) -> list[tuple[int, int]]:
    """All pairs of `count` players, or those within half of `max_opponents` of each other on a ring."""
    reach = count if max_opponents is None else -(-max_opponents // 2)
    return [(i, j) for i, j in itertools.combinations(range(count), 2) if min(j - i, count - (j - i)) <= reach]


def rubric_items(rubric: Any) -> tuple[RubricItem, ...]:
    """The items of a rubric as recipes and tasks write it. ValueError says what is wrong with one."""
    if isinstance(rubric, (str, Mapping)) or not isinstance(rubric, Sequence):
        raise ValueError(f"must be a list of items, got {type(rubric).__name__}")
    items = tuple(_item(number, item) for number, item in enumerate(rubric, start=1))
    names = [item.name for item in items]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two items are named {twice[0]!r}")
    return items


def _item(number: int, item: Any) -> RubricItem:
    said = {"text": item} if isinstance(item, str) else item
    if not isinstance(said, Mapping) or not set(said) <= {"name", "text", "weight"}:
        raise ValueError(f"item {number} must be a text, or have text, name and weight")
    name, text, weight = said.get("name", f"item_{number}"), said.get("text"), said.get("weight", 1.0)
    if not isinstance(text, str) or not text.strip() or not isinstance(name, str) or not name.strip():
        raise ValueError(f"item {number} has no text or an empty name")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < float("inf"):
        raise ValueError(f"item {number} must weigh more than 0, got {weight!r}")
    return RubricItem(name=name, text=text, weight=float(weight))


def _own_rubric(task: Task) -> tuple[RubricItem, ...]:
    try:
        items = rubric_items(task.data.get("rubric"))
    except ValueError as error:
        raise RewardError(f"task {task.id}: data['rubric'] {error}; or give the reward a rubric") from error
    if not items:
        raise RewardError(f"task {task.id}: data['rubric'] has no item; add some, or give the reward a rubric")
    return items


def _texts(rollout: Rollout) -> list[str]:
    return [turn.message.content for turn in rollout.turns]


def _points(match: Match, number: int) -> float:
    if match.winner == "tie":
        return 0.5
    return float((match.winner == "first") == (match.first == number))


def _with_earlier_turns(rollout: Rollout, task: Task) -> str:
    """The last answer, after what the policy and its environment said before it, which differs within a group."""
    earlier = setting_of(task, rollout.turns).conversation[len(task.prompt) :]
    answer = visible(rollout.text)
    said = [f"{role}: {text}" for role, text in earlier]
    return "\n\n".join([*said, f"assistant: {answer}"]) if said else answer
