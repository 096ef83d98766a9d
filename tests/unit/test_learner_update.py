"""What an update does: rates, skipped steps, exact resume, adapters, export."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from strop.algorithms.loss import PpoClip, Reinforce, Teach, ValueLoss
from strop.config.schema import LearnerConfig, LoraConfig
from strop.core.batch import Batch
from strop.core.errors import ConfigError, DivergedError
from strop.core.types import TrainingSample
from strop.learner.learner import load_learner
from strop.learner.optim import learning_rate
from strop.testing import check_learner


def samples():
    draw = np.random.default_rng(0)
    return [
        TrainingSample(
            token_ids=[70, 71, 72, *draw.integers(60, 90, 4 + n)],
            loss_mask=np.arange(7 + n) >= 3,
            sampled_logprobs=np.where(np.arange(7 + n) >= 3, -3.0, 0.0),
            versions=np.zeros(7 + n),
            ticket=n // 2,
            index=n,
        )
        for n in range(4)
    ]


def batch(advantage=1.0):
    found = samples()
    return Batch(
        samples=tuple(found),
        advantages=tuple(np.full(len(s), advantage * (-1) ** s.index, np.float32) for s in found),
        weights=tuple(s.loss_mask / np.float32(20) for s in found),
    )


def learner_of(folder, loss=None, needs=(), total_updates=10, **config):
    settings = LearnerConfig(**{"learning_rate": 1e-2, **config})
    return load_learner(folder, settings, loss=loss or PpoClip(), total_updates=total_updates, needs=needs)


def test_the_rate_counts_updates_and_ends_at_zero():
    linear = LearnerConfig(learning_rate=1.0, schedule="linear")
    assert learning_rate(12, linear, 12) == 0.0
    assert learning_rate(6, linear, 12) == pytest.approx(0.5)
    assert learning_rate(0, linear, 12) == 1.0
    cosine = LearnerConfig(learning_rate=1.0, schedule="cosine", warmup_steps=2)
    assert [learning_rate(n, cosine, 6) for n in (0, 1, 2, 4, 6)] == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.0])


async def test_the_rate_logged_with_a_step_is_the_one_it_used(tiny_model):
    learner = learner_of(tiny_model, learning_rate=1e-3, warmup_steps=2)
    rates = [(await learner.update(batch())).metrics["learning_rate"] for _ in range(3)]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3])
    assert learner.optimizer.param_groups[0]["lr"] == rates[-1]


async def test_a_step_that_is_not_finite_is_skipped_and_counted(tiny_model):
    learner = learner_of(tiny_model)
    before = [p.detach().clone() for p in learner.policy.parameters()]
    update = await learner.update(batch(advantage=math.inf))
    assert update.metrics["skipped_updates"] == 1 and update.version == 1
    assert all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))
    good = await learner.update(batch())
    assert good.metrics["skipped_updates"] == 1 and math.isfinite(good.metrics["grad_norm"])
    assert not all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))


async def test_updates_that_are_never_finite_end_the_run(tiny_model):
    learner = learner_of(tiny_model)
    for _ in range(4):
        await learner.update(batch(advantage=math.inf))
    await learner.update(batch())  # one that is finite, and the count begins anew
    for _ in range(4):
        await learner.update(batch(advantage=math.nan))
    with pytest.raises(DivergedError, match=r"5 updates in a row .* learner\.learning_rate"):
        await learner.update(batch(advantage=math.inf))


async def test_zero_advantages_move_nothing(tiny_model):
    update = await learner_of(tiny_model).update(batch(advantage=0.0))
    assert update.metrics["grad_norm"] == 0.0


@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2)])
async def test_a_resumed_learner_makes_the_same_next_update(tiny_model, tmp_path, lora):
    first = learner_of(tiny_model, lora=lora, schedule="linear")
    for _ in range(2):
        await first.update(batch())
    first.save(tmp_path)
    second = learner_of(tiny_model, lora=lora, schedule="linear")
    second.load(tmp_path)
    updates = [await learner.update(batch()) for learner in (first, second)]
    assert updates[0].version == updates[1].version == 3
    measured = [{k: v for k, v in update.metrics.items() if not k.startswith("time/")} for update in updates]
    assert measured[0] == measured[1]
    for (name, a), (_, b) in zip(first.weights(), second.weights(), strict=True):
        assert torch.equal(a, b), name


async def test_lora_trains_the_adapter_alone_and_merges_exactly(tiny_model, tmp_path):
    learner = learner_of(tiny_model, lora=LoraConfig(rank=2), needs=("reference",))
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    await learner.update(batch())
    await learner.update(batch())
    grown = [n for n, p in learner.policy.named_parameters() if p.grad is not None]
    assert grown and all("lora_" in name for name in grown)
    outputs = await learner.forward(samples(), ("old", "reference"))
    assert any(
        np.abs(a.logprobs - b.logprobs).max() > 1e-3 for a, b in zip(outputs["old"], outputs["reference"], strict=True)
    )
    plain = learner_of(tiny_model)
    for a, b in zip(outputs["reference"], (await plain.forward(samples(), ("old",)))["old"], strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
    names = {name for name, _ in learner.weights()}
    assert names == {name for name, _ in base.named_parameters()}
    learner.export(tmp_path / "merged", merge=True)
    merged = learner_of(tmp_path / "merged")
    for a, b in zip(outputs["old"], (await merged.forward(samples(), ("old",)))["old"], strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


async def test_the_reference_stays_where_training_started(tiny_model):
    learner = learner_of(tiny_model, needs=("reference",))
    before = await learner.forward(samples(), ("old",))
    for _ in range(3):
        await learner.update(batch())
    after = await learner.forward(samples(), ("old", "reference"))
    for a, b in zip(before["old"], after["reference"], strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-6)
    assert np.abs(before["old"][0].logprobs - after["old"][0].logprobs).max() > 1e-3


@pytest.mark.parametrize(
    "changes", [{"micro_batch_tokens": 12}, {"logits_chunk_tokens": 3}, {"activation_checkpointing": True}]
)
async def test_how_a_batch_is_cut_changes_no_update(tiny_model, changes):
    with_values = replace(
        batch(),
        old_values=tuple(np.zeros(len(s), np.float32) for s in samples()),
        returns=tuple(np.ones(len(s), np.float32) for s in samples()),
    )
    found = []
    for config in ({}, changes):
        learner = learner_of(tiny_model, loss=ValueLoss(Reinforce()), needs=("value",), dtype="float64", **config)
        await learner.update(with_values)
        found.append([p.grad.clone() for p in learner.policy.parameters() if p.grad is not None])
    for a, b in zip(*found, strict=True):
        assert (a - b).norm() <= 1e-6 * a.norm()


async def test_teaching_learns_the_answer(tiny_model):
    learner = learner_of(tiny_model, loss=Teach(), total_updates=60)
    losses = [(await learner.update(batch())).metrics["nll"] for _ in range(60)]
    assert losses[-1] < 0.2 * losses[0]


async def test_the_pad_token_is_not_written_as_an_end_token(tiny_model, tmp_path):
    learner = learner_of(tiny_model)
    await learner.update(batch())
    learner.export(tmp_path / "out")
    before, after = (GenerationConfig.from_pretrained(f) for f in (tiny_model, tmp_path / "out"))
    assert after.eos_token_id == before.eos_token_id


async def test_the_learner_keeps_its_promises(tiny_model, tmp_path):
    await check_learner(lambda: learner_of(tiny_model), samples(), tmp_path)


@pytest.mark.parametrize("lora", [LoraConfig(rank=2), None], ids=["same adapter", "merged"])
async def test_training_goes_on_from_an_adapter_folder_as_it_was_left(tiny_model, tmp_path, lora):
    """The next stage of a LoRA run, and a finished stage that is loaded again, start from the trained weights."""
    first = learner_of(tiny_model, lora=LoraConfig(rank=2))
    for _ in range(3):
        await first.update(batch())
    left = (await first.forward(samples(), ("old",)))["old"]
    first.export(tmp_path / "adapter")
    second = learner_of(tmp_path / "adapter", lora=lora, needs=("reference",))
    assert [name for name, _ in second.weights()] == [name for name, _ in first.weights()]
    for _ in range(2):
        started = await second.forward(samples(), ("old", "reference"))
        for a, b in zip(left, started["reference"], strict=True):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
        await second.update(batch())
    assert np.abs(left[0].logprobs - started["old"][0].logprobs).max() > 1e-3
    second.export(tmp_path / "again")
    third = learner_of(tmp_path / "again", lora=lora)
    for (name, a), (_, b) in zip(second.weights(), third.weights(), strict=True):
        assert torch.allclose(a, b, atol=1e-6), name


async def test_an_adapter_of_another_rank_is_refused(tiny_model, tmp_path):
    learner_of(tiny_model, lora=LoraConfig(rank=2)).export(tmp_path / "adapter")
    with pytest.raises(ConfigError, match=r"rank 4 .* rank 2"):
        learner_of(tmp_path / "adapter", lora=LoraConfig(rank=4))
