"""What fails outside the policy: named at its border, left out of group and baseline, counted, and bounded."""

import asyncio
import time

import pytest
from test_spine import make_run

from strop.algorithms.keep import KeepAll
from strop.core.errors import RewardError
from strop.core.types import Score
from strop.testing import EchoEnvironment
from strop.train import train


def hangs(rollout, task):
    time.sleep(1000)


async def hangs_awaited(rollout, task):
    await asyncio.sleep(1000)


def raises(rollout, task):
    raise KeyError("label")


MISDEEDS = [
    (hangs, "no answer in 0.5 s"),
    (hangs_awaited, "no answer in 0.5 s"),
    (raises, r"KeyError: 'label' \(test_failure_contract.py"),
    (lambda r, t: Score(value=float("nan")), "ValueError: a score must be a finite number"),
    (lambda r, t: float("nan"), "returned float nan; return a finite number"),
    (lambda r, t: float("inf"), "returned float inf; return a finite number"),
    (lambda r, t: 10**400, "returned int .*; return a finite number"),
    (lambda r, t: "1.0", "returned str '1.0'; return a number, a Score or None"),
    (lambda r, t: [1.0], "returned list"),
    (lambda r, t: (1.0, "well done"), "returned tuple"),
    (lambda r, t: {"score": 1.0}, "returned dict"),
    (lambda r, t: 1j, "returned complex"),
]


@pytest.mark.parametrize(("reward", "said"), MISDEEDS)
async def test_a_reward_that_misbehaves_is_stopped_with_its_name_and_the_task(reward, said):
    run, learner, _ = make_run(reward=reward, num_steps=1)
    with pytest.raises(RewardError, match=f"(?s)reward 'accuracy'.*{said}") as stopped:
        await asyncio.wait_for(train(run), 20)
    assert "task t0" in str(stopped.value) or "task t1" in str(stopped.value)
    assert "\n" not in str(stopped.value) and not learner.batches


class Unreachable(EchoEnvironment):
    """Cannot be started for every third task."""

    async def start(self, task):
        if task.reference % 3 == 0:
            raise ConnectionError("no container left")
        return await super().start(task)


async def test_the_report_of_a_spent_budget_counts_each_component_and_shows_what_it_said():
    def judge(rollout, task):
        if task.reference % 3 == 1:
            raise ConnectionError(f"request {rollout.index} refused")
        return 1.0

    run, learner, _ = make_run(reward=judge, environment=Unreachable, num_steps=1, groups_per_step=8)
    with pytest.raises(RewardError) as stopped:  # tasks 0, 3, 6 and 1, 4, 7 of eight, with four rollouts each
        await asyncio.wait_for(train(run), 20)
    said = str(stopped.value)
    assert said.startswith("24 of 32 rollouts failed outside the policy, above max_infra_share = 0.5: 12 × domain")
    assert "12 × domain 'echo', environment: ConnectionError: no container left" in said and "(task t0)" in said
    assert "12 × domain 'echo', reward 'accuracy': ConnectionError: request 0 refused" in said and "(task t1)" in said
    assert said.endswith("go on with --resume") and not learner.batches


@pytest.mark.parametrize("num_failed", [2, 3, 4])
async def test_a_group_too_small_for_its_baseline_is_dropped_and_counted(num_failed):
    """Two members are the least a group mean can work with."""

    def flaky(rollout, task):
        if task.reference % 2 == 0 and rollout.index < num_failed:
            raise ConnectionError("verifier gone")
        return float(rollout.index % 2)

    run, learner, recorded = make_run(reward=flaky, keep=KeepAll(2), num_steps=1, groups_per_step=4)
    await asyncio.wait_for(train(run), 20)
    _, step, metrics = recorded[0]
    dropped = [f for f in step.finished if f.drop_reason is not None]
    wanted = 0 if num_failed == 2 else 2
    assert metrics["groups_dropped"] == len(dropped) == wanted
    assert {f.drop_reason for f in dropped} <= {f"{4 - num_failed} members with a reward, 2 needed"}
    trained = [(s.ticket, s.index) for s in learner.batches[0].samples]
    assert len(trained) == 8 + (4 if num_failed == 2 else 0)
    assert not [ticket for ticket, index in trained if ticket % 2 == 0 and (wanted or index < num_failed)]
