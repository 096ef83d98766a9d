"""Packing, chunks and micro-batches change nothing: logprobs and gradients equal those of separate forwards."""

import copy

import numpy as np
import pytest
import torch
from learner_models import (
    VOCAB,
    assert_close,
    gradients,
    group,
    make_batch,
    make_learner,
    make_sample,
    multi_turn,
    tiny_gpt2,
    tiny_llama,
    tree,
)
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Mamba2Config,
    Mamba2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from strop.algorithms.loss import EntropyBonus, Reinforce
from strop.core.errors import DataError
from strop.learner.check import fits_tries
from strop.learner.forward import run_shared
from strop.learner.policy import Policy
from strop.learner.tries import build_tries

NEVER_CLIPPED = 1e9


def reinforce(inputs):
    return -inputs.logprobs * inputs.advantages, {"twice": 2 * inputs.logprobs}


def with_values(inputs):
    return -inputs.logprobs * inputs.advantages + (inputs.values - inputs.returns) ** 2, {}


def dense_logprobs(model, sample):
    """Straight from the definition: one sequence, all logits, the shift written out."""
    logits = model(input_ids=torch.from_numpy(sample.token_ids.astype(np.int64))[None]).logits[0]
    logits = logits / (sample.temperature or 1.0)
    found = torch.zeros(len(sample), dtype=logits.dtype)
    for t in np.flatnonzero(sample.loss_mask):
        row = logits[t - 1]
        kept = None if sample.support is None else sample.support[t]
        if kept is not None:
            ids = torch.tensor(kept, dtype=torch.long)
            row = torch.full_like(row, -torch.inf).index_copy(0, ids, row[ids])
        found[t] = torch.log_softmax(row, -1)[int(sample.token_ids[t])]
    return found


def dense_gradients(model, batch):
    loss = torch.zeros((), dtype=torch.float64)
    for sample, advantages, weights in zip(batch.samples, batch.advantages, batch.weights, strict=True):
        terms = dense_logprobs(model, sample) * torch.tensor(advantages) * torch.tensor(weights)
        loss = loss - terms.sum()
    loss.backward()
    return {f"model.{n}": p.grad for n, p in model.named_parameters()}


def cut_samples():
    """One state asked at two temperatures and two supports; every token lies in its support."""
    ids = [3, 1, 4, 1, 5]
    mask = [0, 0, 1, 1, 1]
    kept = (None, None, np.array([4, 9, 2], np.int32), None, np.array([5], np.int32))
    return [
        make_sample(ids, mask),
        make_sample(ids, mask, temperature=0.7, index=1),
        make_sample(ids, mask, temperature=0.7, support=kept, index=2),
        make_sample(ids, mask, temperature=0.0, index=3),
    ]


CASES = {"group": group, "multi_turn": multi_turn, "tree": tree, "cut": cut_samples}


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_packed_logprobs_are_those_of_separate_sequences(name):
    samples = CASES[name]()
    learner = make_learner(reinforce, packing="trie")
    outputs = run_shared(learner.policy, build_tries(samples, max_nodes=1000), samples, chunk_tokens=3)
    model = tiny_llama()
    for number, sample in enumerate(samples):
        torch.testing.assert_close(outputs[number].logprobs, dense_logprobs(model, sample), rtol=0, atol=1e-9)
        assert not outputs[number].logprobs[~torch.tensor(sample.loss_mask)].any()


@pytest.mark.parametrize("make, tolerance", [(tiny_gpt2, 1e-10), (tiny_llama, 1e-6)])
@pytest.mark.parametrize("name", CASES)
async def test_packed_gradients_are_those_of_separate_sequences(name, make, tolerance):
    batch = make_batch(CASES[name]())
    settings = {"packing": "trie", "max_grad_norm": NEVER_CLIPPED, "logits_chunk_tokens": 3}
    learner = make_learner(reinforce, model=make(), **settings)
    await learner.update(batch)
    assert_close(gradients(learner), dense_gradients(make(), batch), tolerance)


@torch.no_grad()
def test_entropy_is_that_of_the_sampled_distribution():
    samples = cut_samples()
    learner = make_learner(reinforce, packing="trie")
    outputs = run_shared(learner.policy, build_tries(samples, max_nodes=1000), samples, chunk_tokens=64)
    logits = tiny_llama()(input_ids=torch.tensor([[3, 1, 4, 1, 5]])).logits[0]
    whole = torch.distributions.Categorical(logits=logits[1] / 0.7).entropy()
    three = torch.distributions.Categorical(logits=logits[1, [4, 9, 2]] / 0.7).entropy()
    torch.testing.assert_close(outputs[1].entropy[2], whole)
    torch.testing.assert_close(outputs[2].entropy[2], three)
    assert outputs[2].entropy[4].abs() < 1e-12  # one kept id leaves nothing open


def dense_entropies(model, sample):
    """Straight from the definition: -sum p log p of each distribution that a trained token was drawn from."""
    logits = model(input_ids=torch.from_numpy(sample.token_ids.astype(np.int64))[None]).logits[0]
    found = torch.zeros(len(sample), dtype=logits.dtype)
    for t in np.flatnonzero(sample.loss_mask):
        kept = None if sample.support is None else sample.support[t]
        row = logits[t - 1] if kept is None else logits[t - 1, torch.tensor(kept, dtype=torch.long)]
        found[t] = torch.distributions.Categorical(logits=row / (sample.temperature or 1.0)).entropy()
    return found


@pytest.mark.parametrize("packing", ["trie", "separate"])
@pytest.mark.parametrize("name", CASES)
async def test_the_entropy_bonus_has_the_gradient_of_the_entropy(name, packing):
    batch = make_batch(CASES[name]())
    settings = {"packing": packing, "max_grad_norm": NEVER_CLIPPED, "logits_chunk_tokens": 3}
    learner = make_learner(EntropyBonus(Reinforce(), coef=0.3), model=tiny_gpt2(), **settings)
    await learner.update(batch)
    model = tiny_gpt2()
    loss = torch.zeros((), dtype=torch.float64)
    for sample, advantages, weights in zip(batch.samples, batch.advantages, batch.weights, strict=True):
        gained = dense_logprobs(model, sample) * torch.tensor(advantages) + 0.3 * dense_entropies(model, sample)
        loss = loss - (gained * torch.tensor(weights)).sum()
    loss.backward()
    assert_close(gradients(learner), {f"model.{n}": p.grad for n, p in model.named_parameters()}, 1e-9)


async def test_a_token_outside_its_support_is_refused():
    sample = make_sample([1, 2, 3], [0, 0, 1], support=(None, None, np.array([4, 5], np.int32)))
    with pytest.raises(DataError, match="token 2 is not in its support"):
        await make_learner(reinforce, packing="trie").forward([sample], ["old"])


@pytest.mark.parametrize("loss, needs", [(reinforce, ()), (with_values, ("value",))])
async def test_micro_batches_order_and_packing_leave_the_gradient_alone(loss, needs):
    samples = [*group(), *multi_turn(), *tree(), *group(seed=9, ticket=3)]
    batch = make_batch(samples)
    found = []
    for config in (
        {"micro_batch_tokens": 4096},
        {"micro_batch_tokens": 20},
        {"packing": "separate", "micro_batch_tokens": 4096},
        {"packing": "separate", "micro_batch_tokens": 1},
        {"activation_checkpointing": True},
    ):
        learner = make_learner(loss, needs=needs, max_grad_norm=NEVER_CLIPPED, **config)
        update = await learner.update(batch)
        found.append((gradients(learner), update.metrics))
    for grads, metrics in found[1:]:
        assert_close(grads, found[0][0], 1e-6)
        for name in ("loss", "grad_norm", "entropy", "num_tokens", "mismatch_k3"):
            assert metrics[name] == pytest.approx(found[0][1][name], rel=1e-6), name
    assert found[0][1]["unique_tokens"] < sum(len(s) for s in samples) == found[2][1]["unique_tokens"]


async def test_two_packed_samples_do_not_see_each_other():
    """Field case 33: sequences of 3 and 5 tokens, apart, together, and in the other order."""
    short, long = make_sample([1, 2, 3], [0, 1, 1]), make_sample([9, 8, 7, 6, 5], [0, 1, 1, 1, 1])
    learner = make_learner(reinforce, packing="trie")
    apart = [(await learner.forward([s], ["old"]))["old"][0].logprobs for s in (short, long)]
    for order in ([0, 1], [1, 0]):
        together = (await learner.forward([(short, long)[n] for n in order], ["old"]))["old"]
        for n, output in zip(order, together, strict=True):
            np.testing.assert_allclose(output.logprobs, apart[n], atol=1e-6)


def tiny(kind, model, **changes):
    torch.manual_seed(0)
    sizes = dict(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
    )
    return model(kind(**sizes | changes))


FAMILIES = {
    "llama": (lambda: tiny_llama(torch.float32), True),
    "gpt2": (lambda: tiny_gpt2(torch.float32), True),
    "sliding window": (lambda: tiny(MistralConfig, MistralForCausalLM, sliding_window=8, initializer_range=0.3), False),
    "state space": (
        lambda: Mamba2ForCausalLM(
            Mamba2Config(
                vocab_size=VOCAB,
                hidden_size=32,
                num_hidden_layers=1,
                state_size=8,
                num_heads=4,
                head_dim=16,
                n_groups=1,
            )
        ),
        False,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
async def test_models_that_tries_do_not_fit_are_trained_as_separate_sequences(family):
    make, fits = FAMILIES[family]
    torch.manual_seed(0)
    model = make()
    plain = copy.deepcopy(model).eval()
    assert fits_tries(Policy(make(), None, None, False)) is fits
    learner = make_learner(reinforce, model=model, dtype="float32")
    samples = group(size=3, prompt=12)
    outputs = (await learner.forward(samples, ["old"]))["old"]
    with torch.no_grad():
        expected = [dense_logprobs(plain, sample) for sample in samples]
    for output, logprobs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output.logprobs, logprobs.numpy(), atol=2e-4)
    update = await learner.update(make_batch(samples))
    assert update.metrics["grad_norm"] > 0


def test_a_model_that_changes_its_logits_after_the_head_is_refused():
    model = tiny(Gemma3TextConfig, Gemma3ForCausalLM, final_logit_softcapping=0.01, initializer_range=0.3)
    with pytest.raises(DataError, match="use another model"):
        fits_tries(Policy(model, None, None, False))
