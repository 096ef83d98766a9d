"""Which domain and task each ticket gets: exact shares, every epoch reshuffled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from random import Random
from typing import Any, cast

import numpy as np

from strop.core.errors import ConfigError
from strop.core.protocols import Domain, LevelledSource, TaskSource
from strop.core.seeds import derive_seed
from strop.core.types import JSON, RolloutGroup, Task
from strop.curriculum.apportion import Array, furthest_change
from strop.curriculum.difficulty import Ladder, clamp_level, first_standing, level_of_turn, moved
from strop.curriculum.estimates import Decay, Estimates, Seen, at_new_level, measure, tabulate, with_group
from strop.curriculum.retirement import Retirement, Solved
from strop.curriculum.shares import Bounds, DomainGroup, Node, prior_weights, share_tree, shares_within
from strop.curriculum.state import Known, Round, from_json, next_json, planned, to_json
from strop.curriculum.strategies import Static, Strategy

MOST_LOOKED_AT = 64  # tasks of an epoch that are looked at for one that does not rest
REMEMBERED = 4  # states whose consequences are kept: the present one, and a few that a test or a retry asks again


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A Curriculum whose shares follow a strategy, and whose levels follow the frontier, within groups and bounds.

    After every ticket the count of each domain is within one of the sum of its targets. Shares and levels are fixed in
    rounds of `every` tickets; those of ticket t depend on the groups of tickets below t - `lag` alone, so whichever
    state a ticket is legally assigned with gives the same task. `lag` is the most tickets that can be in flight:
    (max_staleness + 1) * (groups_per_step + max_replacements).

    It starts with the static shares. `levelled` names the domains whose source has levels; their other tasks are not
    used. See `state` for what the state holds.
    """

    domains: Sequence[Domain]
    seed: int
    lag: int
    every: int = 1
    strategy: Strategy = field(default_factory=Static)
    groups: Sequence[DomainGroup] = ()
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    levelled: Mapping[str, LevelledSource] = field(default_factory=dict)
    ladder: Ladder = field(default_factory=Ladder)
    decay: Decay = field(default_factory=Decay)
    retirement: Retirement | None = None
    _tree: Node = field(init=False, repr=False, compare=False)
    _prior: Array = field(init=False, repr=False, compare=False)
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _memo: list[tuple[Mapping[str, JSON], Known]] = field(default_factory=list, init=False, repr=False, compare=False)
    _sources: dict[tuple[str, int], TaskSource] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tree = share_tree(self.domains, self.groups, self.bounds)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_prior", prior_weights(tree, [domain.weight for domain in self.domains]))
        object.__setattr__(self, "_names", tuple(domain.name for domain in self.domains))

    def start(self) -> Mapping[str, JSON]:
        """No ticket is observed; the first lag + 1 have their static shares and first levels."""
        zeros = np.zeros(len(self.domains))
        standings = tuple(
            first_standing(self.levelled[name].levels, self.ladder) if name in self.levelled else None
            for name in self._names
        )
        first = Round(
            first=0,
            base=zeros,
            shares=shares_within(self._tree, self._prior),
            levels=tuple(None if s is None else s.level for s in standings),
        )
        counts = zeros.astype(np.int64)
        plan, ahead = planned((), counts, (first,), 0, self.lag + 1)
        known = Known(
            observed=0,
            counts=counts,
            rounds=(first,),
            estimates=(Estimates(),) * len(self.domains),
            standings=standings,
            plan=plan,
            ahead=ahead,
            factors=zeros + 1,
            solved={},
        )
        return self._remember(to_json(known, self._names), known)

    def assign(self, state: Mapping[str, JSON], ticket: int) -> Task:
        """The task of a ticket that is not observed yet; ValueError when it is, or is too far ahead of the state."""
        known = self._known(state)
        if not 0 <= ticket - known.observed <= self.lag:
            raise ValueError(
                f"ticket {ticket} is not among the {self.lag + 1} from {known.observed} on that the state can assign"
            )
        number, turn = known.plan[ticket - known.observed]
        rests = partial(self._rests, known.solved, ticket)
        return self._task(number, turn, known.round_of(ticket).levels[number], rests)

    def observe(self, state: Mapping[str, JSON], group: RolloutGroup) -> Mapping[str, JSON]:
        """The state after the group of the next ticket; ValueError when it is of another."""
        known = self._known(state)
        number = known.plan[0][0]
        if (group.ticket, group.task.domain) != (known.observed, self._names[number]):
            raise ValueError(
                f"ticket {group.ticket} of {group.task.domain!r} was observed where ticket {known.observed} of "
                f"{self._names[number]!r} comes next"
            )
        later = self._advanced(known, number, measure(group, self.domains[number].signal), group.task)
        return self._remember(next_json(later, self._names, number, state), later)

    def with_factors(self, state: Mapping[str, JSON], factors: Mapping[str, float]) -> Mapping[str, JSON]:
        """The state in which the weights of the domains named are multiplied so, and no others, from the next round on
        that is not fixed yet: what a guard against forgetting does. Floors and ceilings hold. ValueError on a name
        that is no domain's and on a factor that is not positive.
        """
        wrong = [name for name, factor in factors.items() if name not in self._names or not 0 < factor < np.inf]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no domain, or its factor {factors[wrong[0]]} is not positive and finite")
        known = self._known(state)
        numbers = np.array([*{**dict.fromkeys(self._names, 1.0), **factors}.values()])
        return self._remember({**state, "factors": dict(factors)}, replace(known, factors=numbers))

    def with_back(self, state: Mapping[str, JSON], domains: Collection[str]) -> Mapping[str, JSON]:
        """The state in which retired tasks of these domains are in use again, for tickets that are not in flight."""
        known = self._known(state)
        if self.retirement is None:
            return state
        solved = known.solved
        for name in domains:
            solved = self.retirement.bring_back(solved, name, known.observed, self.lag)
        return self._remember({**state, "solved": cast(JSON, solved)}, replace(known, solved=solved))

    def _rests(self, solved: Solved, ticket: int, task: Task) -> bool:
        rule = self.retirement
        return rule is not None and rule.rests(solved, task.domain, task.id, ticket, self.lag)

    def _advanced(self, known: Known, number: int, seen: Seen, task: Task) -> Known:
        level, solved = task.level, known.solved
        if self.retirement is not None:
            solved = self.retirement.record(solved, task.domain, task.id, known.observed, seen.scores, self.lag)
        observed, end = known.observed + 1, known.observed + 1 + self.lag
        estimates, standings, counts = list(known.estimates), list(known.standings), known.counts.copy()
        counts[number] += 1
        before = standings[number]
        current = before is None or before.level == level
        estimates[number] = with_group(estimates[number], seen, observed, self.decay, current=current)
        if before is not None:
            after = moved(before, self.levelled[self._names[number]].levels, self.ladder, level, seen.scores)
            standings[number] = after
            if after.level != before.level:
                estimates[number] = at_new_level(estimates[number])
        later = replace(
            known,
            observed=observed,
            counts=counts,
            estimates=tuple(estimates),
            standings=tuple(standings),
            solved=solved,
            plan=known.plan[1:],
        )
        rounds = known.rounds if end % self.every else self._with_round(later, end)
        rounds = tuple(r for r, n in zip(rounds, (*rounds[1:], None), strict=True) if n is None or n.first >= observed)
        plan, ahead = planned(later.plan, later.ahead, rounds, end, end + 1)
        return replace(later, rounds=rounds, plan=plan, ahead=ahead)

    def _with_round(self, known: Known, first: int) -> tuple[Round, ...]:
        """The rounds with the one that begins at ticket `first`, where shares or levels are to change."""
        last = known.rounds[-1]
        if first <= last.first:  # fixed by a run with a longer lag, before a resume
            return known.rounds
        weights = self.strategy(tabulate(known.estimates, known.observed, self.decay), self._prior)
        if not (np.isfinite(weights).all() and (weights[self._prior > 0] > 0).all()):
            raise ConfigError("the curriculum's strategy gave a weight that is 0 or not finite: give it a floor")
        wished = shares_within(self._tree, np.where(self._prior > 0, known.factors * weights, 0.0))
        levels = tuple(None if s is None else s.level for s in known.standings)
        if np.array_equal(wished, last.shares) and levels == last.levels:
            return known.rounds
        base = last.wanted(first)
        part, shares = furthest_change(base - known.ahead, last.shares, wished)
        return (*known.rounds, Round(first=first, base=base, shares=shares, levels=levels, part=part))

    def _task(self, number: int, turn: int, frontier: int | None, rests: Callable[[Task], bool]) -> Task:
        domain = self.domains[number]
        if frontier is None:
            return _task_of_turn(domain.tasks, turn, rests, self.seed, "tasks", domain.name)
        levels = self.levelled[domain.name].levels
        level = level_of_turn(levels, frontier, turn, self.ladder, self.seed, "level", domain.name)
        task = _task_of_turn(self._source(domain.name, level), turn, rests, self.seed, "tasks", domain.name, level)
        if task.level != level:
            raise ConfigError(f"domain {domain.name!r}: at_level({level}) gave a task of level {task.level}")
        return task

    def _source(self, name: str, level: int) -> TaskSource:
        if (name, level) not in self._sources:
            self._sources[name, level] = self.levelled[name].at_level(level)
        return self._sources[name, level]

    def _known(self, state: Mapping[str, JSON]) -> Known:
        for remembered, known in self._memo:
            if remembered is state:
                return known
        levelled = [name in self.levelled for name in self._names]
        known = from_json(cast(Mapping[str, Any], state), self._names, levelled, self.lag + 1)
        standings = tuple(
            s and replace(s, level=clamp_level(self.levelled[n].levels, s.level))
            for n, s in zip(self._names, known.standings, strict=True)
        )
        known = replace(known, standings=standings)
        self._remember(state, known)
        return known

    def _remember(self, state: Mapping[str, JSON], known: Known) -> Mapping[str, JSON]:
        self._memo.insert(0, (state, known))
        del self._memo[REMEMBERED:]
        return state


def _task_of_turn(source: TaskSource, turn: int, rests: Callable[[Task], bool], *seed_path: int | str) -> Task:
    """The task of a domain's ticket number `turn`: all tasks in a fresh order every epoch, and in place of one that
    rests the next that does not."""
    epoch, place = divmod(turn, len(source))
    order = _shuffled(derive_seed(*seed_path, epoch), len(source))
    looked_at = (source[order[(place + n) % len(order)]] for n in range(min(MOST_LOOKED_AT, len(order))))
    first = next(looked_at)
    return first if not rests(first) else next((task for task in looked_at if not rests(task)), first)


@lru_cache(maxsize=1024)  # an epoch is walked ticket by ticket, and a large domain is not to be shuffled for each
def _shuffled(seed: int, count: int) -> tuple[int, ...]:
    order = list(range(count))
    Random(seed).shuffle(order)
    return tuple(order)
