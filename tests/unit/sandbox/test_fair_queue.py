"""The queue that takes from its domains in turn."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.sandbox.fair_queue import FairQueue


def test_a_small_domain_is_not_starved_by_a_large_one():
    queue = FairQueue()
    for number in range(10_000):
        queue.put("large", number)
    queue.put("small", "a")
    queue.put("small", "b")
    assert [queue.take() for _ in range(5)] == [0, "a", 1, "b", 2]
    assert len(queue) == 9997


def test_what_is_put_back_is_the_next_of_its_domain():
    queue = FairQueue()
    for item in "ab":
        queue.put("one", item)
    assert queue.take() == "a"
    queue.put_back("one", "a")
    assert [queue.take(), queue.take()] == ["a", "b"]
    with pytest.raises(IndexError):
        queue.take()


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_every_item_comes_once_in_order_and_no_domain_is_more_than_one_ahead(domains):
    queue = FairQueue()
    for number, domain in enumerate(domains):
        queue.put(domain, (domain, number))
    left, taken = Counter(domains), []
    while len(queue):
        taken.append(queue.take())
    assert sorted(taken, key=lambda item: item[1]) == [(domain, number) for number, domain in enumerate(domains)]
    served = Counter()
    for domain, _ in taken:
        served[domain] += 1
        open_domains = [name for name in left if served[name] < left[name]]
        assert all(served[domain] - served[name] <= 1 for name in open_domains)
    for name in left:
        numbers = [number for domain, number in taken if domain == name]
        assert numbers == sorted(numbers)
