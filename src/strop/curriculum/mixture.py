"""Which domain and task each ticket gets under fixed weights: exact shares, every epoch reshuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import cast

from strop.core.errors import ConfigError
from strop.core.protocols import Domain
from strop.core.seeds import derive_seed
from strop.core.types import JSON, RolloutGroup, Task


@dataclass(frozen=True)
class StaticMixture:
    """A Curriculum of fixed weights. After every ticket each domain's count is within one of its share.

    Tickets are apportioned by the deadline of each domain's next ticket (Tijdeman's quota rule): among the domains
    that may take one without exceeding their quota, the one whose next ticket is due first. A domain goes through all
    its tasks in a fresh order every epoch.
    """

    domains: Sequence[Domain]
    seed: int
    _plan: list[tuple[int, int]] = field(default_factory=list, init=False, repr=False, compare=False)
    _counts: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not any(domain.weight > 0 for domain in self.domains):
            raise ConfigError("every domain has weight 0: give at least one a positive weight")
        self._counts.extend([0] * len(self.domains))

    def start(self) -> Mapping[str, JSON]:
        return {"observed": {domain.name: 0 for domain in self.domains}}

    def assign(self, state: Mapping[str, JSON], ticket: int) -> Task:
        while len(self._plan) <= ticket:
            self._extend()
        number, turn = self._plan[ticket]
        domain = self.domains[number]
        epoch, place = divmod(turn, len(domain.tasks))
        seed = derive_seed(self.seed, "tasks", domain.name, epoch)
        return domain.tasks[_shuffled(seed, len(domain.tasks))[place]]

    def observe(self, state: Mapping[str, JSON], group: RolloutGroup) -> Mapping[str, JSON]:
        observed = cast(Mapping[str, int], state["observed"])
        name = group.task.domain
        return {"observed": {**observed, name: observed[name] + 1}}

    def _extend(self) -> None:
        ticket = len(self._plan)
        total = sum(domain.weight for domain in self.domains)
        shares = [domain.weight / total for domain in self.domains]
        eligible = [n for n, share in enumerate(shares) if share and self._counts[n] < share * (ticket + 1)]
        chosen = min(eligible, key=lambda n: ((self._counts[n] + 1) / shares[n], n))
        self._plan.append((chosen, self._counts[chosen]))
        self._counts[chosen] += 1


@lru_cache(maxsize=1024)  # an epoch is walked ticket by ticket, and a large domain is not to be shuffled for each
def _shuffled(seed: int, count: int) -> tuple[int, ...]:
    order = list(range(count))
    Random(seed).shuffle(order)
    return tuple(order)
