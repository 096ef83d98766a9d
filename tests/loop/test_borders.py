"""What environments and rewards do wrong is counted, never trained on, and never stops what does not depend on it."""

import asyncio
import random
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from test_spine import make_run

from strop.core.errors import ContextError, DataError, RewardError
from strop.core.types import Message, Observation, Reward, Score
from strop.rewards import ExactMatch
from strop.testing import EchoEnvironment
from strop.train import train


async def trained(run, limit_s=20):
    await asyncio.wait_for(train(run), limit_s)
    return run


class Failing(EchoEnvironment):
    """Raises in one of its methods, in one environment of four."""

    def __init__(self, where, error, count):
        super().__init__()
        self.where, self.error, self.fails = where, error, next(count) % 4 == 0
        self._maybe("made")

    def _maybe(self, where):
        if self.fails and self.where == where:
            raise self.error

    async def start(self, task):
        self._maybe("start")
        return await super().start(task)

    async def step(self, message):
        self._maybe("step")
        return await super().step(message)

    async def close(self):
        self._maybe("close")
        return await super().close()


@pytest.mark.parametrize("error", [OSError("disk gone"), TimeoutError("no answer from the server")], ids=repr)
@pytest.mark.parametrize("where", ["made", "start", "step", "close"])
@pytest.mark.parametrize("deadline_s", [None, 10.0])
async def test_an_environment_that_fails_anywhere_leaves_group_and_baseline(where, error, deadline_s):
    count = iter(range(1000))
    run, learner, recorded = make_run(
        environment=lambda: Failing(where, error, count), num_steps=1, deadline_s=deadline_s
    )
    await trained(run)
    _, step, metrics = recorded[0]
    assert metrics["infra_share"] == 0.25 and metrics["skipped_share"] == 0.0
    failed = [r for g in step.groups for r in g.rollouts if r.status == "infra_error"]
    assert len(failed) == 2 and all(str(error) in r.error and r.reward is None for r in failed)
    assert len(learner.batches[0].samples) == 6


async def test_a_group_is_a_ticket_whatever_the_environment_shows():
    """Field case 4: a unique path in every prompt."""

    class Workspace(EchoEnvironment):
        async def start(self, task):
            await super().start(task)
            return Observation(messages=(Message(role="user", content=f"work in /tmp/{random.random()}"),))

    run, learner, recorded = make_run(
        environment=Workspace, num_steps=1, groups_per_step=1, reward=lambda r, t: [1.0, 0.0, 0.0, 1.0][r.index]
    )
    await trained(run)
    assert len(recorded[0][1].groups) == 1
    batch = learner.batches[0]
    assert len({s.token_ids.tobytes() for s in batch.samples}) == 4
    assert [a[s.loss_mask][0] for s, a in zip(batch.samples, batch.advantages, strict=True)] == [0.5, -0.5, -0.5, 0.5]


async def test_a_reward_that_never_returns_blocks_neither_the_others_nor_the_end():
    def hangs(rollout, task):
        time.sleep(1000)

    run, _, _ = make_run(reward=hangs, num_steps=1, groups_per_step=4)  # more calls than the scorer has threads
    started_s = time.monotonic()
    with pytest.raises(RewardError, match=r"16 of 16 .* reward 'accuracy': no answer in 0.5 s"):
        await trained(run)
    assert time.monotonic() - started_s < 8


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyboardInterrupt(), TimeoutError("mine")], ids=repr)
async def test_whatever_a_reward_raises_is_an_error_of_the_reward(error):
    def raises(rollout, task):
        if rollout.index == 3:
            raise error
        return 1.0

    run, _, recorded = make_run(reward=raises, num_steps=1)
    await trained(run)
    members = [r for g in recorded[0][1].groups for r in g.rollouts if r.index == 3]
    details = {r.reward.scores["accuracy"].detail for r in members}
    assert len(details) == 1 and type(error).__name__ in details.pop()
    assert recorded[0][2]["infra_share"] == 0.25


async def test_async_rewards_wait_together_and_keep_their_limit():
    async def judged(rollout, task):
        await asyncio.sleep(0.2 if rollout.index else 30)
        return 1.0

    run, _, recorded = make_run(reward=judged, num_steps=1, groups_per_step=8, max_infra_share=1.0)
    started_s = time.monotonic()
    await trained(run)
    assert time.monotonic() - started_s < 3  # 32 of them, over 8 threads one after the other, would take longer
    assert recorded[0][2]["infra_share"] == 0.25


async def test_three_of_eight_failures_leave_the_advantages_of_five():
    """Field case 85."""

    def judge(rollout, task):
        if rollout.index in (1, 4, 6):
            raise ConnectionError("sandbox gone")
        return {0: 1.0, 2: 0.0, 3: 1.0, 5: 0.0, 7: 1.0}[rollout.index]

    run, learner, recorded = make_run(reward=judge, num_steps=1, groups_per_step=1)
    run.group_size = 8
    await trained(run)
    batch = learner.batches[0]
    found = {s.index: float(a[s.loss_mask][0]) for s, a in zip(batch.samples, batch.advantages, strict=True)}
    assert found == pytest.approx({0: 0.4, 2: -0.6, 3: 0.4, 5: -0.6, 7: 0.4})
    assert recorded[0][2]["infra_share"] == 0.375


async def test_rows_whose_reference_cannot_be_read_are_skipped_not_wrong_and_not_infra():
    """Field case 69."""

    def exact(rollout, task):
        return ExactMatch()(rollout, replace(task, reference="7" if task.reference % 2 else " "))

    run, learner, recorded = make_run(reward=exact, num_steps=1, groups_per_step=8)
    await trained(run)
    _, step, metrics = recorded[0]
    assert (metrics["score/accuracy"], metrics["pass_rate"]) == (0.0, 0.0)
    assert (metrics["skipped_share"], metrics["infra_share"]) == (0.5, 0.0)
    assert len(step.groups) == 4 and {s.ticket % 2 for s in learner.batches[0].samples} == {1}


@pytest.mark.parametrize(
    "answer", [0, True, np.float32(0.0), Score(value=0), Score(value=0.0, outcome="timeout"), None]
)
async def test_every_score_is_a_float_or_says_why_there_is_none(answer):
    """Field case 91."""
    run, _, recorded = make_run(reward=lambda r, t: answer, num_steps=1, keep=lambda g: None)
    await trained(run)
    reward = recorded[0][1].finished[0].group.rollouts[0].reward
    score = reward.scores["accuracy"]
    if answer is None:
        assert (score.value, score.outcome, reward.total) == (None, "not_applicable", None)
    else:
        assert type(score.value) is float and type(reward.total) is float


async def test_a_conversation_that_outgrows_the_context_is_cut_off_and_a_first_prompt_is_refused():
    run, _, recorded = make_run(environment=partial(EchoEnvironment, 4), num_steps=1, reward=lambda r, t: r.index)
    sampler = run.roller.sampler

    class Small:
        def __init__(self, max_context):
            self.max_context = max_context

        async def sample(self, prompt_ids, params):
            if len(prompt_ids) >= self.max_context:
                raise ContextError(f"the prompt has {len(prompt_ids)} tokens")
            return await sampler.sample(prompt_ids, params)

    run.roller = replace(run.roller, sampler=Small(12))
    await trained(run)
    members = [r for g in recorded[0][1].groups for r in g.rollouts]
    assert {(r.status, r.error) for r in members} == {("truncated", "max_context")}
    assert {len(r.turns) for r in members} <= {1, 2, 3} and all(r.total is not None for r in members)
    run, _, _ = make_run()
    run.roller = replace(run.roller, sampler=Small(2))
    with pytest.raises(DataError, match=r"domain echo, task t\d: the prompt has"):
        await trained(run)


def test_a_reward_says_float_for_whole_numbers():
    assert type(Reward(scores={"a": Score(value=1)}, weights={"a": 2}).total) is float
