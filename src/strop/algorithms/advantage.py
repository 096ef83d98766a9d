"""Rewards to advantages. Each is a frozen callable that reads like its equation; only trainable members enter.

Shapes: G trainable members of a group, L tokens of a sample. A group that lost members is a smaller group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strop.core.batch import split_rollout
from strop.core.protocols import Advantage, Credit, PerToken, ScaleState
from strop.core.types import Reward, Rollout, RolloutGroup, TokenOutputs

Outputs = Mapping[str, Sequence[TokenOutputs]]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MIN_STD = 1e-6  # below it a group has no spread, only float noise that a division would blow up


def totals_of(group: RolloutGroup) -> Array:
    """Rewards [G] of the trainable members. Where a score does not apply to a member, its mean over the members that it
    applies to stands in, so that it neither pays nor costs: it leaves the sum and its own denominator in the baseline.
    """
    members = group.trainable
    totals = np.array([rollout.total for rollout in members], np.float64)
    for name in sorted({name for member in members for name in _reward(member).scores}):
        values = _values_of(name, members)
        absent = np.isnan(values)
        if absent.any() and not absent.all():
            weights = np.array([_reward(member).weights[name] for member in members])
            totals[absent] += weights[absent] * values[~absent].mean()
    return totals


def _reward(member: Rollout) -> Reward:
    assert member.reward is not None, "a trainable member has a reward"
    return member.reward


def _values_of(name: str, members: Sequence[Rollout]) -> Array:
    """The score [G] of each member, NaN where it does not apply."""
    scores = (_reward(member).scores.get(name) for member in members)
    return np.array([np.nan if s is None or s.value is None else s.value for s in scores], np.float64)


def leave_one_out(rewards: Array) -> Array:
    """r_i minus the mean of the others [G]; zeros for a group of one. (RLOO, 2402.14740)"""
    if len(rewards) < 2:
        return np.zeros_like(rewards)
    loo: Array = (rewards - rewards.mean()) * len(rewards) / (len(rewards) - 1)
    return loo


def sample_std(rewards: Array) -> float:
    """Standard deviation with G - 1 in the denominator; 0 for fewer than two."""
    return float(rewards.std(ddof=1)) if len(rewards) > 1 else 0.0


@dataclass(frozen=True)
class Grpo:
    """A_i = (r_i - mean) / (std + eps), GRPO eq. 3 (2402.03300); std by sample formula of the group or of the batch.

    `scaling = "none"` is Dr. GRPO (2503.20783). A group without spread gives exact zeros.
    """

    scaling: Literal["group", "batch", "none"] = "group"
    eps: float = 1e-6

    def __call__(self, groups: Sequence[RolloutGroup], outputs: Outputs, scale: ScaleState) -> Credit:
        rewards = [totals_of(group) for group in groups]
        batch_std = sample_std(np.concatenate(rewards)) if rewards else 0.0
        return Credit(advantages=[self._group(r, batch_std) for r in rewards], scale=scale)

    def _group(self, rewards: Array, batch_std: float) -> list[Advantage]:
        own_std = sample_std(rewards)
        if own_std < MIN_STD:
            return [0.0] * len(rewards)
        std = {"group": own_std + self.eps, "batch": batch_std + self.eps, "none": 1.0}[self.scaling]
        return _floats((rewards - rewards.mean()) / std)


@dataclass(frozen=True)
class Rloo:
    """A_i = r_i - mean of the others (2402.14740), which is G / (G - 1) times Dr. GRPO's."""

    def __call__(self, groups: Sequence[RolloutGroup], outputs: Outputs, scale: ScaleState) -> Credit:
        return Credit(advantages=[_floats(leave_one_out(totals_of(group))) for group in groups], scale=scale)


@dataclass(frozen=True)
class DomainScaled:
    """Leave-one-out over the running spread of the domain: A_i = loo_i / s_d (2512.12967, per-domain normalisation).

    s_d^2 moves by `decay` towards the variance of the domain's rewards in the step, and never falls below `floor`^2;
    the first observation is taken as it is, and a step without a reward of the domain leaves it. Domains stay
    commensurate without favouring easy and hard prompts.
    """

    decay: float = 0.9
    floor: float = 0.05

    def __call__(self, groups: Sequence[RolloutGroup], outputs: Outputs, scale: ScaleState) -> Credit:
        rewards: defaultdict[str, list[Array]] = defaultdict(list)
        for group in groups:
            rewards[group.task.domain].append(totals_of(group))
        moved = dict(scale)
        for domain, arrays in rewards.items():
            observed = np.concatenate(arrays)
            if not len(observed):  # all were truncated and left out; the variance of nothing is NaN
                continue
            variance = float(observed.var())
            moved[domain] = self.decay * scale[domain] + (1 - self.decay) * variance if domain in scale else variance
        advantages = []
        for group in groups:
            spread = max(self.floor, moved.get(group.task.domain, 0.0) ** 0.5)
            advantages.append(_floats(leave_one_out(totals_of(group)) / spread))
        return Credit(advantages=advantages, scale=moved)


@dataclass(frozen=True)
class ReinforcePlusPlus:
    """REINFORCE++ with baseline (2501.03262): group mean subtracted, then whitened over the samples of the batch."""

    eps: float = 1e-8

    def __call__(self, groups: Sequence[RolloutGroup], outputs: Outputs, scale: ScaleState) -> Credit:
        centred = [_centred(totals_of(group)) for group in groups]
        return Credit(advantages=[_floats(a) for a in _whitened(centred, self.eps)], scale=scale)


@dataclass(frozen=True)
class Gdpo:
    """GDPO (2601.05242): each reward normalised within its group, weighted, summed, then whitened over the batch.

    A member that a reward does not apply to takes no part in that reward's mean and gets nothing from it.
    """

    eps: float = 1e-6

    def __call__(self, groups: Sequence[RolloutGroup], outputs: Outputs, scale: ScaleState) -> Credit:
        summed = [self._group(group) for group in groups]
        return Credit(advantages=[_floats(a) for a in _whitened(summed, self.eps)], scale=scale)

    def _group(self, group: RolloutGroup) -> Array:
        members = group.trainable
        total = np.zeros(len(members))
        for name in sorted({name for member in members for name in _reward(member).scores}):
            values = _values_of(name, members)
            applies = ~np.isnan(values)
            if sample_std(values[applies]) < MIN_STD:
                continue
            normal = (values[applies] - values[applies].mean()) / (sample_std(values[applies]) + self.eps)
            total[applies] += _reward(members[0]).weights[name] * normal
        return total


@dataclass(frozen=True)
class Gae:
    """Generalised advantage estimation (1506.02438) with the value head; works at group size 1.

    delta_t = r_t + gamma V_(t+1) - V_t, A_t = delta_t + gamma lambda A_(t+1), R_t = A_t + V_t, over sampled tokens
    only: what an environment says between them neither decays nor earns. Turn rewards fall on the turn's last token and
    the rollout's reward on its last. A terminated rollout ends at value 0; a truncated one bootstraps with the value of
    its last state. Advantages are whitened over the tokens of the batch after the returns are formed.
    """

    gamma: float = 1.0
    lam: float = 1.0
    eps: float = 1e-8

    def __call__(self, groups: Sequence[RolloutGroup], outputs: Outputs, scale: ScaleState) -> Credit:
        values = iter(outputs["value"])
        flat: list[Array] = []
        flat_returns: list[Array] = []
        masks_of: list[list[Mask]] = []
        for group in groups:
            for rollout in group.trainable:
                samples = split_rollout(rollout, group.ticket, group.task.domain)
                own = [np.asarray(next(values).values, np.float64) for _ in samples]
                masks = [sample.loss_mask for sample in samples]
                state_values = np.concatenate([v[m] for v, m in zip(own, masks, strict=True)])
                rewards = np.zeros(len(state_values))
                ends = np.cumsum([len(turn.completion.token_ids) for turn in rollout.turns]) - 1
                for end, turn in zip(ends, rollout.turns, strict=True):
                    rewards[end] += turn.reward or 0.0
                rewards[-1] += rollout.total or 0.0
                last = state_values[-1] if rollout.status == "truncated" else 0.0
                flat.append(self.trace(rewards, state_values, last))
                flat_returns.append(flat[-1] + state_values)
                masks_of.append(masks)
        white = map(_scattered, _whitened_tokens(flat, self.eps), masks_of)
        targets = map(_scattered, flat_returns, masks_of)
        sizes = [len(group.trainable) for group in groups]
        return Credit(
            advantages=[list(islice(white, size)) for size in sizes],
            returns=[list(islice(targets, size)) for size in sizes],
            scale=scale,
        )

    def trace(self, rewards: Array, values: Array, last_value: float) -> Array:
        """Advantages [T] of one rollout from rewards and state values [T] of its sampled tokens."""
        advantages = np.zeros(len(rewards))
        running, next_value = 0.0, last_value
        for t in reversed(range(len(rewards))):
            delta = rewards[t] + self.gamma * next_value - values[t]
            running = delta + self.gamma * self.lam * running
            advantages[t], next_value = running, values[t]
        return advantages


def _scattered(flat: Array, masks: Sequence[Mask]) -> PerToken:
    """Values of the sampled tokens of one rollout, laid over its samples [L]; 0 elsewhere."""
    parts, start = [], 0
    for mask in masks:
        part = np.zeros(len(mask), np.float32)
        count = int(mask.sum())
        part[mask] = flat[start : start + count]
        parts.append(part)
        start += count
    return PerToken(tuple(parts))


def _whitened_tokens(advantages: Sequence[Array], eps: float) -> Sequence[Array]:
    """Mean 0 and standard deviation 1 over the sampled tokens of the batch, those of advantage 0 included."""
    tokens = np.concatenate(advantages) if advantages else np.zeros(0)
    if len(tokens) < 2 or tokens.std() < MIN_STD:
        return advantages
    return [(a - tokens.mean()) / (tokens.std() + eps) for a in advantages]


def _centred(rewards: Array) -> Array:
    return rewards - rewards.mean() if len(rewards) > 1 else np.zeros_like(rewards)


def _whitened(groups: Sequence[Array], eps: float) -> list[Array]:
    """Mean 0 and standard deviation 1 over all samples; groups without spread stay exact zeros."""
    everything = np.concatenate(groups) if groups else np.zeros(0)
    std = sample_std(everything)
    if std < MIN_STD:
        return [np.zeros_like(group) for group in groups]
    mean = everything.mean()
    return [(g - mean) / (std + eps) if np.ptp(g) > MIN_STD else np.zeros_like(g) for g in groups]


def _floats(values: Array) -> list[Advantage]:
    return [0.0 if abs(value) < MIN_STD else float(value) for value in values]
