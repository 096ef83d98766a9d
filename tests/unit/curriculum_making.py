"""Domains without environments, and groups whose scores a test decides."""

from dataclasses import dataclass
from functools import cache

from making import rollout

from strop.core.protocols import Domain
from strop.core.types import Message, RolloutGroup, SamplingParams, Task
from strop.environments.single_turn import SingleTurn


@dataclass(frozen=True)
class Tasks:
    """`count` tasks of one level."""

    domain: str
    count: int = 7
    level: int | None = None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        name = f"{self.domain}/{self.level}/{index}"
        return Task(id=name, domain=self.domain, prompt=(Message(role="user", content="q"),), level=self.level)


@dataclass(frozen=True)
class Levelled(Tasks):
    levels: tuple[int, ...] = (1, 2, 3, 5)

    def at_level(self, level):
        return Tasks(self.domain, self.count, level)


def domain(name, weight=1.0, parent=None, count=7):
    return Domain(
        name=name,
        tasks=Tasks(name, count),
        held_out=Tasks(name),
        environment=SingleTurn,
        rewards=(),
        sampling=SamplingParams(max_tokens=1),
        weight=weight,
        parent=parent,
    )


@cache
def attempt(index, score, tokens=2):
    return rollout(index, score, lengths=(tokens,))


def group_of(task, ticket, scores, tokens=2):
    """A group whose rollouts have `scores`; None is an infrastructure failure."""
    rollouts = tuple(attempt(i, score, tokens) for i, score in enumerate(scores))
    return RolloutGroup(ticket=ticket, attempt=0, task=task, rollouts=rollouts)
