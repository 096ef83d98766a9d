"""The forgetting guard: exact where it can be, silent where nothing changed, quick where something was lost."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from strop.core.errors import ConfigError
from strop.curriculum.forgetting import (
    ForgettingGuard,
    Outcome,
    replay_domains,
    roll_back_step,
    rolled_back,
    share_factors,
)
from strop.curriculum.paired_drop import (
    best_window,
    holm_adjusted,
    paired_drop,
    permutation_p,
    sign_flip_p,
    tasks_needed,
)

TASKS, SAMPLES = 200, 2  # what a drop of ten points among 40 domains needs; see docs/forgetting.md


def column(*scores):
    return np.array(scores, float)[:, None]


def test_one_probe_a_side_of_right_and_wrong_is_mcnemar():
    # seven tasks lost, one gained: P(Binomial(8, 1/2) >= 7) = 9 / 256, whatever the tasks that did not change
    before = column(*[1] * 7, 0, *[1] * 20, *[0] * 5)
    now = column(*[0] * 7, 1, *[1] * 20, *[0] * 5)
    assert permutation_p(before, now) == pytest.approx(9 / 256)


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.3, 0.65, 1.0)])
def test_the_exact_test_is_the_enumeration_of_all_ways_to_draw(values):
    draw = np.random.default_rng(3)
    scores = draw.choice(values, (4, 5))
    scores[0, 1] = np.nan  # one task was not scored in one probe
    reference, now = scores[:, :3], scores[:, 3:]
    sums = [0.0]
    for task, seen in zip(scores, now, strict=True):
        known = task[~np.isnan(task)]
        ways = [sum(c) for c in itertools.combinations(known, int((~np.isnan(seen)).sum()))]
        sums = [total + way for total in sums for way in ways]
    expected = np.mean(np.array(sums) <= np.nansum(now) + 1e-9)
    assert permutation_p(reference, now) == pytest.approx(expected)


def test_the_sign_test_by_hand():
    assert sign_flip_p(np.array([1.0] * 9)) == pytest.approx(0.00135, abs=1e-5)  # z = 9 / sqrt(9) = 3
    assert sign_flip_p(np.zeros(5)) == 1.0
    assert sign_flip_p(np.array([-1.0] * 9)) == pytest.approx(1 - 0.00135, abs=1e-5)


def test_a_drop_is_paired_over_the_tasks_that_both_have():
    before = np.array([[1.0, 1.0], [1.0, 0.0], [np.nan, np.nan], [1.0, 1.0]])
    now = np.array([[0.0], [0.0], [0.0], [np.nan]])
    drop = paired_drop(before, now)
    assert (drop.value, drop.num_tasks) == (0.75, 2)
    assert paired_drop(before[2:], now[2:]) is None
    low, high = replace(drop, se=0.1).interval(0.025)
    assert (low, high) == (pytest.approx(0.75 - 0.196, abs=1e-3), pytest.approx(0.75 + 0.196, abs=1e-3))


def test_holm_and_the_best_window():
    assert holm_adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_adjusted([]) == []
    scores = np.array([[0, 1, 1, 0, 1, 1, 0]], float)
    assert best_window(scores, 2) == slice(4, 6)  # the latest of equals
    assert best_window(scores, 7) == slice(0, 7)


def probe(draw, rates, num_samples=1):
    """Outcomes of a model that solves task n of each domain with probability rates[domain][n]."""
    return [
        Outcome(domain=name, task_id=f"{name}-{n}", score=float(right))
        for name, chances in rates.items()
        for _ in range(num_samples)
        for n, right in enumerate((draw.random(len(chances)) < chances).tolist())
    ]


def spread_rates(draw, num_domains, num_tasks):
    """Domains of every kind: nearly solved, hopeless, and tasks from impossible to sure."""
    kinds = [(19, 1), (1, 19), (1, 1), (0.3, 0.3)]
    return {f"d{n}": draw.beta(*kinds[n % 4], num_tasks) for n in range(num_domains)}


def run(draw, guard, rates, num_probes, drop_at=None, domain="d2", num_samples=1, drop=0.1):
    """All events of a run, and its last state; from probe `drop_at` on the domain's mean is lower by `drop`."""
    state, events = guard.start(), []
    for number in range(num_probes):
        true = rates
        if drop_at is not None and number >= drop_at:
            true = {**rates, domain: rates[domain] * (1 - drop / rates[domain].mean())}
        state, found = guard.review(state, 10 * (number + 1), probe(draw, true, num_samples))
        events += found
    return events, json.loads(json.dumps(state))


def test_a_model_that_does_not_change_raises_a_false_alarm_in_at_most_one_run_of_twenty():
    draw = np.random.default_rng(0)
    guard = ForgettingGuard(num_probes=20, min_drop=0.0)
    alarms = sum(bool(run(draw, guard, spread_rates(draw, 40, 20), 20)[0]) for _ in range(20))
    assert alarms / 20 <= 0.05


def test_a_guard_that_spends_ten_times_as_much_at_every_look_is_told_apart():
    draw = np.random.default_rng(0)
    guard = ForgettingGuard(num_probes=1, alpha=0.5, min_drop=0.0)
    found = 0
    for _ in range(4):
        rates, state = spread_rates(draw, 40, 20), guard.start()
        for step in range(10):
            state, events = guard.review({**state, "looks": 0}, step, probe(draw, rates))
            found += bool(events)
    assert found >= 1, "the simulation raises no alarm whatever the guard does"


def test_tasks_that_change_places_are_no_drop():
    """Half the tasks get better and half worse by as much: skill is the same, no single task is."""
    draw = np.random.default_rng(1)
    guard = ForgettingGuard(num_probes=6, min_drop=0.0)
    for _ in range(4):
        state, swapped = guard.start(), {f"d{n}": draw.permutation([0.05] * 100 + [0.95] * 100) for n in range(10)}
        for number in range(6):
            rates = swapped if number < 3 else {name: 1 - chances for name, chances in swapped.items()}
            state, events = guard.review(state, number, probe(draw, rates))
            assert not events


def test_a_drop_of_ten_points_in_one_of_forty_domains_is_found_within_two_probes():
    draw = np.random.default_rng(2)
    guard = ForgettingGuard(num_probes=20, actions=("raise_share",))
    steps = []
    for _ in range(10):
        others = {f"d{n}": np.full(4, 0.5) for n in range(40) if n != 2}
        rates = {**others, "d2": draw.uniform(0, 1, TASKS)}
        events, _ = run(draw, guard, rates, 12, drop_at=10, num_samples=SAMPLES)
        assert {event.domain for event in events} <= {"d2"}
        steps += [event.step for event in events][:1]
    assert all(step in (110, 120) for step in steps)
    assert len(steps) >= 8, "of ten; the chance is 0.93 each"


def test_a_domain_whose_share_is_raised_recovers_and_is_left_alone_then():
    """A model whose lost skill comes back by half a probe while the domain's share is raised, and never else."""
    draw = np.random.default_rng(5)
    guard = ForgettingGuard(num_probes=20, actions=("raise_share",), num_steps=50)
    state, rates, lost, events = guard.start(), draw.uniform(0, 1, TASKS), 0.0, []
    for number in range(20):
        step = 10 * (number + 1)
        lost = 0.15 if number == 8 else lost / 2 if "d" in share_factors(state, step) else lost
        now = {"d": rates * (1 - lost / rates.mean()), "e": rates}
        state, found = guard.review(state, step, probe(draw, now, SAMPLES))
        events += found
    assert [event.domain for event in events] == ["d"] and events[0].step in (90, 100)
    assert 0 < lost <= 0.01, "within one point, though the share was raised for 50 steps only"
    assert share_factors(state, 200) == {}


def test_tasks_needed_agrees_with_what_was_simulated():
    known = dict(num_domains=40, num_probes=20, num_windows=11)
    assert 160 <= tasks_needed(0.1, variance=1 / 6 / SAMPLES, **known) <= TASKS
    assert tasks_needed(0.2, **known) == pytest.approx(tasks_needed(0.1, **known) / 4, rel=0.01)


def sure(**right):
    """A probe of 40 tasks a domain, of which so many are right, the same ones every time."""
    return [
        Outcome(domain=name, task_id=f"t{n}", score=float(n < count))
        for name, count in right.items()
        for n in range(40)
    ]


def test_the_evidence_names_what_was_compared():
    guard = ForgettingGuard(num_probes=10, actions=("raise_share", "replay", "roll_back", "stop"), num_steps=30)
    state = guard.start()
    for step, right in ((10, 34), (20, 36), (30, 36)):
        state, events = guard.review(state, step, sure(a=right, b=30))
        assert not events
    assert guard.steps_to_keep(state) == (30,)
    state, events = guard.review(state, 40, sure(a=2, b=30))
    first = events[0]
    assert [event.action for event in events] == ["raise_share", "replay", "roll_back", "stop"]
    assert {event.domain for event in events} == {"a"}
    assert (first.best_steps, first.now_steps, first.num_tasks) == ((10, 20), (30, 40), 40)
    assert first.drop == pytest.approx((34 + 36) / 80 - (36 + 2) / 80)
    assert first.low <= first.drop <= first.high and first.p_corrected <= 0.05


def a_fall(guard, steps=(10, 20, 30, 40, 50), rights=(36, 36, 36, 4, 4)):
    state, events = guard.start(), []
    for step, right in zip(steps, rights, strict=True):
        state, found = guard.review(state, step, sure(a=right, b=30))
        events += found
    return state, events


def test_actions_hold_for_a_while_and_every_event_is_json():
    guard = ForgettingGuard(num_probes=10, num_steps=30)
    state, events = a_fall(guard)
    share, replayed = events
    assert share.step == 40, "a fall of 32 of 40 tasks needs one probe"
    assert (share.action, share.factor, share.until_step) == ("raise_share", 2.0, 70)
    assert (share.best_steps, share.now_steps) == ((10, 20), (30, 40))
    assert replayed.action == "replay" and replayed.until_step == 70
    assert share_factors(state, 69) == {"a": 2.0} and replay_domains(state, 69) == ("a",)
    assert share_factors(state, 70) == {} and replay_domains(state, 70) == ()
    assert json.loads(json.dumps(share.to_json()))["now_steps"] == [30, 40]
    assert guard.standings(state, 50)["a"].best == 0.9 and guard.standings(state, 50)["a"].now == 0.1


def test_a_domain_that_stays_low_is_raised_again_after_the_cool_down_up_to_a_bound():
    guard = ForgettingGuard(num_probes=12, actions=("raise_share",), max_factor=4.0, num_steps=100)
    steps = tuple(range(10, 110, 10))
    _, events = a_fall(guard, steps, (36, 36, 36, *[4] * 7))
    assert [(e.step, e.factor) for e in events] == [(40, 2.0), (70, 4.0), (100, 4.0)]


def test_a_small_drop_is_proven_but_not_acted_upon():
    guard = ForgettingGuard(num_probes=5, min_drop=0.95)
    assert a_fall(guard)[1] == []


def test_rolling_back_goes_where_the_domain_stood_best_and_forgets_what_came_after():
    guard = ForgettingGuard(num_probes=10, actions=("roll_back",))
    state, events = a_fall(guard)
    assert roll_back_step(events) == 20
    assert 20 in guard.steps_to_keep(guard_state_before(guard))
    back = rolled_back(state, 20)
    assert [p["step"] for p in back["domains"]["a"]["probes"]] == [10, 20]
    assert back["looks"] == state["looks"], "what was spent stays spent"
    after, events = guard.review(back, 60, sure(a=36, b=30))
    assert not events and after["domains"]["a"]["probes"][-1]["step"] == 60
    assert roll_back_step([]) is None


def guard_state_before(guard):
    state = guard.start()
    for step in (10, 20):
        state, _ = guard.review(state, step, sure(a=36, b=30))
    return state


def test_domains_may_take_turns_and_tasks_may_come_and_go():
    guard = ForgettingGuard(num_probes=4)
    state, _ = guard.review(guard.start(), 10, sure(a=36))
    state, _ = guard.review(state, 20, sure(b=36))
    state, _ = guard.review(state, 30, [*sure(a=36)[:20], Outcome(domain="a", task_id="new", score=0.5)])
    scores = state["domains"]["a"]["probes"]
    assert len(scores[0]["scores"]) == len(scores[1]["scores"]) == 41
    assert scores[0]["scores"][40] is None and scores[1]["scores"][39] is None
    assert len(state["domains"]["b"]["probes"]) == 1


def test_what_cannot_be_is_refused():
    guard = ForgettingGuard(num_probes=1)
    with pytest.raises(ValueError, match=r"task t, a score|task t: a score"):
        guard.review(guard.start(), 1, [Outcome(domain="a", task_id="t", score=1.5)])
    state, _ = guard.review(guard.start(), 1, sure(a=3))
    with pytest.raises(ValueError, match="planned"):
        guard.review(state, 2, sure(a=3))
    for wrong in (
        {"actions": ("rollback",)},
        {"actions": ()},
        {"alpha": 1.0},
        {"now_probes": 9},
        {"share_factor": 9.0},
        {"num_steps": 0},
        {"min_drop": -0.1},
    ):
        with pytest.raises(ConfigError, match="forgetting"):
            ForgettingGuard(**{"num_probes": 5, **wrong})
