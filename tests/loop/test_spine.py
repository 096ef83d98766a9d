"""The loop on fakes: staleness, order, drops, deadlines and failures."""

import asyncio
from functools import partial

import numpy as np
import pytest

from strop.core.errors import RewardError
from strop.core.protocols import Algorithm, Credit, Domain, NamedReward
from strop.core.types import Message, RolloutGroup, SamplingParams, Task
from strop.rollout.group import Roller
from strop.scheduler.buffer import Buffer, Finished
from strop.scoring.score import Scorer
from strop.testing import ByteRenderer, CountingLearner, EchoEnvironment, ListSource, ScriptedSampler
from strop.train import Run, train


def make_task(number, domain="echo"):
    return Task(id=f"t{number}", domain=domain, prompt=(Message(role="user", content=str(number)),), reference=number)


def centred(groups, outputs, scale):
    advantages = []
    for group in groups:
        totals = np.array([r.total for r in group.trainable])
        advantages.append(list((totals - totals.mean()).astype(float)))
    return Credit(advantages=advantages, scale={**scale, "seen": scale.get("seen", 0) + len(groups)})


def keep_all(group):
    return None if len(group.trainable) >= 2 else "fewer than two members"


class RoundRobin:
    """Assigns the tasks in order; its state is the tickets it has observed."""

    def __init__(self, tasks):
        self.tasks = tasks

    def start(self):
        return {"observed": []}

    def assign(self, state, ticket):
        return self.tasks[ticket % len(self.tasks)]

    def observe(self, state, group):
        return {"observed": [*state["observed"], group.ticket]}


async def nothing_due(run, step):
    pass


def make_run(*, num_steps=4, groups_per_step=2, max_staleness=0, reward=None, keep=keep_all, **options):
    tasks = [make_task(n) for n in range(8)]
    sampler = ScriptedSampler(lambda ids, params: "yes" if params.seed % 2 else "no")
    domain = Domain(
        name="echo",
        tasks=ListSource(tuple(tasks)),
        held_out=ListSource(tuple(tasks)),
        environment=options.pop("environment", EchoEnvironment),
        rewards=(NamedReward(name="accuracy", fn=reward or (lambda r, t: float(r.text == "yes")), timeout_s=0.5),),
        sampling=SamplingParams(max_tokens=8),
        max_turns=4,
    )
    recorded = []
    learner = CountingLearner()
    curriculum = RoundRobin(tasks)
    run = Run(
        domains={"echo": domain},
        algorithm=Algorithm(name="centred", advantage=centred, loss=lambda inputs: (inputs.logprobs, {}), keep=keep),
        learner=learner,
        receiver=sampler,
        roller=Roller(sampler=sampler, renderer=ByteRenderer(), seed=1),
        scorer=Scorer(),
        curriculum=curriculum,
        curriculum_state=curriculum.start(),
        buffer=Buffer(
            groups_per_step=groups_per_step,
            num_steps=num_steps,
            max_staleness=max_staleness,
            max_replacements=options.pop("max_replacements", 0),
        ),
        record=lambda run, step, batch, metrics: recorded.append((step.step, step, metrics)),
        due=nothing_due,
        group_size=4,
        num_steps=num_steps,
        max_staleness=max_staleness,
        **options,
    )
    return run, learner, recorded


@pytest.mark.parametrize("max_staleness", [0, 1, 2])
async def test_every_step_trains_in_ticket_order_within_the_bound(max_staleness):
    run, learner, recorded = make_run(max_staleness=max_staleness, num_steps=6)
    await asyncio.wait_for(train(run), 20)
    tickets = [g.ticket for _, step, _ in recorded for g in step.groups]
    assert tickets == list(range(12))
    for number, step, _ in recorded:
        for group in step.groups:
            versions = np.concatenate([t.completion.versions for r in group.rollouts for t in r.turns])
            assert number - 1 - max_staleness <= versions.min() <= versions.max() <= number - 1
    assert learner.version == 6
    assert run.curriculum_state["observed"] == tickets


async def test_staleness_zero_is_on_policy_and_staleness_two_is_not():
    ages = {}
    for bound in (0, 2):
        run, _, recorded = make_run(max_staleness=bound, num_steps=6)
        await asyncio.wait_for(train(run), 20)
        ages[bound] = max(metrics["staleness"] for _, _, metrics in recorded)
    assert ages[0] == 0
    assert 0 < ages[2] <= 2


async def test_equal_seeds_give_equal_rollouts_whatever_the_staleness():
    texts = []
    for bound in (0, 2):
        run, _, recorded = make_run(max_staleness=bound)
        await asyncio.wait_for(train(run), 20)
        texts.append([r.text for _, step, _ in recorded for g in step.groups for r in g.rollouts])
    assert texts[0] == texts[1]


async def test_dropped_groups_are_replaced_by_higher_tickets_until_the_limit():
    run, _, recorded = make_run(
        num_steps=1, groups_per_step=2, max_replacements=3, keep=lambda g: "odd" if g.ticket % 2 else None
    )
    await asyncio.wait_for(train(run), 20)
    _, step, metrics = recorded[0]
    assert [f.group.ticket for f in step.finished] == [0, 1, 2]
    assert [g.ticket for g in step.groups] == [0, 2]
    assert metrics["groups_dropped"] == 1


async def test_a_step_of_dropped_groups_ends_without_an_update_or_a_version():
    run, learner, recorded = make_run(num_steps=3, max_replacements=2, keep=lambda g: "no signal")
    await asyncio.wait_for(train(run), 20)
    assert learner.version == 0 and learner.batches == []
    assert [len(step.finished) for _, step, _ in recorded] == [4, 4, 4]


async def test_a_failed_environment_leaves_group_and_baseline():
    class Failing(EchoEnvironment):
        count = iter(range(1000))

        async def step(self, message):
            if next(self.count) % 4 == 0:
                raise OSError("disk gone")
            return await super().step(message)

    run, learner, recorded = make_run(environment=Failing, num_steps=2)
    await asyncio.wait_for(train(run), 20)
    for _, step, metrics in recorded:
        assert metrics["infra_share"] == pytest.approx(0.25)
        assert all(len(g.trainable) == 3 for g in step.groups)
    assert all(len(batch.samples) == 6 for batch in learner.batches)


async def test_a_reward_that_always_raises_ends_the_run_and_is_named():
    def broken(rollout, task):
        raise KeyError("answer")

    run, _, _ = make_run(reward=broken)
    with pytest.raises(RewardError, match=r"reward 'accuracy': KeyError: 'answer' \(test_spine.py, line \d+\)"):
        await asyncio.wait_for(train(run), 20)


async def test_a_reward_that_raises_for_one_in_four_is_masked_not_zero():
    def sometimes(rollout, task):
        if rollout.index == 3:
            raise ValueError("cannot read")
        return 1.0

    run, _, recorded = make_run(reward=sometimes, num_steps=1)
    await asyncio.wait_for(train(run), 20)
    assert recorded[0][2]["reward"] == 1.0
    assert recorded[0][2]["infra_share"] == 0.25


async def test_a_slow_reward_never_stops_the_event_loop():
    import time

    def slow(rollout, task):
        time.sleep(0.2)
        return 1.0

    run, _, _ = make_run(reward=slow, num_steps=1)
    gaps, last = [], asyncio.get_running_loop().time()

    async def tick():
        nonlocal last
        while True:
            await asyncio.sleep(0.02)
            now = asyncio.get_running_loop().time()
            gaps.append(now - last)
            last = now

    ticker = asyncio.create_task(tick())
    await asyncio.wait_for(train(run), 20)
    ticker.cancel()
    assert len(gaps) > 5 and max(gaps) < 0.19  # one blocking reward would leave a gap of its whole 0.2 s


@pytest.mark.parametrize("value", ["1.0", float("nan"), float("inf"), [1.0], {"score": 1}])
async def test_a_reward_of_the_wrong_type_is_refused_with_the_task(value):
    run, _, _ = make_run(reward=lambda r, t: value)
    with pytest.raises(RewardError, match=r"reward 'accuracy', task t\d: returned"):
        await asyncio.wait_for(train(run), 20)


async def test_an_async_reward_is_awaited():
    async def later(rollout, task):
        await asyncio.sleep(0)
        return float(rollout.index)

    run, _, recorded = make_run(reward=later, num_steps=1)
    await asyncio.wait_for(train(run), 20)
    assert recorded[0][2]["reward"] == 1.5


async def test_a_deadline_keeps_what_was_sampled_as_truncated():
    class Slow(EchoEnvironment):
        async def step(self, message):
            await asyncio.sleep(30)
            return await super().step(message)

    run, _, recorded = make_run(environment=Slow, num_steps=1, deadline_s=0.2, reward=lambda r, t: 0.5)
    await asyncio.wait_for(train(run), 20)
    members = [r for g in recorded[0][1].groups for r in g.rollouts]
    assert {(r.status, r.error) for r in members} == {("truncated", "deadline")}


async def test_multi_turn_rollouts_are_one_sample_with_a_hole_for_replies():
    run, learner, _ = make_run(environment=partial(EchoEnvironment, 3), num_steps=1)
    await asyncio.wait_for(train(run), 20)
    sample = learner.batches[0].samples[0]
    starts = np.flatnonzero(np.diff(sample.loss_mask.astype(int)) == 1)
    assert len(starts) == 3
    assert (sample.versions[~sample.loss_mask] == -1).all()


async def test_rollout_budget_bounds_all_turns_together():
    run, _, recorded = make_run(environment=partial(EchoEnvironment, 4), num_steps=1)
    domain = run.domains["echo"]
    from dataclasses import replace

    run.domains = {"echo": replace(domain, max_rollout_tokens=6)}
    run.roller.sampler.script = lambda ids, params: "abc"
    await asyncio.wait_for(train(run), 20)
    for group in recorded[0][1].groups:
        for rollout in group.rollouts:
            assert rollout.num_tokens <= 6
            assert rollout.status == "truncated"


def group_of(ticket):
    return RolloutGroup(ticket=ticket, attempt=0, task=make_task(ticket), rollouts=())


async def test_the_buffer_never_exceeds_its_slots_and_resumes_where_a_step_ended():
    buffer = Buffer(groups_per_step=2, num_steps=3, max_staleness=1)
    admitted = [await buffer.admit() for _ in range(4)]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(buffer.admit(), 0.05)
    for ticket in reversed(admitted):
        await buffer.put(Finished(group=group_of(ticket)))
    step = await buffer.take()
    assert [g.ticket for g in step.groups] == [0, 1] and step.next_ticket == 2
    await buffer.release(step)
    assert [await buffer.admit(), await buffer.admit()] == [4, 5]
    resumed = Buffer(groups_per_step=2, num_steps=3, first_step=2, first_ticket=step.next_ticket)
    assert await resumed.admit() == 2
