"""The mixture whose shares and levels move: exact counts, lagged and pure, the same after a resume."""

import asyncio
import json
import time
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from curriculum_making import Levelled, Tasks, domain, group_of
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.core.errors import ConfigError
from strop.curriculum.difficulty import Ladder
from strop.curriculum.mixture import Mixture
from strop.curriculum.shares import Bounds, DomainGroup
from strop.curriculum.strategies import Strop, Uniform
from strop.scheduler.buffer import Buffer, Finished

PASSED, FAILED, MIXED, BROKEN = (1, 1, 1), (0, 0, 0), (1, 0, 0), (None, None, None)


@dataclass(frozen=True)
class Jumps:
    """Weights that change as they like with the number of groups seen."""

    choices: tuple

    def __call__(self, table, prior):
        return np.array(self.choices[int(table.groups.sum()) % len(self.choices)], float)


@dataclass(frozen=True)
class Grudge:
    """Much to whoever had less than the others, little to the others: many domains are due at once."""

    times: float = 100.0

    def __call__(self, table, prior):
        return np.where(table.groups < table.groups.mean(), self.times, 1.0)


def run(mixture, num_tickets, scores_of, resume_at=(), state=None):
    """The tasks assigned, and the states after each ticket; a resume is a fresh mixture with the state from JSON."""
    state = mixture.start() if state is None else state
    tasks, states = [], []
    for ticket in range(num_tickets):
        if ticket in resume_at:
            mixture, state = replace(mixture), json.loads(json.dumps(state))
        task = mixture.assign(state, ticket)
        state = mixture.observe(state, group_of(task, ticket, scores_of(task, ticket)))
        tasks.append(task)
        states.append(state)
    return tasks, states


def largest_error(states):
    return max(abs(d["wanted"] - d["realised"]) for state in states for d in state["domains"].values())


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.8, 0.2), (0.003, 0.997), (1, 2, 3.5), (0, 1), (1, 1, 1, 3, 7)])
def test_constant_weights_give_tickets_that_are_known_from_the_start(weights):
    domains = [domain(f"d{n}", weight) for n, weight in enumerate(weights)]
    whole = Mixture(domains=domains, seed=3, lag=200)
    start = whole.start()
    tasks, states = run(Mixture(domains=domains, seed=3, lag=5, every=4), 200, lambda *_: MIXED)
    assert [t.id for t in tasks] == [whole.assign(start, t).id for t in range(200)]
    assert states[-1]["observed"] == {d.name: sum(t.domain == d.name for t in tasks) for d in domains}
    assert len(states[-1]["rounds"]) == 1 and states[-1]["rounds"][0]["first"] == 0


@pytest.fixture(scope="module")
def large_run():
    """300 domains over 200 steps of 16 groups: pass rates that rise with practice, and some that nobody learns."""
    rng, draws = np.random.default_rng(0), Random(0)
    domains = [domain(f"d{n}", float(w)) for n, w in enumerate(rng.lognormal(0, 1, 300))]
    skill = {d.name: float(s) for d, s in zip(domains, rng.normal(-1, 3, 300), strict=True)}
    mixture = Mixture(domains=domains, seed=0, lag=2 * (16 + 8), every=16, strategy=Strop())
    state, errors, parts, tasks, spent_s = mixture.start(), [], {}, [], 0.0
    for ticket in range(200 * 16):
        started_s = time.process_time()
        task = mixture.assign(state, ticket)
        spent_s += time.process_time() - started_s
        rate = 1 / (1 + np.exp(-skill[task.domain]))
        group = group_of(task, ticket, [int(draws.random() < rate) for _ in range(8)])
        skill[task.domain] += 2 * rate * (1 - rate)
        started_s = time.process_time()
        state = mixture.observe(state, group)
        spent_s += time.process_time() - started_s
        errors.append(largest_error([state]))
        parts |= {r["first"]: r["part"] for r in state["rounds"]}
        tasks.append(task)
    return tasks, state, errors, list(parts.values()), spent_s / len(tasks)


def test_among_300_domains_every_count_stays_within_one_of_its_targets(large_run):
    tasks, last, errors, _, _ = large_run
    assert len(errors) == 3200 and max(errors) <= 1 + 1e-9
    assert last["observed"] == {name: sum(t.domain == name for t in tasks) for name in last["observed"]}
    assert min(last["observed"].values()) >= 1
    assert sum(d["wanted"] for d in last["domains"].values()) == pytest.approx(3200)
    assert len(json.dumps(last)) < 300_000


def test_weights_that_move_gently_are_in_force_at_once(large_run):
    parts = large_run[3]
    assert len(parts) > 150 and np.mean(parts) > 0.95


def test_300_domains_cost_about_a_millisecond_a_group(large_run):
    assert large_run[4] < 2e-3  # of processor time, on a busy machine too


@st.composite
def histories(draw):
    count = draw(st.integers(2, 6))
    weights = st.lists(st.floats(0.01, 1), min_size=count, max_size=count)
    choices = tuple(tuple(w) for w in draw(st.lists(weights, min_size=1, max_size=7)))
    lag, every, num = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(20, 50))
    resumes = draw(st.sets(st.integers(0, num - 1), max_size=4))
    return count, choices, lag, every, num, resumes, draw(st.integers(0, 2**20))


@settings(max_examples=20, deadline=None)
@given(histories())
def test_any_change_of_weights_and_any_resume(history):
    count, choices, lag, every, num, resumes, seed = history
    domains = [domain(f"d{n}") for n in range(count)]
    mixture = Mixture(domains=domains, seed=1, lag=lag, every=every, strategy=Jumps(choices))

    def scores_of(task, ticket):
        return Random(seed + ticket).choice((PASSED, FAILED, MIXED, BROKEN))

    tasks, states = run(mixture, num, scores_of)
    assert largest_error(states) <= 1 + 1e-9
    total = np.zeros(count)
    for ticket, state in enumerate(states):  # `wanted` is the sum of the shares in force, told from outside
        shares = next(r["shares"] for r in reversed(state["rounds"]) if r["first"] <= ticket)
        total += shares
        assert np.allclose([d["wanted"] for d in state["domains"].values()], total, atol=1e-9)
        assert state["observed"] == {d.name: sum(t.domain == d.name for t in tasks[: ticket + 1]) for d in domains}
    again, resumed = run(mixture, num, scores_of, resumes)
    assert (again, resumed) == (tasks, states)
    every_state = [mixture.start(), *states]
    for observed, state in enumerate(every_state):  # whichever state a ticket is assigned with, its task is the same
        for ticket in range(observed, min(num, observed + lag + 1)):
            assert mixture.assign(state, ticket) == tasks[ticket]


@pytest.mark.parametrize(("lag", "every"), [(0, 1), (3, 2), (0, 5)])
def test_a_change_that_deadlines_do_not_allow_is_limited_and_what_is_in_force_is_told(lag, every):
    domains = [domain(f"d{n}") for n in range(24)]
    _, states = run(Mixture(domains=domains, seed=1, lag=lag, every=every, strategy=Grudge()), 240, lambda *_: MIXED)
    assert largest_error(states) <= 1 + 1e-9
    parts = [r["part"] for state in states for r in state["rounds"]]
    assert min(parts) < 1 and np.mean(parts) > 0.3


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2**20))
def test_what_the_buffer_admits_can_be_assigned(max_staleness, groups_per_step, max_replacements, seed):
    """However many groups are dropped and in whatever order they end; what was in flight depends on neither."""
    lag = (max_staleness + 1) * (groups_per_step + max_replacements)
    domains = [domain(f"d{n}") for n in range(3)]
    mixture = Mixture(domains=domains, seed=1, lag=lag, strategy=Jumps(((1, 5, 2), (3, 1, 1), (1, 1, 9))))
    buffer = Buffer(
        groups_per_step=groups_per_step,
        num_steps=8,
        max_staleness=max_staleness,
        max_replacements=max_replacements,
    )

    async def finish(in_flight, draws):
        """Everything that can happen before the next release, in a drawn order."""
        while True:
            try:
                while True:
                    in_flight.append(await asyncio.wait_for(buffer.admit(), 0.001))
                    assigned[in_flight[-1]] = mixture.assign(state, in_flight[-1])
            except TimeoutError:
                if not in_flight:
                    return
            ticket = in_flight.pop(draws.randrange(len(in_flight)))
            dropped = "no signal" if draws.random() < 0.5 else None
            await buffer.put(Finished(group=group_of(assigned[ticket], ticket, MIXED), drop_reason=dropped))

    assigned, state = {}, mixture.start()

    async def steps():
        nonlocal state
        draws, in_flight = Random(seed), []
        for _ in range(8):
            await finish(in_flight, draws)
            step = await buffer.take()
            for finished in step.finished:
                assert finished.group.task == mixture.assign(state, finished.group.ticket)
                state = mixture.observe(state, finished.group)
            await buffer.release(step)

    asyncio.run(steps())


def test_shares_move_only_once_the_lag_has_passed():
    domains = [domain("a"), domain("b")]
    mixture = Mixture(domains=domains, seed=1, lag=6, strategy=Jumps(((9, 1), (9, 1))))
    _, states = run(mixture, 20, lambda *_: MIXED)
    assert [r["first"] for r in states[0]["rounds"]] == [0, 7]
    assert states[0]["rounds"][0]["shares"] == [0.5, 0.5]
    wanted = [state["domains"]["a"]["wanted"] for state in states]
    assert wanted[:7] == pytest.approx([0.5 * (t + 1) for t in range(7)])
    assert wanted[19] == pytest.approx(3.5 + 13 * 0.9)


def test_bounds_hold_for_adaptive_weights():
    domains = [domain("a", parent="g"), domain("b", parent="g"), domain("c")]
    mixture = Mixture(
        domains=domains,
        seed=1,
        lag=1,
        strategy=Jumps(((1, 1, 98),)),
        groups=[DomainGroup(name="g", floor=0.4)],
        bounds={"a": Bounds(ceiling=0.1)},
    )
    assert run(mixture, 9, lambda *_: MIXED)[1][-1]["rounds"][-1]["shares"] == pytest.approx([0.1, 0.3, 0.6])


def test_factors_raise_a_domain_until_they_are_taken_back():
    domains = [domain("a"), domain("b"), domain("c", 2)]
    mixture = Mixture(domains=domains, seed=1, lag=3, bounds={"c": Bounds(floor=0.4)})
    _, states = run(mixture, 4, lambda *_: MIXED)
    raised = mixture.with_factors(states[-1], {"a": 4.0})
    tasks = [mixture.assign(raised, ticket) for ticket in range(4, 8)]
    assert tasks == [mixture.assign(states[-1], ticket) for ticket in range(4, 8)]  # those that may be in flight
    raised = json.loads(json.dumps(raised))
    state = mixture.observe(raised, group_of(tasks[0], 4, MIXED))
    assert state["rounds"][-1]["first"] == 8 and state["factors"] == {"a": 4.0}
    assert state["rounds"][-1]["shares"] == pytest.approx([0.48, 0.12, 0.4])
    state = mixture.observe(mixture.with_factors(state, {}), group_of(tasks[1], 5, MIXED))
    assert state["rounds"][-1]["shares"] == pytest.approx([0.25, 0.25, 0.5])
    for wrong in ({"x": 2.0}, {"a": 0.0}, {"a": float("inf")}):
        with pytest.raises(ValueError, match="no domain, or its factor"):
            mixture.with_factors(state, wrong)


@pytest.mark.parametrize(("before", "after"), [(3, 20), (20, 3), (20, 0)])
def test_a_resume_may_change_the_lag(before, after):
    domains = [domain(f"d{n}") for n in range(5)]
    strategy = Jumps(((1, 2, 3, 4, 5), (5, 1, 1, 1, 1), (1, 1, 9, 1, 1), (2, 2, 1, 1, 1)))
    mixture = Mixture(domains=domains, seed=1, lag=before, every=3, strategy=strategy)
    states = run(mixture, 30, lambda *_: MIXED)[1]
    state, total = states[-1], np.array([d["wanted"] for d in states[-1]["domains"].values()])
    mixture = replace(mixture, lag=after)
    for ticket in range(30, 90):
        task = mixture.assign(state, ticket)
        state = mixture.observe(state, group_of(task, ticket, MIXED))
        total += next(r["shares"] for r in reversed(state["rounds"]) if r["first"] <= ticket)
        assert [r["first"] for r in state["rounds"]] == sorted({r["first"] for r in state["rounds"]})
        assert [d["wanted"] for d in state["domains"].values()] == pytest.approx(total.tolist())
        assert largest_error([state]) <= 1 + 1e-9


def test_tickets_that_a_state_cannot_assign_or_observe():
    mixture = Mixture(domains=[domain("a"), domain("b", 3)], seed=1, lag=2)
    state = mixture.start()
    with pytest.raises(ValueError, match="ticket 3 is not among the 3 from 0 on"):
        mixture.assign(state, 3)
    task = mixture.assign(state, 0)
    with pytest.raises(ValueError, match="ticket 1 of 'b' was observed where ticket 0 of 'b' comes next"):
        mixture.observe(state, group_of(task, 1, MIXED))
    later = mixture.observe(state, group_of(task, 0, MIXED))
    assert state == mixture.start() and later["observed"] == {"a": 0, "b": 1}
    with pytest.raises(ValueError, match="ticket 0"):
        mixture.assign(later, 0)


def test_a_state_of_other_domains_is_refused():
    state = Mixture(domains=[domain("a"), domain("b")], seed=1, lag=2).start()
    with pytest.raises(ConfigError, match="other domains than the run, such as 'b'"):
        Mixture(domains=[domain("a")], seed=1, lag=2).assign(state, 0)
    levelled = {"a": Levelled("a")}
    with pytest.raises(ConfigError, match="'a' has levels"):
        Mixture(domains=[domain("a"), domain("b")], seed=1, lag=2, levelled=levelled).assign(state, 0)


def test_a_strategy_that_gives_a_domain_nothing_is_refused():
    mixture = Mixture(domains=[domain("a"), domain("b")], seed=1, lag=0, strategy=Jumps(((1, 0),)))
    with pytest.raises(ConfigError, match="give it a floor"):
        run(mixture, 1, lambda *_: MIXED)


def test_a_domain_of_weight_0_stays_out_whatever_the_strategy():
    mixture = Mixture(domains=[domain("a", 0), domain("b"), domain("c")], seed=1, lag=0, strategy=Uniform())
    _, states = run(mixture, 20, lambda *_: MIXED)
    assert states[-1]["observed"] == {"a": 0, "b": 10, "c": 10}


def levelled_mixture(**options):
    ladder = Ladder(up=0.8, down=0.2, min_rollouts=6, practice=0.25)
    domains = [domain("a"), domain("b")]
    return Mixture(domains=domains, seed=1, levelled={"a": Levelled("a")}, ladder=ladder, **options)


def test_the_level_follows_the_frontier_with_the_lag():
    mixture = levelled_mixture(lag=4)
    tasks, states = run(mixture, 120, lambda task, _: PASSED if (task.level or 0) < 3 else FAILED)
    levels = [t.level for t in tasks if t.domain == "a"]
    assert {t.level for t in tasks if t.domain == "b"} == {None}
    assert levels[:2] == [1, 1] and 3 in levels and 5 not in levels  # up to 3, where nothing passes, and down again
    assert {s["domains"]["a"]["level"] for s in states} == {1, 2, 3}
    assert states[-1]["domains"]["b"]["level"] is None
    for ticket in range(5, 120):  # what was in force was decided lag + 1 tickets before
        if tasks[ticket].domain == "a":
            assert tasks[ticket].level <= states[ticket - 5]["domains"]["a"]["level"]


def test_levels_repeat_after_a_resume_and_in_every_legal_state():
    mixture = levelled_mixture(lag=5, every=3, strategy=Strop())

    def scores_of(task, ticket):
        return PASSED if Random(ticket).random() < 0.7 else FAILED

    tasks, states = run(mixture, 90, scores_of)
    again, resumed = run(mixture, 90, scores_of, range(0, 90, 7))
    assert (again, resumed) == (tasks, states)
    for ticket in range(6, 90):
        assert mixture.assign(states[ticket - 6], ticket) == tasks[ticket]


def test_a_new_level_starts_without_a_pass_rate():
    mixture = levelled_mixture(lag=0)
    _, states = run(mixture, 30, lambda *_: PASSED)
    rises = [n for n in range(1, 30) if states[n]["domains"]["a"]["level"] > states[n - 1]["domains"]["a"]["level"]]
    assert len(rises) == 3
    for n in rises:
        estimates = states[n]["domains"]["a"]["estimates"]
        assert (estimates["evidence"], estimates["best"], estimates["groups"] > 0) == (0, 0, True)


def test_late_results_of_a_lower_level_count_for_cost_alone():
    """The first six rollouts lift the level while tickets of the old one are in flight; they say nothing of the new."""
    mixture = levelled_mixture(lag=12)
    tasks, states = run(mixture, 12, lambda *_: PASSED)
    of_a = [state["domains"]["a"] for task, state in zip(tasks, states, strict=True) if task.domain == "a"]
    assert [d["level"] for d in of_a] == [1, 2, 2, 2, 2, 2]
    assert {d["level_rollouts"] for d in of_a[1:]} == {0} and {d["estimates"]["evidence"] for d in of_a[1:]} == {0}
    assert [d["estimates"]["groups"] for d in of_a] == [1, 2, 3, 4, 5, 6]


def test_a_source_whose_tasks_are_of_another_level_is_refused():
    class Wrong(Levelled):
        def at_level(self, level):
            return Tasks("a", 7, level + 1)

    mixture = Mixture(domains=[domain("a")], seed=1, lag=0, levelled={"a": Wrong("a")})
    with pytest.raises(ConfigError, match=r"at_level\(1\) gave a task of level 2"):
        mixture.assign(mixture.start(), 0)
