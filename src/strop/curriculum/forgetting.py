"""The forgetting guard: small held-out probes per domain, each compared with the domain's best so far.

Pure: `review` takes state and outcomes and gives the next state and events; state is JSON. Shapes: n tasks, P probes.

Of a run in which nothing is forgotten, the chance of any event is at most `alpha`, over all domains and all probes:
each planned probe spends alpha / num_probes (Lan and DeMets 1983, spending in equal parts), of which Holm (1979) gives
the domains their part, and each domain is charged for every window it might have been compared with. So whichever
window looks best may be taken, and its luck cannot raise an alarm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any, Literal, get_args

import numpy as np

from strop.core.errors import ConfigError
from strop.core.types import JSON
from strop.curriculum.paired_drop import (
    Drop,
    Scores,
    best_window,
    holm_adjusted,
    mean_of_columns,
    paired_drop,
)

Action = Literal["raise_share", "replay", "roll_back", "stop"]
State = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One attempt at one held-out task, its score in [0, 1]. Several of one task in a probe are averaged."""

    domain: str
    task_id: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgettingEvent:
    """A proven drop of one domain and one action on it.

    `drop` is the best minus now in score, mean over `num_tasks` paired tasks; `low` and `high` bound it with the same
    correction as the test. `p_corrected` is for the whole run and was at most the guard's alpha. `best_steps` and
    `now_steps` are the probes compared, by training step. `to_step` is the checkpoint to go back to (roll_back),
    `until_step` the last step of the action (raise_share, replay), `factor` what the domain's weight is multiplied by.
    """

    step: int
    domain: str
    action: Action
    drop: float
    low: float
    high: float
    p_corrected: float
    num_tasks: int
    best: float
    now: float
    best_steps: tuple[int, ...]
    now_steps: tuple[int, ...]
    factor: float | None = None
    until_step: int | None = None
    to_step: int | None = None

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "best_steps": list(self.best_steps), "now_steps": list(self.now_steps)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a domain stands, for tables: means over its probes as they are, without a test."""

    best: float
    best_step: int
    now: float
    now_step: int
    share_factor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Finding:
    drop: Drop
    best: slice
    now: slice
    num_windows: int

    @property
    def p(self) -> float:
        return min(1.0, self.drop.p * self.num_windows)


@dataclass(frozen=True, kw_only=True)
class ForgettingGuard:
    """Compares the last `now_probes` probes of a domain, pooled, with its best windows before them.

    Windows are of `now_probes` consecutive probes and of `reference_probes`: the long ones have less noise, the short
    ones follow a domain that still rises. A drop is acted upon when it is proven and at least `min_drop` in score.
    A raised share is multiplied again, up to `max_factor`, when a drop is proven anew after `cool_down_probes`.
    """

    num_probes: int
    actions: tuple[Action, ...] = ("raise_share", "replay")
    alpha: float = 0.05
    min_drop: float = 0.02
    now_probes: int = 2
    reference_probes: int = 8
    share_factor: float = 2.0
    max_factor: float = 8.0
    num_steps: int = 50
    cool_down_probes: int = 2

    def __post_init__(self) -> None:
        unknown = sorted(set(self.actions) - set(get_args(Action)))
        if unknown or not self.actions:
            named = f"no action {unknown[0]!r}" if unknown else "no action given"
            raise ConfigError(f"forgetting.actions: {named}; name some of {', '.join(get_args(Action))}")
        if not 0 < self.alpha < 1:
            raise ConfigError(f"forgetting.alpha must be between 0 and 1, got {self.alpha}")
        if not 1 <= self.now_probes <= self.reference_probes:
            raise ConfigError("forgetting.now_probes must be from 1 to forgetting.reference_probes")
        if not 1 <= self.share_factor <= self.max_factor:
            raise ConfigError("forgetting.share_factor must be from 1 to forgetting.max_factor")
        if min(self.num_probes, self.num_steps) < 1 or min(self.min_drop, self.cool_down_probes) < 0:
            raise ConfigError("forgetting: num_probes and num_steps must be at least 1, the rest not negative")

    def start(self) -> dict[str, Any]:
        return {"looks": 0, "domains": {}, "raised": {}, "replayed": {}}

    def review(
        self, state: State, step: int, outcomes: Sequence[Outcome]
    ) -> tuple[dict[str, Any], tuple[ForgettingEvent, ...]]:
        """Take in the probe made after training step `step`; an event for every proven drop and configured action.

        A probe may hold some of the domains only. ValueError for a probe beyond the planned ones, or a bad score.
        """
        if state["looks"] >= self.num_probes:
            raise ValueError(f"step {step}: all {self.num_probes} planned probes were made; plan more at the start")
        by_domain = _by_domain(outcomes)
        domains = dict(state["domains"])
        for name, scores in by_domain.items():
            domains[name] = _with_probe(domains.get(name), step, scores)
        findings = self._findings(domains, by_domain)
        adjusted = holm_adjusted([finding.p for finding in findings.values()])
        corrected = dict(zip(findings, (min(1.0, self.num_probes * p) for p in adjusted), strict=True))
        state = {**state, "looks": state["looks"] + 1, "domains": domains}
        events: list[ForgettingEvent] = []
        for name, finding in findings.items():
            if corrected[name] <= self.alpha and finding.drop.value >= self.min_drop:
                level = self.alpha / (self.num_probes * len(findings) * finding.num_windows)
                made = self._events(state, step, name, finding, corrected[name], level)
                state = self._acted(state, name, made)
                events.extend(made)
        return dict(state), tuple(events)

    def _findings(self, domains: State, probed: Mapping[str, Any]) -> dict[str, _Finding]:
        found = {}
        for name in probed:
            if len(domains[name]["probes"]) > domains[name]["held_until"]:
                finding = self._finding(_scores(domains[name]))
                if finding is not None:
                    found[name] = finding
        return found

    def _finding(self, scores: Scores) -> _Finding | None:
        """The strongest evidence of a drop in `scores` [n, P]; None while there is nothing to compare."""
        num_now = min(self.now_probes, scores.shape[1] - 1)
        if num_now == 0:
            return None
        num_before = scores.shape[1] - num_now
        before = scores[:, :num_before]
        sizes = {min(self.now_probes, num_before), min(self.reference_probes, num_before)}
        num_windows = sum(num_before - size + 1 for size in sizes)
        found = []
        for size in sorted(sizes):
            best = best_window(before, size)
            drop = paired_drop(before[:, best], scores[:, num_before:], self.alpha / self.num_probes / num_windows)
            if drop is not None:
                now = slice(num_before, scores.shape[1])
                found.append(_Finding(drop=drop, best=best, now=now, num_windows=num_windows))
        return min(found, key=lambda finding: finding.p) if found else None

    def _events(
        self, state: State, step: int, name: str, finding: _Finding, p_corrected: float, level: float
    ) -> list[ForgettingEvent]:
        domain = state["domains"][name]
        steps = [probe["step"] for probe in domain["probes"]]
        means = mean_of_columns(_scores(domain))
        low, high = finding.drop.interval(level)
        raised = share_factors(state, step).get(name, 1.0)
        until = step + self.num_steps
        about: dict[Action, dict[str, Any]] = {
            "raise_share": {"factor": min(self.max_factor, raised * self.share_factor), "until_step": until},
            "replay": {"until_step": until},
            "roll_back": {"to_step": _best_step(domain, self.now_probes, finding.now.start)},
            "stop": {},
        }
        return [
            ForgettingEvent(
                step=step,
                domain=name,
                action=action,
                drop=finding.drop.value,
                low=low,
                high=high,
                p_corrected=p_corrected,
                num_tasks=finding.drop.num_tasks,
                best=float(means[finding.best].mean()),
                now=float(means[finding.now].mean()),
                best_steps=tuple(steps[finding.best]),
                now_steps=tuple(steps[finding.now]),
                **about[action],
            )
            for action in self.actions
        ]

    def _acted(self, state: State, name: str, events: Sequence[ForgettingEvent]) -> dict[str, Any]:
        domain = state["domains"][name]
        held = {**domain, "held_until": len(domain["probes"]) + self.cool_down_probes}
        raised, replayed = dict(state["raised"]), dict(state["replayed"])
        for event in events:
            if event.action == "raise_share":
                raised[name] = {"factor": event.factor, "until_step": event.until_step}
            elif event.action == "replay":
                replayed[name] = event.until_step
        return {**state, "domains": {**state["domains"], name: held}, "raised": raised, "replayed": replayed}

    def steps_to_keep(self, state: State) -> tuple[int, ...]:
        """The checkpoints that a roll back might ask for after the next probe: the best step of each domain."""
        domains = state["domains"].values()
        return tuple(sorted({_best_step(d, self.now_probes, len(d["probes"])) for d in domains}))

    def standings(self, state: State, step: int) -> dict[str, Standing]:
        """Of each probed domain, in the order of their first probes."""
        factors = share_factors(state, step)
        found = {}
        for name, domain in state["domains"].items():
            steps = [probe["step"] for probe in domain["probes"]]
            scores = _scores(domain)
            means = mean_of_columns(scores)
            best = best_window(scores, min(self.now_probes, len(steps)))
            found[name] = Standing(
                best=float(means[best].mean()),
                best_step=steps[best][-1],
                now=float(means[-self.now_probes :].mean()),
                now_step=steps[-1],
                share_factor=factors.get(name, 1.0),
            )
        return found


def share_factors(state: State, step: int) -> dict[str, float]:
    """What the weights of domains are multiplied by after step `step`; domains that are not named have 1."""
    return {name: raised["factor"] for name, raised in state["raised"].items() if step < raised["until_step"]}


def replay_domains(state: State, step: int) -> tuple[str, ...]:
    """Domains whose solved tasks come back, and whose stored groups are replayed, after step `step`."""
    return tuple(name for name, until in state["replayed"].items() if step < until)


def roll_back_step(events: Sequence[ForgettingEvent]) -> int | None:
    """The newest checkpoint at which every domain that asks to go back stood well; None where none asks."""
    return min((event.to_step for event in events if event.to_step is not None), default=None)


def rolled_back(state: State, to_step: int) -> dict[str, Any]:
    """The state once the weights of `to_step` are back: probes of the discarded weights are forgotten.

    Probes stay spent, and actions in force go on.
    """
    domains = {}
    for name, domain in state["domains"].items():
        probes = [probe for probe in domain["probes"] if probe["step"] <= to_step]
        dropped = len(domain["probes"]) - len(probes)
        if probes:
            domains[name] = {**domain, "probes": probes, "held_until": max(0, domain["held_until"] - dropped)}
    return {**state, "domains": domains}


def _by_domain(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for outcome in outcomes:
        if not 0.0 <= outcome.score <= 1.0:
            raise ValueError(
                f"{outcome.domain}, task {outcome.task_id}: a score must be in [0, 1], got {outcome.score}"
            )
        found.setdefault(outcome.domain, {}).setdefault(outcome.task_id, []).append(outcome.score)
    return {name: {task: fsum(s) / len(s) for task, s in tasks.items()} for name, tasks in found.items()}


def _with_probe(domain: State | None, step: int, scores: Mapping[str, float]) -> dict[str, Any]:
    """Scores stand in the order of `tasks`, None where a task was not scored."""
    if domain is None:
        domain = {"tasks": [], "probes": [], "held_until": 0}
    known = set(domain["tasks"])
    new = [task for task in scores if task not in known]
    tasks = [*domain["tasks"], *new]
    earlier = [{**probe, "scores": [*probe["scores"], *[None] * len(new)]} for probe in domain["probes"]]
    probe = {"step": step, "scores": [scores.get(task) for task in tasks]}
    return {**domain, "tasks": tasks, "probes": [*earlier, probe]}


def _scores(domain: State) -> Scores:
    """[n, P], NaN where a task was not scored."""
    return np.array([probe["scores"] for probe in domain["probes"]], np.float64).T


def _best_step(domain: State, size: int, num_probes: int) -> int:
    """The last step of the best window of `size` among the first `num_probes` probes."""
    window = best_window(_scores(domain)[:, :num_probes], min(size, num_probes))
    step: int = domain["probes"][window.stop - 1]["step"]
    return step
