"""One conformance check for each protocol. Each raises AssertionError with the promise that was broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strop.core.batch import Batch
from strop.core.protocols import Environment, Learner, Renderer, Sampler, WeightReceiver
from strop.core.types import IntArray, Message, SamplingParams, Task, TrainingSample


async def check_sampler(sampler: Sampler, prompt_ids: IntArray) -> None:
    """Same seed same draw, budget kept, concurrent calls independent, cancellation frees the caller."""
    params = SamplingParams(max_tokens=4, seed=3)
    first, again = await asyncio.gather(sampler.sample(prompt_ids, params), sampler.sample(prompt_ids, params))
    assert first.token_ids.tolist() == again.token_ids.tolist(), "equal seeds must draw equal tokens"
    assert 1 <= len(first.token_ids) <= 4, "max_tokens bounds the completion"
    assert (first.logprobs <= 1e-6).all(), "a logprob is at most 0"
    assert (first.finish_reason == "length") <= (len(first.token_ids) == 4), "length means the budget is used"
    call = asyncio.ensure_future(sampler.sample(prompt_ids, SamplingParams(max_tokens=4, seed=4)))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    after = await asyncio.wait_for(sampler.sample(prompt_ids, params), 30)
    assert after.token_ids.tolist() == first.token_ids.tolist(), "a cancelled call must not disturb others"


async def check_weight_receiver(
    engine: Any, weights: Callable[[], Iterable[tuple[str, Any]]], prompt_ids: IntArray, version: int
) -> None:
    """`engine` is Sampler and WeightReceiver: what is sampled after a load carries the new version, in every mode."""
    receiver: WeightReceiver = engine
    for offset, mode in enumerate(("wait", "keep_kv", "recompute")):
        running = asyncio.ensure_future(engine.sample(prompt_ids, SamplingParams(max_tokens=4, seed=1)))
        await asyncio.sleep(0)
        await receiver.pause(mode)
        await receiver.load(version + offset, weights())
        await receiver.resume()
        old = (await asyncio.wait_for(running, 30)).versions
        assert (np.diff(old) >= 0).all(), "versions within a completion never fall"
        fresh = await engine.sample(prompt_ids, SamplingParams(max_tokens=2, seed=1))
        assert (fresh.versions == version + offset).all(), "a call after resume() samples the loaded version"
    await receiver.pause("wait")
    try:
        await receiver.load(version, weights())
    except ValueError:
        pass
    else:
        raise AssertionError("versions only rise: a lower one must be refused")
    finally:
        await receiver.resume()
    last = await engine.sample(prompt_ids, SamplingParams(max_tokens=2, seed=1))
    assert (last.versions == version + offset).all(), "a refused load changes nothing"


async def check_environment(make: Callable[[], Environment], task: Task, answers: Sequence[str]) -> None:
    """Starts with messages, ends within `answers`, and gives evidence after it; instances share nothing."""
    for _ in range(2):
        environment = make()
        observation = await environment.start(task)
        assert observation.messages, "start() must show something"
        done = False
        for answer in answers:
            result = await environment.step(Message(role="assistant", content=answer))
            done = result.done
            if done:
                break
            assert result.replies, "a step that goes on must reply"
        assert done, "the environment must end within the given answers"
        evidence = await environment.close()
        assert isinstance(dict(evidence), dict), "close() returns a mapping"


async def check_renderer(renderer: Renderer, sampler: Sampler, messages: Sequence[Message]) -> None:
    """Sampled ids are kept: what extend() adds never changes what is already there."""
    start = renderer.start(messages)
    completion = await sampler.sample(start, SamplingParams(max_tokens=8, seed=1))
    message = renderer.parse(completion)
    assert message.role == "assistant", "parse() gives an assistant message"
    ids = np.concatenate([start, completion.token_ids])
    reply = (Message(role="user", content="go on"),)
    added, continues = renderer.extend([*messages, message], (), ids, reply)
    assert len(added), "extend() must add something"
    whole = renderer.start([*messages, message, *reply])
    assert continues or added.tolist() == whole.tolist(), "what does not continue is the whole conversation"
    taught = renderer.teach([*messages, Message(role="assistant", content="yes")])
    assert taught.loss_mask.any(), "teach() must train the assistant's tokens"
    assert not taught.loss_mask.all(), "teach() must not train the prompt"


async def check_learner(make: Callable[[], Learner], samples: Sequence[TrainingSample], folder: Path) -> None:
    """Versions rise by one an update; a saved learner loaded into a new one goes on from there."""
    learner = make()
    batch = Batch(
        samples=tuple(samples),
        advantages=tuple(np.ones(len(s), np.float32) for s in samples),
        weights=tuple(s.loss_mask / np.float32(len(samples)) for s in samples),
    )
    before = learner.version
    update = await learner.update(batch)
    assert update.version == learner.version == before + 1, "an update raises the version by one"
    assert list(learner.weights()), "weights() names at least one tensor"
    outputs = await learner.forward(samples, ("old",))
    assert [len(o.logprobs) for o in outputs["old"]] == [len(s) for s in samples], "one output [L] per sample"
    folder.mkdir(parents=True, exist_ok=True)
    learner.save(folder)
    other = make()
    other.load(folder)
    assert other.version == learner.version, "load() restores the version"
    again = await other.forward(samples, ("old",))
    for a, b in zip(outputs["old"], again["old"], strict=True):
        assert np.array_equal(a.logprobs, b.logprobs), "load() restores the weights"
