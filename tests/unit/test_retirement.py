"""Solved tasks rest and come back, and what a ticket gets does not depend on when it is asked for."""

import json
from dataclasses import replace

import pytest
from curriculum_making import Levelled, domain, group_of
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.core.errors import ConfigError
from strop.curriculum.mixture import Mixture
from strop.curriculum.retirement import Retirement

RULE = Retirement(clean_groups=2, rest_tickets=10, kept_share=0.0)
RIGHT, MIXED = (1.0, 1.0), (1.0, 0.0)


def after(*groups, rule=RULE, task="t", lag=0):
    solved = {}
    for ticket, scores in groups:
        solved = rule.record(solved, "d", task, ticket, scores, lag)
    return json.loads(json.dumps(solved))


def rests(solved, ticket, lag=0, task="t"):
    return RULE.rests(solved, "d", task, ticket, lag)


def test_a_task_rests_after_clean_groups_in_a_row_and_is_due_again_after_a_while():
    assert not rests(after((1, RIGHT)), 2)
    assert not rests(after((1, RIGHT), (2, MIXED), (3, RIGHT)), 4), "not in a row"
    solved = after((1, RIGHT), (2, RIGHT))
    assert not rests(solved, 2) and rests(solved, 3) and rests(solved, 11) and not rests(solved, 12)
    assert rests(after((1, RIGHT), (2, RIGHT), (12, RIGHT)), 21), "passed again, so it rests again"
    assert not rests(after((1, RIGHT), (2, RIGHT), (12, MIXED)), 13), "failed, so it is in use"


def test_a_group_without_a_score_says_nothing():
    assert after((1, ())) == {}
    assert after((1, RIGHT), (2, ()), (3, RIGHT)) == after((1, RIGHT), (3, RIGHT))


def test_a_task_never_solved_takes_no_room():
    assert after((1, MIXED), (2, MIXED)) == {}
    assert after((1, RIGHT), (2, MIXED)) == {"d": {}}


def test_a_task_rests_only_for_tickets_that_no_older_state_could_assign():
    solved = after((1, RIGHT), (2, RIGHT), lag=5)
    assert [ticket for ticket in range(3, 20) if rests(solved, ticket, lag=5)] == [8, 9, 10, 11]


def test_a_forgotten_domain_brings_its_tasks_back_and_they_must_pass_anew():
    solved = {**after((1, RIGHT), (2, RIGHT)), "other": after((1, RIGHT), (2, RIGHT))["d"]}
    back = RULE.bring_back(solved, "d", 3, 0)
    assert rests(back, 3) and not rests(back, 4), "a ticket in flight keeps its task"
    assert RULE.rests(back, "other", "t", 4, 0)
    assert not rests(RULE.record(back, "d", "t", 4, RIGHT, 0), 5)
    assert RULE.bring_back(solved, "none", 3, 0) == solved


def test_some_solved_tasks_never_rest():
    rule = replace(RULE, kept_share=0.1)
    resting = [
        rule.rests(after((1, RIGHT), (2, RIGHT), rule=rule, task=f"t{n}"), "d", f"t{n}", 3, 0) for n in range(300)
    ]
    assert 0.85 <= sum(resting) / 300 <= 0.95


@pytest.mark.parametrize("wrong", [{"clean_groups": 0}, {"rest_tickets": 0}, {"kept_share": 1.1}])
def test_a_rule_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError, match="retirement"):
        Retirement(**{"rest_tickets": 1, **wrong})


def mixture(lag=0, rest=1000, count=4, **changes):
    rule = Retirement(clean_groups=1, rest_tickets=rest, kept_share=0.0)
    domains = (domain("a", count=count), domain("b", count=count))
    return Mixture(domains=domains, seed=0, lag=lag, retirement=rule, **changes)


def played(curriculum, num_tickets, scores_of):
    """States and tasks of a run, the scores of each task given."""
    states, tasks = [curriculum.start()], []
    for ticket in range(num_tickets):
        tasks.append(curriculum.assign(states[-1], ticket))
        states.append(curriculum.observe(states[-1], group_of(tasks[-1], ticket, scores_of(tasks[-1], ticket))))
    return states, tasks


def test_a_solved_task_is_not_given_again_and_the_others_take_its_turns():
    _, tasks = played(mixture(), 40, lambda task, _: (1.0, 1.0) if task.id in ("a/None/0", "b/None/1") else (1.0, 0.0))
    names = [task.id for task in tasks]
    assert names.count("a/None/0") == names.count("b/None/1") == 1
    assert min(names.count(f"a/None/{n}") for n in (1, 2, 3)) >= 5


def test_where_all_rest_the_turn_keeps_its_task():
    _, tasks = played(mixture(), 24, lambda *_: (1.0, 1.0))
    assert len(tasks) == 24


def test_a_task_comes_back_when_its_rest_is_over():
    _, tasks = played(mixture(rest=12), 60, lambda *_: (1.0, 1.0))
    first = [n for n, task in enumerate(tasks) if task.id == tasks[0].id]
    assert len(first) >= 3


def test_the_guard_brings_tasks_back():
    curriculum = mixture(lag=2)
    states, _ = played(curriculum, 20, lambda *_: (1.0, 1.0))
    back = curriculum.with_back(states[-1], {"a"})
    solved = back["solved"]
    assert all(record["clean"] == 0 for record in solved["a"].values())
    assert solved["b"] == states[-1]["solved"]["b"]
    in_flight = range(20, 23)
    assert [curriculum.assign(back, t) for t in in_flight] == [curriculum.assign(states[-1], t) for t in in_flight]


def test_levels_have_tasks_of_their_own_that_rest():
    curriculum = mixture(levelled={"a": Levelled("a", 4)})
    _, tasks = played(curriculum, 60, lambda task, _: (1.0, 1.0) if task.id == "a/1/0" else (1.0, 0.0))
    assert [task.id for task in tasks].count("a/1/0") == 1


@settings(deadline=None, max_examples=40)
@given(
    outcomes=st.lists(st.booleans(), min_size=40, max_size=40),
    lag=st.integers(0, 6),
    rest=st.integers(1, 20),
    count=st.integers(1, 5),
)
def test_every_legal_state_and_every_resume_gives_the_same_task(outcomes, lag, rest, count):
    curriculum = mixture(lag, rest, count)
    states, tasks = played(curriculum, 40, lambda _, ticket: (1.0, 1.0) if outcomes[ticket] else (1.0, 0.0))
    again = mixture(lag, rest, count)
    for ticket, task in enumerate(tasks):
        for state in states[max(0, ticket - lag) : ticket + 1]:
            assert curriculum.assign(state, ticket) == task
            assert again.assign(json.loads(json.dumps(state)), ticket) == task
