"""Does a model fit the tries? Decided by an equality check at load, never by its name."""

from __future__ import annotations

import numpy as np
import torch

from strop.config.schema import LearnerConfig
from strop.core.errors import DataError
from strop.core.types import NOT_SAMPLED, TrainingSample
from strop.learner.attention import use_trie_attention
from strop.learner.forward import RunTries, run_apart, run_shared
from strop.learner.policy import Policy
from strop.learner.tries import build_tries

TOLERANCE = 1e-3  # in logprob; models that do not fit differ by far more
SHORTEST_PROBE = 24


def choose_packing(policy: Policy, config: LearnerConfig) -> bool:
    """Whether samples share prefixes; sets the policy's attention to match.

    DataError when even separate sequences differ from what transformers says.
    """
    match config.packing:
        case "separate":
            return False
        case "trie":
            use_trie_attention(policy.plain)
            return True
        case "auto":
            return fits_tries(policy)


@torch.no_grad()
def fits_tries(policy: Policy) -> bool:
    """Whether a branching trie gives what separate sequences give; leaves trie attention on if so.

    State-space layers carry branches into each other, and a sliding window counts nodes instead of positions.
    """
    was_training, own_attention = policy.training, policy.plain.config._attn_implementation
    policy.eval()
    samples = _branching_samples(policy.plain.config.vocab_size, _probe_length(policy))
    apart = _logprobs(policy, samples, run_apart, share=False)
    plain = [_plain_logprobs(policy, sample) for sample in samples]
    if _distance(apart, plain) > TOLERANCE:
        raise DataError(
            "this model changes its logits after the head in a way the learner does not follow "
            "(scaled or capped logits); use another model"
        )
    fits = _distance(_shared_logprobs(policy, samples), apart) <= TOLERANCE
    if not fits:
        policy.plain.set_attn_implementation(own_attention)
    policy.train(was_training)
    return fits


def _probe_length(policy: Policy) -> int:
    """Longer than any window or chunk that the model's config speaks of, so that its limits show."""
    config = policy.plain.config.to_dict()
    limits = [v for k, v in config.items() if ("window" in k or "chunk" in k) and isinstance(v, int)]
    longest = max([SHORTEST_PROBE, *(limit + SHORTEST_PROBE // 2 for limit in limits)])
    return min(longest, config.get("max_position_embeddings") or longest)  # state-space models name no longest


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


def _logprobs(policy: Policy, samples: list[TrainingSample], run: RunTries, *, share: bool) -> list[torch.Tensor]:
    tries = build_tries(samples, max_nodes=1 << 30, share=share)
    outputs = run(policy, tries, samples, chunk_tokens=1024)
    return [outputs[number].logprobs for number in range(len(samples))]


def _shared_logprobs(policy: Policy, samples: list[TrainingSample]) -> list[torch.Tensor]:
    """NaN where the model cannot even be run on a trie: it lets no attention be set, or takes no tree mask."""
    try:
        use_trie_attention(policy.plain)
        return _logprobs(policy, samples, run_shared, share=True)
    except (ValueError, TypeError, RuntimeError):
        return [torch.full((len(sample),), torch.nan, device=policy.plain.device) for sample in samples]


def _plain_logprobs(policy: Policy, sample: TrainingSample) -> torch.Tensor:
    """What transformers itself says, head and all."""
    ids = torch.from_numpy(sample.token_ids.astype(np.int64))[None].to(policy.plain.device)
    logits = policy.plain(input_ids=ids, use_cache=False).logits[0].float()
    logprobs = torch.log_softmax(logits, -1)[:-1].gather(1, ids[0, 1:, None]).squeeze(1)
    return torch.cat([logprobs.new_zeros(1), logprobs])


def _distance(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    return float((torch.cat(ours).double() - torch.cat(theirs).double()).abs().max())
