"""What is claimed of a real model: the learner equals the sampler, and tries equal separate sequences."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strop.algorithms.loss import PpoClip
from strop.config.schema import EngineConfig, LearnerConfig
from strop.core.types import NOT_SAMPLED, Message, SamplingParams, TrainingSample
from strop.engines.loading import load_engine
from strop.engines.renderer import ChatRenderer
from strop.learner.learner import load_learner

FOLDER = Path(__file__).parents[2] / "models" / "smollm2-135m-instruct"
pytestmark = [pytest.mark.model, pytest.mark.skipif(not FOLDER.is_dir(), reason="no model: run `make model`")]
QUESTIONS = ("What is 3 + 4?", "Name a colour.")


@pytest.fixture(scope="module")
def learner():
    return load_learner(FOLDER, LearnerConfig(), loss=PpoClip(), total_updates=1)


def sample_of(prompt, done, ticket, temperature=1.0):
    given = len(prompt)
    support = None if done.support is None else (*((None,) * given), *done.support)
    return TrainingSample(
        token_ids=np.concatenate([prompt, done.token_ids]),
        loss_mask=np.arange(given + len(done.token_ids)) >= given,
        sampled_logprobs=np.concatenate([np.zeros(given), done.logprobs]),
        versions=np.concatenate([np.full(given, NOT_SAMPLED), done.versions]),
        support=support,
        temperature=temperature,
        ticket=ticket,
    )


async def draw(temperature, top_p):
    renderer = ChatRenderer.load(FOLDER)
    prompts = [renderer.start([Message(role="user", content=question)]) for question in QUESTIONS]
    async with load_engine(FOLDER, EngineConfig(), renderer) as engine:
        calls = [
            (ticket, engine.sample(p, SamplingParams(max_tokens=16, temperature=temperature, top_p=top_p, seed=n)))
            for ticket, p in enumerate(prompts)
            for n in range(4)
        ]
        done = await asyncio.gather(*(call for _, call in calls))
    tickets = [ticket for ticket, _ in calls]
    return [sample_of(prompts[t], d, t, temperature) for t, d in zip(tickets, done, strict=True)]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.9)])
async def test_the_learner_says_what_the_sampler_said(learner, temperature, top_p):
    samples = await draw(temperature, top_p)
    outputs = (await learner.forward(samples, ("old",)))["old"]
    gaps = [np.abs(o.logprobs - s.sampled_logprobs)[s.loss_mask] for o, s in zip(outputs, samples, strict=True)]
    assert np.concatenate(gaps).mean() < 1e-4


async def test_tries_equal_separate_sequences(learner):
    samples = await draw(1.0, 1.0)
    packed = (await learner.forward(samples, ("old",)))["old"]
    apart = [replace(sample, ticket=number) for number, sample in enumerate(samples)]
    separate = (await learner.forward(apart, ("old",)))["old"]
    gaps = [np.abs(a.logprobs - b.logprobs)[s.loss_mask] for a, b, s in zip(packed, separate, samples, strict=True)]
    assert np.concatenate(gaps).mean() <= 1e-5
