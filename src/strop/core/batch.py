"""From groups to the batch a loss needs. Every normaliser is folded into `weights`, so a loss is a weighted sum."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strop.core.protocols import Advantage, Algorithm, PerToken, PerTurn, ScaleState
from strop.core.types import (
    NOT_SAMPLED,
    FloatArray,
    Rollout,
    RolloutGroup,
    Support,
    TokenOutputs,
    TrainingSample,
    Turn,
    read_only,
)

MIN_GEOMETRIC_BOUND = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two samples of a batch, by number, of which the first is preferred, and by how much it should win at least.

    The loss of a step is `sum over pairs of weight * loss`.
    """

    chosen: int
    rejected: int
    weight: float
    margin: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Everything a loss needs, in numpy; one entry per sample in every field, each array [L] of that sample.

    The loss of a step is `sum over samples and tokens of weights * loss`. The weights hold the mask and every
    denominator, so that ranks and micro-batches only add. With `pairs` the loss is one of pairs, whose two samples
    share a ticket, so that they are computed together.
    """

    samples: tuple[TrainingSample, ...]
    advantages: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]
    returns: tuple[FloatArray, ...] | None = None
    old_logprobs: tuple[FloatArray, ...] | None = None
    ref_logprobs: tuple[FloatArray, ...] | None = None
    old_values: tuple[FloatArray, ...] | None = None
    pairs: tuple[Pair, ...] | None = None
    metrics: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for pair in self.pairs or ():
            if self.samples[pair.chosen].ticket != self.samples[pair.rejected].ticket:
                raise ValueError(f"samples {pair.chosen} and {pair.rejected} are a pair and must share a ticket")
        for name in ("advantages", "weights", "returns", "old_logprobs", "ref_logprobs", "old_values"):
            arrays = getattr(self, name)
            if arrays is None:
                continue
            if [len(a) for a in arrays] != [len(s) for s in self.samples]:
                raise ValueError(f"batch field {name} does not match its samples in number or length")
            object.__setattr__(self, name, tuple(read_only(a, np.float32) for a in arrays))


def split_rollout(rollout: Rollout, ticket: int, domain: str, temperature: float = 1.0) -> tuple[TrainingSample, ...]:
    """The training samples of one rollout: its turns joined while each continues the last, split where one does not.

    The temperature is that of the sampler; top-p and top-k are carried by each completion's support.
    """
    samples = []
    for turns in _runs(rollout):
        ids, mask, logprobs, versions = [], [], [], []
        support: list[Support | tuple[None, ...]] = []
        for turn in turns:
            done = turn.completion
            given, drawn = len(turn.input_ids), len(done.token_ids)
            ids += [turn.input_ids, done.token_ids]
            mask += [np.zeros(given, bool), np.ones(drawn, bool)]
            logprobs += [np.zeros(given, np.float32), done.logprobs]
            versions += [np.full(given, NOT_SAMPLED, np.int32), done.versions]
            support += [(None,) * given, done.support or (None,) * drawn]
        samples.append(
            TrainingSample(
                token_ids=np.concatenate(ids),
                loss_mask=np.concatenate(mask),
                sampled_logprobs=np.concatenate(logprobs),
                versions=np.concatenate(versions),
                support=tuple(kept for part in support for kept in part) if _has_support(turns) else None,
                temperature=temperature,
                ticket=ticket,
                index=rollout.index,
                domain=domain,
            )
        )
    return tuple(samples)


def _runs(rollout: Rollout) -> Iterator[list[Turn]]:
    run: list[Turn] = []
    for turn in rollout.turns:
        if run and not turn.continues:
            yield run
            run = []
        run.append(turn)
    if run:
        yield run


def _has_support(turns: Sequence[Turn]) -> bool:
    return any(turn.completion.support is not None for turn in turns)


def samples_of(groups: Sequence[RolloutGroup], temperatures: Mapping[str, float]) -> tuple[TrainingSample, ...]:
    """The samples of every trainable rollout, in the order of groups and members.

    `temperatures` gives each domain's sampling temperature.
    """
    return tuple(
        sample
        for group in groups
        for rollout in group.trainable
        for sample in split_rollout(rollout, group.ticket, group.task.domain, temperatures[group.task.domain])
    )


def without_truncated(groups: Sequence[RolloutGroup]) -> tuple[RolloutGroup, ...]:
    """The groups less their truncated members: those leave the loss, every denominator and the baseline."""
    return tuple(
        replace(group, rollouts=tuple(r for r in group.rollouts if r.status != "truncated")) for group in groups
    )


def make_batch(
    groups: Sequence[RolloutGroup],
    samples: Sequence[TrainingSample],
    outputs: Mapping[str, Sequence[TokenOutputs]],
    algorithm: Algorithm,
    scale: ScaleState,
) -> tuple[Batch, ScaleState]:
    """Advantages and weights for `samples`, which are `samples_of(groups)` in order.

    Rollouts are counted once in averages over sequences, however many samples they are split into. Samples left out
    by the geometric mask keep their place in every denominator, otherwise the others would be inflated.
    """
    credit = algorithm.advantage(groups, outputs, scale)
    members = [(g, r) for g, group in enumerate(groups) for r in range(len(group.trainable))]
    owners = _owners(groups)
    advantages: list[FloatArray] = []
    returns: list[FloatArray] = []
    for (g, r), part, sample in _walk(members, owners, samples):
        advantages.append(_spread(credit.advantages[g][r], sample, part, _turn_of_token(groups[g].trainable[r], part)))
        if credit.returns is not None:
            returns.append(credit.returns[g][r].values[part])
    weights = aggregation_weights(samples, algorithm)
    kept = [1.0] * len(samples)
    if algorithm.geometric_mask:
        kept = [float(_within_geometric_bound(s, o)) for s, o in zip(samples, outputs["old"], strict=True)]
        weights = [w * k for w, k in zip(weights, kept, strict=True)]
    batch = Batch(
        samples=tuple(samples),
        advantages=tuple(advantages),
        weights=tuple(weights),
        returns=tuple(returns) if credit.returns is not None else None,
        old_logprobs=_field(outputs, "old"),
        ref_logprobs=_field(outputs, "reference"),
        old_values=_values(outputs),
        metrics={"masked_share": 1.0 - float(np.mean(kept)) if kept else 0.0}
        | gradient_shares(samples, advantages, weights),
    )
    return batch, credit.scale


def gradient_shares(
    samples: Sequence[TrainingSample], advantages: Sequence[FloatArray], weights: Sequence[FloatArray]
) -> dict[str, float]:
    """`domain/NAME/gradient_share`: what part of the sum of |weight * advantage| over all tokens a domain has.

    That is the size of the factors before the tokens' score functions in the policy gradient, so it says whose
    answers move the policy. Empty where nothing moves it.
    """
    pull: dict[str, float] = {}
    for sample, advantage, weight in zip(samples, advantages, weights, strict=True):
        pull[sample.domain] = pull.get(sample.domain, 0.0) + float(np.abs(weight * advantage).sum())
    total = sum(pull.values())
    return {f"domain/{name}/gradient_share": value / total for name, value in pull.items()} if total else {}


def rollout_advantages(batch: Batch) -> dict[tuple[int, int], float]:
    """The advantage of each rollout by (ticket, index): the mean over its sampled tokens."""
    found: dict[tuple[int, int], list[FloatArray]] = {}
    for sample, advantage in zip(batch.samples, batch.advantages, strict=True):
        found.setdefault((sample.ticket, sample.index), []).append(advantage[sample.loss_mask])
    return {key: float(np.concatenate(parts).mean()) for key, parts in found.items() if any(map(len, parts))}


def aggregation_weights(samples: Sequence[TrainingSample], algorithm: Algorithm) -> list[FloatArray]:
    """Per-token weights [L] of each sample: the mask over the denominator that `aggregation` names.

    `token_mean` divides by all trained tokens of the step (of the domain, times the domain's share of sequences,
    under `domain_normaliser`); the sequence means divide by sequences, which are rollouts.
    """
    tokens_of: Counter[tuple[int, int]] = Counter()
    domain_of: dict[tuple[int, int], str] = {}
    for sample in samples:
        key = (sample.ticket, sample.index)
        tokens_of[key] += int(sample.loss_mask.sum())
        domain_of[key] = sample.domain
    num_sequences = max(1, len(tokens_of))
    domain_tokens: Counter[str] = Counter()
    domain_sequences = Counter(domain_of.values())
    for key, count in tokens_of.items():
        domain_tokens[domain_of[key]] += count
    all_tokens = max(1, sum(tokens_of.values()))

    def weight(sample: TrainingSample) -> float:
        match algorithm.aggregation:
            case "token_mean" if algorithm.domain_normaliser:
                share = domain_sequences[sample.domain] / num_sequences
                return share / max(1, domain_tokens[sample.domain])
            case "token_mean":
                return 1.0 / all_tokens
            case "seq_mean_token_mean":
                return 1.0 / (num_sequences * max(1, tokens_of[sample.ticket, sample.index]))
            case "seq_mean_token_sum":
                return 1.0 / num_sequences
            case "constant":
                return 1.0 / (num_sequences * algorithm.max_tokens)

    return [sample.loss_mask * np.float32(weight(sample)) for sample in samples]


def _owners(groups: Sequence[RolloutGroup]) -> list[int]:
    return [sum(1 for _ in _runs(r)) for group in groups for r in group.trainable]


def _walk(
    members: Sequence[tuple[int, int]], owners: Sequence[int], samples: Sequence[TrainingSample]
) -> Iterator[tuple[tuple[int, int], int, TrainingSample]]:
    rest = iter(samples)
    for member, count in zip(members, owners, strict=True):
        for part in range(count):
            yield member, part, next(rest)


def _turn_of_token(rollout: Rollout, part: int) -> FloatArray:
    """For sample `part` of a rollout, the number of the turn that each sampled token belongs to."""
    first = 0
    for number, turns in enumerate(_runs(rollout)):
        if number == part:
            return np.concatenate([np.full(len(t.completion.token_ids), first + i) for i, t in enumerate(turns)])
        first += len(turns)
    raise IndexError(part)


def _spread(advantage: Advantage, sample: TrainingSample, part: int, turns: FloatArray) -> FloatArray:
    match advantage:
        case PerToken(values=values):
            return values[part]
        case PerTurn(values=values):
            spread = np.zeros(len(sample), np.float32)
            spread[sample.loss_mask] = values[turns.astype(np.int64)]
            return spread
        case scalar:
            return sample.loss_mask * np.float32(scalar)


def _field(outputs: Mapping[str, Sequence[TokenOutputs]], name: str) -> tuple[FloatArray, ...] | None:
    return tuple(o.logprobs for o in outputs[name]) if name in outputs else None


def _values(outputs: Mapping[str, Sequence[TokenOutputs]]) -> tuple[FloatArray, ...] | None:
    if "value" not in outputs:
        return None
    return tuple(o.values for o in outputs["value"] if o.values is not None)


def _within_geometric_bound(sample: TrainingSample, old: TokenOutputs) -> bool:
    """|mean log w| <= max(0.01, 4 sqrt(2 k3 / T)) with w = old / sampled, over the T sampled tokens."""
    if sample.sampled_logprobs is None or not sample.loss_mask.any():
        return True
    log_w = (old.logprobs - sample.sampled_logprobs)[sample.loss_mask].astype(np.float64)
    k3 = float(np.mean(np.expm1(np.clip(log_w, -20, 20)) - log_w))
    bound = max(MIN_GEOMETRIC_BOUND, 4.0 * math.sqrt(2.0 * max(k3, 0.0) / len(log_w)))
    return abs(float(log_w.mean())) <= bound
