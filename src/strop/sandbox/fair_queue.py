"""A queue that takes from its domains in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items wait per domain, first in, first out; `take` goes round the domains that have any.

    So a domain with one item waits for at most one item of each other domain, however many those hold.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, domain: str, item: T) -> None:
        self._waiting.setdefault(domain, deque()).append(item)

    def put_back(self, domain: str, item: T) -> None:
        """For an item that was taken and could not be served: it is the next of its domain."""
        self._waiting.setdefault(domain, deque()).appendleft(item)

    def take(self) -> T:
        """The next item; IndexError where none waits."""
        if not self._waiting:
            raise IndexError("the queue is empty")
        domain, items = next(iter(self._waiting.items()))
        item = items.popleft()
        if items:
            self._waiting.move_to_end(domain)
        else:
            del self._waiting[domain]
        return item
