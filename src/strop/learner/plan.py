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


def plan_ranks(batches: Sequence[Sequence[int]], sizes: Sequence[int], *, num_ranks: int) -> list[list[list[int]]]:
    """The micro-batches of each rank: balanced by cost, and equally many everywhere (empty ones fill up).

    The cost of a trie of n nodes is n + n^2 / 2048: linear layers, and attention, which overtakes them as n grows.
    """
    ranks: list[list[list[int]]] = [[] for _ in range(num_ranks)]
    loads = [0.0] * num_ranks

    def cost(batch: Sequence[int]) -> float:
        return sum(sizes[n] + sizes[n] ** 2 / 2048 for n in batch)

    for batch in sorted(batches, key=cost, reverse=True):
        lightest = loads.index(min(loads))
        ranks[lightest].append(list(batch))
        loads[lightest] += cost(batch)
    count = max(len(rank) for rank in ranks)
    return [rank + [[] for _ in range(count - len(rank))] for rank in ranks]
