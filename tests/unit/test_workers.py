"""Worker processes: what overruns or dies is stopped, replaced and, by the canary rule, blamed or not."""

import asyncio
import os
import pickle
import time

import pytest

from strop.scoring.workers import Canary, WorkerPool

TWO = Canary(("1 + 1",), 2)
DIE = "__import__('os')._exit(3)"
SLEEP = "__import__('time').sleep(60)"
OWN_ID = "__import__('os').getpid()"


@pytest.fixture
def pool_of():
    made = []

    def make(**options):
        pool = WorkerPool(**{"target": "builtins:eval", "canary": TWO, "workers": 1, "deadline_s": 5.0, **options})
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.close()


async def test_values_come_back_and_the_worker_is_kept(pool_of):
    pool = pool_of()
    assert (await pool.call("[1, 'two', None]")).value == [1, "two", None]
    first, second = (await pool.call(OWN_ID)).value, (await pool.call(OWN_ID)).value
    assert first == second != os.getpid()


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (DIE, "crash"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "crash"),
        ("1 / 0", "crash"),
        ("'x' * 10**12", "crash"),
        ("bytearray(10**12)", "crash"),
        ("'x' * 10**7", "crash"),  # a reply that is too long
        ("exit()", "crash"),
        (SLEEP, "timeout"),
        ("10**10**8 and 0", "timeout"),
        ("print('no reply') or __import__('time').sleep(60)", "timeout"),
    ],
)
async def test_an_answer_that_fails_two_fresh_workers_is_to_blame(code, outcome, pool_of):
    pool = pool_of(deadline_s=0.5 if outcome == "timeout" else 30.0)
    said = await pool.call(code)
    assert (said.outcome, said.value) == (outcome, None)
    assert (await pool.call("6 * 7")).value == 42


async def test_what_is_printed_is_no_reply(pool_of):
    assert (await pool_of().call("print('{\"value\": 5}') or 7")).value == 7


@pytest.mark.parametrize(
    ("target", "canary"),
    [("builtins:eval", Canary(("1 + 1",), 3)), ("no_such_module:f", TWO), ("builtins:no_such_name", TWO)],
)
async def test_a_worker_that_fails_the_known_call_blames_nobody(target, canary, pool_of):
    said = await pool_of(target=target, canary=canary).call("6 * 7")
    assert (said.outcome, said.value) == ("infra", None)


async def test_a_worker_killed_from_outside_costs_nothing_but_a_retry(pool_of):
    pool = pool_of(workers=2)
    for _ in range(3):
        os.kill((await pool.call(OWN_ID)).value, 9)
        said = await pool.call("6 * 7")
        assert (said.outcome, said.value) == ("scored", 42)


async def test_workers_are_replaced_after_so_many_calls(pool_of):
    pool = pool_of(max_calls=2)
    seen = [(await pool.call(OWN_ID)).value for _ in range(4)]
    assert seen[0] == seen[1] != seen[2] == seen[3]


async def test_one_bad_answer_delays_the_others_by_one_deadline_at_most(pool_of):
    """With one worker, those that wait behind a call that hangs are answered before it is tried again."""
    pool = pool_of(deadline_s=1.0)
    await pool.call("1")
    order = []

    async def noted(code):
        said = await pool.call(code)
        order.append(said.outcome)

    await asyncio.gather(noted(SLEEP), *(noted("6 * 7") for _ in range(5)))
    assert order == ["scored"] * 5 + ["timeout"]


def test_any_event_loop_may_call_and_a_copy_starts_anew(pool_of):
    pool = pool_of()
    first = asyncio.run(pool.call(OWN_ID)).value
    assert asyncio.run(pool.call(OWN_ID)).value == first
    copy = pickle.loads(pickle.dumps(pool))
    assert copy == pool
    assert asyncio.run(copy.call(OWN_ID)).value != first
    copy.close()


def test_closing_ends_the_processes(pool_of):
    pool = pool_of()
    worker = asyncio.run(pool.call(OWN_ID)).value
    pool.close()
    for _ in range(100):
        if not os.path.exists(f"/proc/{worker}"):
            break
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{worker}")


@pytest.mark.parametrize("option", ["workers", "deadline_s", "memory_bytes", "max_calls"])
def test_limits_are_above_zero(option, pool_of):
    with pytest.raises(ValueError, match=option):
        pool_of(**{option: 0})
