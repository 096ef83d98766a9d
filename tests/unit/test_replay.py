"""Replay of own good groups, and what became of each task."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import completion, group

from strop.core.errors import ConfigError
from strop.curriculum.history import (
    TaskRecord,
    TaskResult,
    record,
    record_of,
    result_of,
    results_of_rows,
    samples_seen,
    solved_tasks,
)
from strop.curriculum.replay import Replay, oldest_version


def versioned(made, *versions):
    """The group with one version for all tokens of each rollout."""
    members = []
    for member, version in zip(made.rollouts, versions, strict=True):
        turns = tuple(replace(t, completion=completion([50, 51], versions=[version] * 2)) for t in member.turns)
        members.append(replace(member, turns=turns))
    return replace(made, rollouts=tuple(members))


def filled(rule, *groups):
    state, store = rule.start(), {}
    for one in groups:
        state, kept = rule.observe(state, one)
        if kept.put is not None:
            store[kept.put] = one
        for key in kept.delete:
            del store[key]
    return json.loads(json.dumps(state)), store


def test_only_groups_with_a_success_and_a_failure_are_kept():
    state, store = filled(
        Replay(),
        group([1.0, 0.0], ticket=1),
        group([1.0, 1.0], ticket=2),  # nothing to tell success from
        group([0.0, 0.9], ticket=3),  # not high enough
        group([None, 1.0], ticket=4),  # the other has no reward
        group([None, None], ticket=5),
    )
    assert set(store) == {"1-0"} == {entry["key"] for entry in state["entries"]}


def test_a_task_has_one_group_and_a_full_domain_gives_up_its_oldest():
    rule = Replay(max_per_domain=2)
    again = replace(group([1.0, 0.0], ticket=9), task=group([0.0], ticket=2).task)
    first = [group([1.0, 0.0], ticket=n) for n in (1, 2)]
    _, store = filled(rule, *first, again)
    assert set(store) == {"1-0", "9-0"}
    _, store = filled(rule, *first, group([1.0, 0.0], ticket=3), group([1.0, 0.0], ticket=4, domain="e"))
    assert set(store) == {"2-0", "3-0", "4-0"}
    state, store = filled(rule, *first, first[1])
    assert set(store) == {"1-0", "2-0"} and len(state["entries"]) == 2


def test_the_share_is_exact_over_steps_and_each_group_is_replayed_so_often_only():
    rule = Replay(share=0.1, max_replays=2)
    state, _ = filled(rule, *(group([1.0, 0.0], ticket=n) for n in range(3)))
    replayed = []
    for _ in range(10):
        state, chosen = rule.choose(state, version=1, num_groups=8)
        replayed.append(len(chosen.replay))
    assert replayed == [0, 1, 1, 1, 1, 0, 1, 1, 0, 0], "6 = 3 groups twice; 0.8 a step"


def test_what_was_not_used_is_not_saved_up():
    rule = Replay(share=0.25)
    state = rule.start()
    for _ in range(50):
        state, chosen = rule.choose(state, version=1, num_groups=8)
        assert not chosen.replay
    for n in range(20):
        state, _ = rule.observe(state, group([1.0, 0.0], ticket=n))
    assert len(rule.choose(state, version=1, num_groups=8)[1].replay) == 2


@settings(deadline=None, max_examples=30)
@given(
    share=st.floats(0, 0.25),
    steps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=12),
)
def test_replay_never_exceeds_its_share(share, steps):
    rule, ticket, fresh, used = Replay(share=share, max_replays=3), 0, 0, 0
    state = rule.start()
    for num_groups, num_new in steps:
        for _ in range(num_new):
            ticket += 1
            state, _ = rule.observe(state, group([1.0, 0.0], ticket=ticket, domain=f"d{ticket % 3}"))
        state, chosen = rule.choose(state, version=1, num_groups=num_groups)
        assert len(set(chosen.replay)) == len(chosen.replay)
        fresh, used = fresh + num_groups, used + len(chosen.replay)
        assert used <= share * fresh + 1e-6


def test_what_is_too_old_is_deleted_by_its_oldest_token():
    rule = Replay(share=0.25, max_staleness=3)
    old = versioned(group([1.0, 0.0], ticket=1), 5, 2)
    assert oldest_version(old) == 2
    state, _ = filled(rule, old, versioned(group([1.0, 0.0], ticket=2), 5, 5))
    state, chosen = rule.choose(state, version=5, num_groups=8)
    assert set(chosen.replay) == {"1-0", "2-0"} and not chosen.delete
    state, chosen = rule.choose(state, version=6, num_groups=8)
    assert (chosen.replay, chosen.delete) == (("2-0",), ("1-0",))


def test_domains_take_turns_and_only_those_asked_for_are_replayed():
    rule = Replay(share=0.25)
    many = [group([1.0, 0.0], ticket=n, domain="a") for n in range(5)]
    state, _ = filled(rule, *many, group([1.0, 0.0], ticket=9, domain="b"))
    assert rule.choose(state, version=0, num_groups=8)[1].replay == ("4-0", "9-0"), "the newest of each"
    assert rule.choose(state, version=0, num_groups=8, domains=["b"])[1].replay == ("9-0",)
    assert rule.choose(state, version=0, num_groups=8, domains=[])[1].replay == ()


@pytest.mark.parametrize("wrong", [{"share": 0.3}, {"share": -0.1}, {"max_replays": 0}, {"max_per_domain": 0}])
def test_a_share_that_drowns_the_present_is_refused(wrong):
    with pytest.raises(ConfigError, match="replay"):
        Replay(**wrong)


def after(*results, task="t"):
    history = {}
    for step, passes in results:
        history = record(history, TaskResult(domain="d", task_id=task, step=step, attempts=4, passes=passes))
    return json.loads(json.dumps(history))


def test_the_history_counts_what_happened():
    assert record_of(after((1, 2), (3, 0)), "d", "t") == TaskRecord(attempts=8, passes=2, last_step=3, last_pass_step=1)
    assert record_of({}, "d", "t") == TaskRecord()
    unscored = TaskResult(domain="d", task_id="t", step=5, attempts=0, passes=0)
    assert record(after((1, 2)), unscored) == after((1, 2))


def test_solved_tasks_come_in_the_order_of_their_last_pass():
    history = {"d": {**after((1, 1))["d"], **after((7, 4), task="u")["d"], **after((9, 0), task="v")["d"]}}
    assert solved_tasks(history, "d") == ("u", "t")
    assert solved_tasks(history, "none") == ()


def test_results_come_from_groups_and_from_records_alike():
    made = group([1.0, 0.0, None], ticket=3)
    assert result_of(made, 7, "accuracy") == TaskResult(domain="d", task_id="t3", step=7, attempts=2, passes=1)
    rows = [
        {"step": 7, "ticket": 3, "domain": "d", "task_id": "t3", "scores": {"accuracy": {"value": value}}}
        for value in (1.0, 0.0, None)
    ]
    assert results_of_rows(rows) == [result_of(made, 7, "accuracy")]
    assert results_of_rows(rows, {"d": "other"})[0].attempts == 0


def test_what_was_seen_has_a_hash_of_its_own():
    one, other = samples_seen(after((1, 4))), samples_seen(after((1, 4), task="u"))
    assert one["num_tasks"] == other["num_tasks"] == 1 and one["digest"] != other["digest"]
    assert one == samples_seen(after((1, 4), (9, 0))), "what was seen, not how it went"
