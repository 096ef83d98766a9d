from dataclasses import replace

import numpy as np
import pytest
from making import group

from strop.algorithms.advantage import Grpo
from strop.algorithms.keep import KeepAll
from strop.algorithms.loss import PpoClip
from strop.core.batch import (
    aggregation_weights,
    make_batch,
    rollout_advantages,
    samples_of,
    split_rollout,
    without_truncated,
)
from strop.core.protocols import Algorithm, Credit, PerTurn
from strop.core.types import TokenOutputs

ALGORITHM = Algorithm(name="test", advantage=Grpo(scaling="none"), loss=PpoClip(), keep=KeepAll(), max_tokens=8)
HOT = {"d": 1.0, "e": 1.0}


def two_lengths():
    short, long = group([1.0], lengths=(2,)), group([0.0], lengths=(4,), ticket=1)
    return [short, long]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("token_mean", 1.6667), ("seq_mean_token_sum", 5.0), ("seq_mean_token_mean", 1.5), ("constant", 0.625)],
)
def test_every_aggregation_has_its_magnitude(aggregation, expected):
    samples = samples_of(two_lengths(), HOT)
    weights = aggregation_weights(samples, replace(ALGORITHM, aggregation=aggregation))
    assert 1.0 * weights[0].sum() + 2.0 * weights[1].sum() == pytest.approx(expected, abs=1e-4)


def test_domains_share_the_loss_by_rollouts_not_by_tokens():
    groups = [group([1, 0], lengths=(2,), domain="d"), group([1, 0], lengths=(200,), domain="e", ticket=1)]
    samples = samples_of(groups, HOT)
    weights = aggregation_weights(samples, replace(ALGORITHM, domain_normaliser=True))
    shares = {name: sum(w.sum() for w, s in zip(weights, samples, strict=True) if s.domain == name) for name in "de"}
    assert shares == pytest.approx({"d": 0.5, "e": 0.5})


def test_the_weight_of_a_token_does_not_depend_on_the_length_of_its_answer():
    weights = aggregation_weights(samples_of(two_lengths(), HOT), ALGORITHM)
    assert weights[0].max() == weights[1].max()


def test_truncated_rollouts_leave_every_denominator():
    kept = group([1.0], lengths=(3,))
    cut = group([1.0], lengths=(5,), status="truncated", ticket=1)
    samples = samples_of(without_truncated([kept, cut]), HOT)
    assert sum(w.sum() for w in aggregation_weights(samples, ALGORITHM)) == pytest.approx(1.0)
    assert samples_of(without_truncated([cut]), HOT) == ()
    batch, _ = make_batch(without_truncated([cut]), (), {}, ALGORITHM, {})
    assert batch.samples == ()


def test_turns_join_while_they_continue_and_split_where_they_do_not():
    joined = group([1.0], lengths=(2, 3), given=(4, 2)).rollouts[0]
    (sample,) = split_rollout(joined, 0, "d")
    assert sample.loss_mask.tolist() == [False] * 4 + [True] * 2 + [False] * 2 + [True] * 3
    assert (sample.versions[~sample.loss_mask] == -1).all()
    apart = group([1.0], lengths=(2, 3), given=(4, 9), continues=False).rollouts[0]
    assert [len(s) for s in split_rollout(apart, 0, "d")] == [6, 12]


def test_a_split_rollout_counts_once_in_sequence_means():
    groups = [group([1.0], lengths=(2, 2), given=(3, 3), continues=False), group([0.0], lengths=(4,), ticket=1)]
    weights = aggregation_weights(samples_of(groups, HOT), replace(ALGORITHM, aggregation="seq_mean_token_mean"))
    assert [w.sum() for w in weights] == pytest.approx([0.25, 0.25, 0.5])


def test_failed_rollouts_have_no_row():
    samples = samples_of([group([1, None, 0])], HOT)
    assert [s.index for s in samples] == [0, 2]


def test_advantages_stay_with_their_rollout():
    groups = [group([0.0, 1.0, 2.0, 3.0])]
    samples = samples_of(groups, HOT)
    batch, _ = make_batch(groups, samples, {}, ALGORITHM, {})
    found = {s.index: a[s.loss_mask].tolist() for s, a in zip(batch.samples, batch.advantages, strict=True)}
    assert found == {0: [-1.5] * 2, 1: [-0.5] * 2, 2: [0.5] * 2, 3: [1.5] * 2}
    assert all((a[~s.loss_mask] == 0).all() for s, a in zip(batch.samples, batch.advantages, strict=True))


def test_an_advantage_of_each_turn_reaches_its_tokens():
    groups = [group([1.0], lengths=(2, 3), given=(4, 2))]
    algorithm = replace(
        ALGORITHM, advantage=lambda g, o, s: Credit(advantages=[[PerTurn(np.array([1.0, 2.0]))]], scale=s)
    )
    samples = samples_of(groups, HOT)
    batch, _ = make_batch(groups, samples, {}, algorithm, {})
    assert batch.advantages[0][samples[0].loss_mask].tolist() == [1, 1, 2, 2, 2]


def test_samples_out_of_the_geometric_bound_keep_their_place_in_the_denominator():
    groups = [group([1, 0], lengths=(100,))]
    samples = samples_of(groups, HOT)
    drift = np.where(samples[0].loss_mask, samples[0].sampled_logprobs + 0.5, 0)
    outputs = {"old": [TokenOutputs(logprobs=drift), TokenOutputs(logprobs=samples[1].sampled_logprobs)]}
    algorithm = replace(ALGORITHM, geometric_mask=True, needs=("old",))
    batch, _ = make_batch(groups, samples, outputs, algorithm, {})
    assert batch.metrics["masked_share"] == 0.5
    assert [w.sum() for w in batch.weights] == pytest.approx([0.0, 0.5])


def test_what_the_environment_says_changes_no_weight():
    plain, _ = make_batch(g := [group([1, 0], given=(3,))], samples_of(g, HOT), {}, ALGORITHM, {})
    longer, _ = make_batch(g := [group([1, 0], given=(9,))], samples_of(g, HOT), {}, ALGORITHM, {})
    assert [w[w > 0].tolist() for w in plain.weights] == [w[w > 0].tolist() for w in longer.weights]


def test_gradient_shares_and_advantages_of_rollouts_by_hand():
    """Domain d: two answers of 4 tokens with advantages 1/2 and -1/2; e: two of 8 tokens and twice that. Token mean."""
    groups = [group([1, 0], lengths=(2, 2), domain="d"), group([2, 0], lengths=(4, 4), domain="e", ticket=1)]
    batch, _ = make_batch(groups, samples_of(groups, HOT), {}, ALGORITHM, {})
    assert rollout_advantages(batch) == pytest.approx({(0, 0): 0.5, (0, 1): -0.5, (1, 0): 1.0, (1, 1): -1.0})
    assert batch.metrics["domain/d/gradient_share"] == pytest.approx(4 / (4 + 16))
    assert batch.metrics["domain/e/gradient_share"] == pytest.approx(16 / (4 + 16))


def test_without_any_advantage_there_is_no_gradient_share():
    groups = [group([1, 1], lengths=(2, 2))]
    batch, _ = make_batch(groups, samples_of(groups, HOT), {}, ALGORITHM, {})
    assert not [name for name in batch.metrics if "gradient_share" in name]
