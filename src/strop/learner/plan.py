"""Which tries are computed together. Pure: sizes in, numbers of tries out."""

from __future__ import annotations

from collections.abc import Sequence


def plan_micro_batches(sizes: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Tries of similar size together, so that their padded area (rows times the longest) stays within `max_tokens`.

    A single trie over the budget is a micro-batch of its own.
    """
    batches: list[list[int]] = []
    longest = 0
    for number in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        if batches and (len(batches[-1]) + 1) * longest <= max_tokens:
            batches[-1].append(number)
        else:
            batches.append([number])
            longest = sizes[number]
    return batches
