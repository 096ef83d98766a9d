"""The one buffer: bounds staleness by admission and hands groups out in ticket order.

A ticket is admitted into a slot, becomes a group, is trained on, and frees its slot when the weights that learned from
it have been published. With `(max_staleness + 1) * groups_per_step` slots, at most `max_staleness` publishes can lie
between the sampling of a group and its use, so nothing slow or hard is ever discarded for age.

    admit    waits for  a free slot                unblocked by  release, or a dropped group that is replaced
    take     waits for  the next step to be full   unblocked by  put
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from strop.core.types import RolloutGroup


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Finished:
    """A scored group, and why it is not worth training on (None when it is)."""

    group: RolloutGroup
    drop_reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepGroups:
    """What one step consumes: every ticket up to its end, in order, dropped ones included."""

    step: int
    finished: tuple[Finished, ...]
    places: int  # slots to free when the step is released
    next_ticket: int  # where the following step begins

    @property
    def groups(self) -> tuple[RolloutGroup, ...]:
        """The groups to train on; fewer than asked for when drops exceeded the replacements."""
        return tuple(f.group for f in self.finished if f.drop_reason is None)


class Buffer:
    """See the module. Lives on one event loop; which groups form a step depends on ticket order alone."""

    def __init__(
        self,
        *,
        groups_per_step: int,
        num_steps: int,
        max_staleness: int = 0,
        max_replacements: int = 0,
        first_step: int = 1,
        first_ticket: int = 0,
    ) -> None:
        self._groups_per_step = groups_per_step
        self._capacity = (max_staleness + 1) * groups_per_step
        self._max_replacements = max_replacements
        self._places_left = (num_steps - first_step + 1) * groups_per_step  # admitted tickets never outnumber these
        self._occupied = 0
        self._next_admitted = first_ticket
        self._next_resolved = first_ticket
        self._finished: dict[int, Finished] = {}
        self._step = first_step
        self._resolving: list[Finished] = []
        self._places = 0
        self._replaced = 0
        self._full: list[StepGroups] = []
        self._changed = asyncio.Condition()

    @property
    def backlog(self) -> int:
        """Finished groups that no step has taken yet."""
        return len(self._finished) + len(self._resolving) + sum(len(s.finished) for s in self._full)

    async def admit(self) -> int:
        """The next ticket, once there is a slot for it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._occupied < min(self._capacity, self._places_left))
            self._occupied += 1
            self._next_admitted += 1
            return self._next_admitted - 1

    async def put(self, finished: Finished) -> None:
        """Hand in the group of an admitted ticket, kept or dropped."""
        async with self._changed:
            self._finished[finished.group.ticket] = finished
            self._resolve()
            self._changed.notify_all()

    async def take(self) -> StepGroups:
        """The groups of the next step, waiting until it is full."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._full))
            return self._full.pop(0)

    async def release(self, step: StepGroups) -> None:
        """Free the slots of a step whose weights have been published."""
        async with self._changed:
            self._occupied -= step.places
            self._places_left -= step.places
            self._changed.notify_all()

    def _resolve(self) -> None:
        """Give finished tickets their place, in ticket order: only then is it known whose replacement one is."""
        while self._next_resolved in self._finished:
            finished = self._finished.pop(self._next_resolved)
            self._next_resolved += 1
            self._resolving.append(finished)
            if finished.drop_reason is not None and self._replaced < self._max_replacements:
                self._replaced += 1
                self._occupied -= 1  # a higher ticket takes its place
            else:
                self._places += 1
            if self._places == self._groups_per_step:
                self._close_step()

    def _close_step(self) -> None:
        self._full.append(
            StepGroups(
                step=self._step,
                finished=tuple(self._resolving),
                places=self._places,
                next_ticket=self._next_resolved,
            )
        )
        self._step += 1
        self._resolving, self._places, self._replaced = [], 0, 0
