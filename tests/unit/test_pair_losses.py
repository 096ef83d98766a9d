"""Losses of pairs: values and gradients by hand in float64, and through the learner, packed and not."""

import math

import numpy as np
import pytest
import torch
from learner_models import assert_close, draw_ids, gradients, make_learner, make_sample, tiny_gpt2

from strop.algorithms.pair_loss import BradleyTerry, Dpo
from strop.core.batch import Batch, Pair
from strop.core.protocols import LossInputs


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def inputs(logprobs, mask, ref=None, values=None):
    rest = dict.fromkeys(("entropy", "sampled_logprobs", "old_logprobs", "old_values", "returns"))
    return LossInputs(
        logprobs=logprobs,
        mask=torch.tensor(mask),
        advantages=torch.zeros(len(mask)),
        ref_logprobs=ref,
        values=values,
        **rest,
    )


CHOSEN = ([0.0, -0.5, -1.0, -2.0], [0.0, -0.7, -1.5, -1.8], [False, False, True, True])
REJECTED = ([0.0, -0.5, -3.0], [0.0, -0.7, -2.5], [False, False, True])


def dpo(loss):
    """The loss, its measurements, and its gradient by the logprobs of both answers."""
    chosen, rejected = tensor(CHOSEN[0]).requires_grad_(), tensor(REJECTED[0]).requires_grad_()
    value, measured = loss(
        inputs(chosen, CHOSEN[2], tensor(CHOSEN[1])), inputs(rejected, REJECTED[2], tensor(REJECTED[1])), 0.0
    )
    value.backward()
    return (
        value.item(),
        {k: float(v.detach()) for k, v in measured.items()},
        chosen.grad.tolist(),
        rejected.grad.tolist(),
    )


def test_dpo_by_hand():
    z = 0.2 * ((0.5 - 0.2) - (-0.5))  # beta ((log pi - log ref) of the chosen answer, less that of the rejected)
    value, measured, chosen, rejected = dpo(Dpo(beta=0.2))
    assert value == pytest.approx(math.log(1 + math.exp(-z)), abs=1e-12)
    slope = 0.2 * sigmoid(-z)
    assert chosen == pytest.approx([0.0, 0.0, -slope, -slope], abs=1e-12)  # the prompt's logprobs do not count
    assert rejected == pytest.approx([0.0, 0.0, slope], abs=1e-12)
    assert measured == pytest.approx(
        {"accuracy": 1.0, "margin": z, "reward_chosen": 0.06, "reward_rejected": -0.1, "nll_chosen": 1.5}
    )


def test_dpo_with_smoothing_length_normalised_and_with_nll_by_hand():
    z = 0.2 * (0.3 - (-0.5))
    value, _, chosen, rejected = dpo(Dpo(beta=0.2, label_smoothing=0.1))
    assert value == pytest.approx(-0.9 * math.log(sigmoid(z)) - 0.1 * math.log(sigmoid(-z)), abs=1e-12)
    slope = 0.2 * (0.9 * sigmoid(-z) - 0.1 * sigmoid(z))
    assert chosen[2:] == pytest.approx([-slope] * 2, abs=1e-12) and rejected[2] == pytest.approx(slope, abs=1e-12)

    z = 2.0 * (0.3 / 2 - (-0.5))  # the mean over two tokens against one
    value, _, chosen, rejected = dpo(Dpo(beta=2.0, length_normalised=True))
    assert value == pytest.approx(-math.log(sigmoid(z)), abs=1e-12)
    assert chosen[2:] == pytest.approx([-2.0 * sigmoid(-z) / 2] * 2, abs=1e-12)
    assert rejected[2] == pytest.approx(2.0 * sigmoid(-z), abs=1e-12)

    plain = dpo(Dpo(beta=0.2))
    value, _, chosen, rejected = dpo(Dpo(beta=0.2, nll_coef=0.5))
    assert value == pytest.approx(plain[0] + 0.5 * 1.5, abs=1e-12)
    assert chosen[2:] == pytest.approx([plain[2][2] - 0.25] * 2, abs=1e-12) and rejected == plain[3]


@pytest.mark.parametrize("centre", [0.0, 0.01])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_bradley_terry_by_hand(centre, margin):
    scores = [tensor([9.0, 1.5]).requires_grad_(), tensor([7.0, 7.0, 0.25]).requires_grad_()]
    chosen, rejected = (inputs(torch.zeros(len(s)), [False] * len(s), values=s) for s in scores)
    value, measured = BradleyTerry(centre_coef=centre)(chosen, rejected, margin)
    value.backward()
    assert value.item() == pytest.approx(math.log(1 + math.exp(-(1.25 - margin))) + centre * 1.75**2, abs=1e-12)
    slope = sigmoid(-(1.25 - margin))
    assert scores[0].grad.tolist() == pytest.approx([0.0, -slope + 2 * centre * 1.75], abs=1e-12)
    assert scores[1].grad.tolist() == pytest.approx([0.0, 0.0, slope + 2 * centre * 1.75], abs=1e-12)
    measured = {name: value.detach() for name, value in measured.items()}
    assert float(measured["margin"]) == 1.25 and float(measured["accuracy"]) == 1.0


def test_equal_scores_are_half_right():
    same = inputs(torch.zeros(2), [False] * 2, values=tensor([0.0, 1.0]))
    assert float(BradleyTerry()(same, same, 0.0)[1]["accuracy"]) == 0.5


def test_losses_of_pairs_say_what_they_lack():
    empty = inputs(torch.zeros(2), [False, True])
    with pytest.raises(ValueError, match="ref_logprobs"):
        Dpo()(empty, empty, 0.0)
    with pytest.raises(ValueError, match="reward head"):
        BradleyTerry()(empty, empty, 0.0)


def pairs(seed=0, count=3):
    """Pairs that share their prompt; the middle one's answers are one a prefix of the other."""
    draw = np.random.default_rng(seed)
    samples = []
    for ticket in range(count):
        prompt = draw_ids(draw, 5 + ticket)
        longer, shorter = draw_ids(draw, 6), draw_ids(draw, 2 + ticket)
        answers = (longer, longer[:3]) if ticket == 1 else (longer, shorter)
        for index, answer in enumerate(answers):
            mask = [0] * len(prompt) + [1] * len(answer)
            samples.append(make_sample(prompt + answer, mask, ticket=ticket, index=index))
    return samples


def pair_batch(samples, ref_logprobs=None):
    count = len(samples) // 2
    return Batch(
        samples=tuple(samples),
        advantages=tuple(np.zeros(len(s)) for s in samples),
        weights=tuple(np.zeros(len(s)) for s in samples),
        ref_logprobs=ref_logprobs,
        pairs=tuple(Pair(chosen=2 * n, rejected=2 * n + 1, weight=1 / count, margin=0.1 * n) for n in range(count)),
    )


def reward_learner(**config):
    learner = make_learner(BradleyTerry(), model=tiny_gpt2(), needs=("score",), **config)
    with torch.no_grad():
        learner.policy.value_head.weight.copy_(torch.linspace(-0.1, 0.1, 32))
    return learner


def dense_score(learner, sample):
    ids = torch.from_numpy(sample.token_ids.astype(np.int64))[None]
    hidden = learner.policy.plain.transformer(ids).last_hidden_state[0, -1]
    return hidden @ learner.policy.value_head.weight[0]


@pytest.mark.parametrize("packing", ["trie", "separate"])
@pytest.mark.parametrize("budget", [4096, 24, 1])  # all pairs at once, one or two, and less than one
async def test_a_reward_model_learns_what_separate_forwards_say(packing, budget):
    samples = pairs()
    learner = reward_learner(packing=packing, micro_batch_tokens=budget)
    dense = reward_learner(packing="separate")
    loss = torch.zeros((), dtype=torch.float64)
    for n in range(3):
        gap = dense_score(dense, samples[2 * n]) - dense_score(dense, samples[2 * n + 1]) - 0.1 * n
        loss = loss - torch.nn.functional.logsigmoid(gap) / 3
    loss.backward()
    update = await learner.update(pair_batch(samples))
    assert update.metrics["loss"] == pytest.approx(loss.item(), rel=1e-6)
    norm = torch.sqrt(sum(g.square().sum() for g in gradients(dense).values()))
    scale = min(1.0, 1.0 / float(norm))  # the learner's were clipped to norm 1
    assert_close(gradients(learner), {n: g * scale for n, g in gradients(dense).items()}, 1e-5)


@pytest.mark.parametrize("packing", ["trie", "separate"])
async def test_scores_are_read_at_the_last_token_whatever_the_padding(packing):
    samples = pairs()
    learner, dense = reward_learner(packing=packing), reward_learner(packing="separate")
    outputs = (await learner.forward(samples, ("score",)))["score"]
    for output, sample in zip(outputs, samples, strict=True):
        assert output.values[-1] == pytest.approx(dense_score(dense, sample).item(), abs=1e-5)
        assert not output.values[:-1].any() and len(output.values) == len(sample)


@pytest.mark.parametrize("packing", ["trie", "separate"])
@pytest.mark.parametrize("budget", [4096, 24, 1])
async def test_dpo_through_the_learner_is_dpo_of_separate_forwards(packing, budget):
    samples = pairs()
    reference = await make_learner(Dpo(), model=tiny_gpt2()).forward(samples, ("old",))
    moved = [o.logprobs - 0.05 * np.arange(len(o.logprobs), dtype=np.float32) for o in reference["old"]]
    found = []
    for settings in ({"packing": packing, "micro_batch_tokens": budget}, {"packing": "separate"}):
        learner = make_learner(Dpo(beta=0.5, nll_coef=0.1), model=tiny_gpt2(), **settings)
        update = await learner.update(pair_batch(samples, tuple(moved)))
        found.append((update.metrics, gradients(learner)))
    (ours, our_gradients), (theirs, their_gradients) = found
    for name in ("loss", "margin", "accuracy", "nll_chosen", "reward_chosen", "reward_rejected", "num_tokens"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-5, abs=1e-7), name
    assert_close(our_gradients, their_gradients, 1e-5)
    gains = [
        float((o.logprobs - m)[s.loss_mask].sum()) for o, m, s in zip(reference["old"], moved, samples, strict=True)
    ]
    gaps = [0.5 * (gains[2 * n] - gains[2 * n + 1]) for n in range(3)]
    assert ours["margin"] == pytest.approx(np.mean(gaps), rel=1e-4)
    nll = np.mean([-o.logprobs[s.loss_mask].mean() for o, s in list(zip(reference["old"], samples, strict=True))[::2]])
    hand = np.mean([math.log(1 + math.exp(-(gap - 0.1 * n))) for n, gap in enumerate(gaps)]) + 0.1 * nll
    assert ours["loss"] == pytest.approx(hand, rel=1e-4)


async def test_a_pair_shares_its_prompt_in_the_trie():
    samples = pairs()
    packed = await reward_learner(packing="trie").update(pair_batch(samples))
    apart = await reward_learner(packing="separate").update(pair_batch(samples))
    shared = sum(5 + ticket for ticket in range(3)) + 3  # prompts, and the answer that is a prefix of the other
    assert apart.metrics["unique_tokens"] - packed.metrics["unique_tokens"] == shared


def test_a_pair_of_two_tickets_is_refused():
    samples = pairs()
    with pytest.raises(ValueError, match="share a ticket"):
        Batch(
            samples=tuple(samples),
            advantages=tuple(np.zeros(len(s)) for s in samples),
            weights=tuple(np.zeros(len(s)) for s in samples),
            pairs=(Pair(chosen=0, rejected=2, weight=1.0),),
        )
