"""Tries hold every distinct token once, and plans keep to their budget."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.core.types import NOT_SAMPLED, TrainingSample
from strop.learner.plan import plan_micro_batches
from strop.learner.tries import build_tries


def sample(ids, ticket=0):
    return TrainingSample(
        token_ids=ids, loss_mask=np.arange(len(ids)) > 0, versions=np.full(len(ids), NOT_SAMPLED), ticket=ticket
    )


lists_of_ids = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(lists_of_ids)
def test_one_node_for_each_distinct_prefix(lists):
    (trie,) = build_tries([sample(ids) for ids in lists], max_nodes=1000)
    assert len(trie) == len({tuple(ids[: n + 1]) for ids in lists for n in range(len(ids))})
    for ids, path in zip(lists, trie.paths, strict=True):
        assert trie.token_ids[path].tolist() == ids
        assert trie.positions[path].tolist() == list(range(len(ids)))
        for node in path:
            assert np.flatnonzero(trie.seen()[node]).tolist() == [n for n in path if n <= node]


def test_a_group_shares_its_prompt_and_tickets_stay_apart():
    prompt = [5, 6, 7]
    tries = build_tries(
        [sample([*prompt, 1, 2]), sample([*prompt, 1, 3]), sample([*prompt, 1, 2], ticket=1)], max_nodes=1000
    )
    assert [len(t) for t in tries] == [6, 5]
    assert [t.members for t in tries] == [(0, 1), (2,)]


def test_a_trie_over_budget_is_split_between_samples():
    samples = [sample([5, 6, 7, 10 + n, 20 + n]) for n in range(6)]
    tries = build_tries(samples, max_nodes=7)
    assert [t.members for t in tries] == [(0, 1), (2, 3), (4, 5)]
    assert max(len(t) for t in tries) <= 7
    assert [t.members for t in build_tries(samples, max_nodes=1)] == [(n,) for n in range(6)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 100))
def test_micro_batches_hold_every_trie_once_within_their_area(sizes, budget):
    batches = plan_micro_batches(sizes, max_tokens=budget)
    assert sorted(n for batch in batches for n in batch) == list(range(len(sizes)))
    assert all(len(b) == 1 or len(b) * max(sizes[n] for n in b) <= budget for b in batches)
