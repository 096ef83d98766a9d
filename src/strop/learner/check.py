"""Does a model fit the tries? Decided by an equality check at load, never by its name."""

from __future__ import annotations

import numpy as np
import torch

from strop.core.errors import DataError
from strop.core.types import NOT_SAMPLED, TrainingSample
from strop.learner.attention import use_trie_attention
from strop.learner.forward import run_tries
from strop.learner.policy import Policy
from strop.learner.tries import build_tries

TOLERANCE = 1e-3  # in logprob; models that do not fit differ by far more


@torch.no_grad()
def fits_tries(policy: Policy) -> bool:
    """Whether a branching trie gives what separate sequences give; DataError when even those differ from the model.

    State-space layers carry branches into each other, and a sliding window counts nodes instead of positions.
    """
    was_training = policy.training
    policy.eval()
    samples = _branching_samples(policy.plain.config.vocab_size, _probe_length(policy))
    packed = _logprobs(policy, samples, share=True)
    apart = _logprobs(policy, samples, share=False)
    plain = [_plain_logprobs(policy, sample) for sample in samples]
    policy.train(was_training)
    if max(_distance(a, b) for a, b in zip(apart, plain, strict=True)) > TOLERANCE:
        raise DataError(
            "this model changes its hidden states or logits in a way the learner does not follow "
            "(scaled or capped logits, or attention of its own); use another model"
        )
    return max(_distance(a, b) for a, b in zip(packed, apart, strict=True)) <= TOLERANCE


def _probe_length(policy: Policy) -> int:
    return min(24, policy.plain.config.max_position_embeddings)


def _branching_samples(vocab_size: int, length: int) -> list[TrainingSample]:
    """A trunk, two branches off it, and a branch off a branch."""
    draw = np.random.default_rng(0)
    half, quarter = length // 2, length // 4
    trunk = draw.integers(0, vocab_size, half)
    first, second = draw.integers(0, vocab_size, (2, length - half))
    third = np.concatenate([first[:quarter], draw.integers(0, vocab_size, length - half - quarter)])
    mask = np.arange(length) > 0
    return [
        TrainingSample(token_ids=np.concatenate([trunk, branch]), loss_mask=mask, versions=np.full(length, NOT_SAMPLED))
        for branch in (first, second, third)
    ]


def _logprobs(policy: Policy, samples: list[TrainingSample], *, share: bool) -> list[torch.Tensor]:
    tries = build_tries(samples, max_nodes=1 << 30, share=share)
    outputs = {}
    for trie in tries:
        outputs |= run_tries(policy, [trie], samples, chunk_tokens=1024)
    return [outputs[number].logprobs for number in range(len(samples))]


def _plain_logprobs(policy: Policy, sample: TrainingSample) -> torch.Tensor:
    """What transformers itself says, causal mask and all."""
    device = policy.plain.device
    ids = torch.from_numpy(sample.token_ids.astype(np.int64))[None].to(device)
    policy.plain.set_attn_implementation("eager")
    logits = policy.plain(input_ids=ids, use_cache=False).logits[0].float()
    use_trie_attention(policy.plain)
    logprobs = torch.log_softmax(logits, -1)[:-1].gather(1, ids[0, 1:, None]).squeeze(1)
    return torch.cat([logprobs.new_zeros(1), logprobs])


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).abs().max())
