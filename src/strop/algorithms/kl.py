"""The KL penalty as part of the reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strop.core.batch import split_rollout
from strop.core.protocols import AdvantageFn, Credit, ScaleState
from strop.core.types import Reward, Rollout, RolloutGroup, Score, TokenOutputs, TrainingSample

MAX_LOG_RATIO = 20.0
NAME = "reference_kl"


@dataclass(frozen=True)
class KlInReward:
    """`inner` on r - coef * sum_t k1_t, before any baseline, with k1 = log pi_old - log ref (Schulman 2020).

    On policy its gradient is that of k2 in the loss (2510.01555). pi_old is the learner's (`old`) where it was computed
    and the sampler otherwise. The penalty enters as one more score, so GDPO normalises it like the others; with GAE it
    falls on the last token, which with gamma = 1 gives every token its own KL to come up to a baseline.
    """

    inner: AdvantageFn
    coef: float

    def __call__(
        self, groups: Sequence[RolloutGroup], outputs: Mapping[str, Sequence[TokenOutputs]], scale: ScaleState
    ) -> Credit:
        if "reference" not in outputs:
            raise ValueError("a KL penalty in the reward needs `reference` in the algorithm's needs")
        old = iter(outputs["old"]) if "old" in outputs else None
        reference = iter(outputs["reference"])
        penalised = [
            replace(
                group,
                rollouts=tuple(
                    self._with_penalty(r, sum(_k1(s, old, reference) for s in _samples(r, group)))
                    for r in group.trainable
                ),
            )
            for group in groups
        ]
        return self.inner(penalised, outputs, scale)

    def _with_penalty(self, rollout: Rollout, kl: float) -> Rollout:
        if rollout.reward is None:
            return rollout
        reward = Reward(
            scores={**rollout.reward.scores, NAME: Score(value=-kl)},
            weights={**rollout.reward.weights, NAME: self.coef},
        )
        return replace(rollout, reward=reward)


def _samples(rollout: Rollout, group: RolloutGroup) -> tuple[TrainingSample, ...]:
    return split_rollout(rollout, group.ticket, group.task.domain)


def _k1(sample: TrainingSample, old: Iterator[TokenOutputs] | None, reference: Iterator[TokenOutputs]) -> float:
    """Sum of log pi_old - log ref over the sampled tokens of one sample."""
    own = sample.sampled_logprobs if old is None else next(old).logprobs
    if own is None:
        raise ValueError("a KL penalty in the reward needs sampled_logprobs or `old`, and the batch has neither")
    gap = np.clip(own - next(reference).logprobs, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return float(gap[sample.loss_mask].sum(dtype=np.float64))
