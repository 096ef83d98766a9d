"""Tiny models and batches of the learner tests."""

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from strop.config.schema import LearnerConfig
from strop.core.batch import Batch
from strop.core.types import TrainingSample
from strop.learner.learner import TorchLearner
from strop.learner.policy import Policy

VOCAB = 40


def tiny_llama(dtype=torch.float64, seed=0, **changes):
    torch.manual_seed(seed)
    sizes = dict(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(LlamaConfig(**sizes | changes)).to(dtype)


def tiny_gpt2(dtype=torch.float64):
    """Float64 throughout: Llama's norms are float32 inside, whatever the dtype."""
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **still, **ends)).to(dtype)


def make_learner(loss, *, model=None, needs=(), total_updates=10, **config):
    settings = LearnerConfig(**{"dtype": "float64", "device": "cpu", "learning_rate": 1e-2} | config)
    model = tiny_llama() if model is None else model
    policy = Policy(model, None, settings.lora, "value" in needs, "score" in needs)
    return TorchLearner(policy, settings, loss, total_updates=total_updates, needs=needs)


def make_sample(ids, mask, **fields):
    mask = np.asarray(mask, bool)
    sampled = np.where(mask, -1.0, 0.0)
    return TrainingSample(
        token_ids=ids, loss_mask=mask, versions=np.where(mask, 0, -1), sampled_logprobs=sampled, **fields
    )


def draw_ids(draw, length):
    return draw.integers(0, VOCAB, length).tolist()


def group(seed=0, size=4, prompt=6, ticket=0):
    draw = np.random.default_rng(seed)
    given = draw_ids(draw, prompt)
    lengths = [3 + n for n in range(size)]
    return [
        make_sample(given + draw_ids(draw, n), [0] * prompt + [1] * n, ticket=ticket, index=i)
        for i, n in enumerate(lengths)
    ]


def multi_turn(seed=1, ticket=1):
    """Two rollouts whose first turns agree, one going on after a tool reply."""
    draw = np.random.default_rng(seed)
    history = draw_ids(draw, 8)
    mask = [0] * 4 + [1] * 4
    return [
        make_sample(history + draw_ids(draw, 7), mask + [0] * 3 + [1] * 4, ticket=ticket, index=0),
        make_sample(history + draw_ids(draw, 2), mask + [1] * 2, ticket=ticket, index=1),
        make_sample(history, mask, ticket=ticket, index=2),
    ]


def tree(seed=2, ticket=2):
    """Leaves of a search: branches off branches, and siblings that share a state."""
    draw = np.random.default_rng(seed)
    trunk, left, leaf = draw_ids(draw, 5), draw_ids(draw, 4), draw_ids(draw, 3)
    paths = [trunk + left + leaf, trunk + left + draw_ids(draw, 3), trunk + draw_ids(draw, 6), trunk + left[:2] + leaf]
    return [make_sample(p, [0] * 5 + [1] * (len(p) - 5), ticket=ticket, index=i) for i, p in enumerate(paths)]


def make_batch(samples, seed=3):
    draw = np.random.default_rng(seed)
    num_tokens = sum(s.loss_mask.sum() for s in samples)
    return Batch(
        samples=tuple(samples),
        advantages=tuple(s.loss_mask * draw.normal(size=len(s)) for s in samples),
        weights=tuple(s.loss_mask / num_tokens for s in samples),
        returns=tuple(s.loss_mask * draw.normal(size=len(s)) for s in samples),
    )


def gradients(learner):
    return {n: p.grad.clone() for n, p in learner.policy.named_parameters() if p.grad is not None}


def assert_close(ours, theirs, tolerance):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert (value - theirs[name]).norm() <= tolerance * theirs[name].norm().clamp_min(1e-12), name
