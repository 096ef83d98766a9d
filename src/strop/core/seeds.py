"""Seeds derive from where a draw stands in the run, never from when it happens or which attempt it is."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from random import Random


def derive_seed(*path: int | str) -> int:
    """A 63-bit seed for the draw named by `path`, for example `(run_seed, ticket, index, turn)`.

    Equal paths give equal seeds on every machine and Python version; distinct paths give independent ones.
    """
    digest = hashlib.blake2b("/".join(f"{type(p).__name__}:{p}" for p in path).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big") >> 1


def shuffled_places(num_items: int, first: int, count: int, *path: int | str) -> list[int]:
    """Items at positions `first` to `first + count` of an endless sequence: every epoch is a new shuffle of all items.

    `path` (run seed, stage kind) and the epoch alone decide the order.
    """
    places = []
    for position in range(first, first + count):
        epoch, place = divmod(position, num_items)
        places.append(_order(num_items, epoch, path)[place])
    return places


@lru_cache(maxsize=4)
def _order(num_items: int, epoch: int, path: tuple[int | str, ...]) -> list[int]:
    order = list(range(num_items))
    Random(derive_seed(*path, epoch)).shuffle(order)
    return order
