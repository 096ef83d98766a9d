"""Pairs as tokens, the order they are taken in, and the report on held-out pairs with its baselines."""

from collections import Counter

import numpy as np
import pytest
from conftest import make_tokenizer
from rich.console import Console

from strop.core.errors import DataError
from strop.core.pairs import Answer, PreferencePair
from strop.core.seeds import shuffled_places
from strop.core.types import Message, TrainingSample
from strop.engines.renderer import ChatRenderer
from strop.evaluation.pairs import PairReport, PairResult, Seen, baseline_margins, pair_table
from strop.preference import pair_batches, render_pairs


def renderer():
    tokenizer = make_tokenizer()
    return ChatRenderer(tokenizer, frozenset({tokenizer.eos_token_id}))


def said(*texts):
    """A conversation that begins with the user."""
    return tuple(Message(role="user" if n % 2 == 0 else "assistant", content=text) for n, text in enumerate(texts))


def pair(prompt=("ask",), chosen=("yes",), rejected=("no",), margin=0.0):
    history = said(*prompt)
    answers = [said(*prompt, *answer)[len(prompt) :] for answer in (chosen, rejected)]
    return PreferencePair(
        id=f"pair-{len(prompt):016x}",
        prompt=history,
        chosen=Answer(messages=answers[0]),
        rejected=Answer(messages=answers[1]),
        margin=margin,
    )


def masked(sample):
    """The text that is learned from, turn by turn."""
    tokenizer = make_tokenizer()
    edges = np.flatnonzero(np.diff(sample.loss_mask.astype(int), prepend=0, append=0))
    return [tokenizer.decode(sample.token_ids[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def test_only_the_answer_is_learned_from_and_its_end_token_is_last():
    (plain, late, two_turns) = render_pairs(
        [
            pair(),
            pair(("a", "earlier", "b"), ("later",), ("other",)),
            pair(("a",), ("first", "go on", "second"), ("short",)),
        ],
        renderer(),
        512,
        "here",
    )
    assert masked(plain.chosen) == ["yes<|im_end|>"] and masked(plain.rejected) == ["no<|im_end|>"]
    assert masked(late.chosen) == ["later<|im_end|>"] and masked(late.rejected) == ["other<|im_end|>"]
    assert masked(two_turns.chosen) == ["first<|im_end|>", "second<|im_end|>"]
    for rendered in (plain, late, two_turns):
        assert rendered.chosen.token_ids[-1] == make_tokenizer().eos_token_id
        assert all(seen.finished for seen in rendered.seen)
    assert [seen.num_tokens for seen in plain.seen] == [4, 3]


def test_a_pair_that_does_not_fit_is_named():
    with pytest.raises(DataError, match=r"here, pair 2: has \d+ tokens and the context 60: shorten it"):
        render_pairs([pair(), pair(chosen=("long " * 20,))], renderer(), 60, "here")


def sampled(text, ids, *later):
    """An answer as a run recorded it: `ids` after a prompt of two, then what came later."""
    ids = [1, 2, *ids, *(token for turn in later for token in (3, *turn))]
    mask = [False, False] + [True] * (len(ids) - 2)
    for turn in later:
        mask[len(ids) - len(turn) - 1] = False
    sample = TrainingSample(token_ids=ids, loss_mask=mask, versions=[-1] * len(ids))
    return Answer(messages=(Message(role="assistant", content=text),), sample=sample)


def test_rollouts_of_another_tokenizer_are_refused():
    def ids(text):
        return make_tokenizer()(text)["input_ids"]

    def of(*answers):
        return PreferencePair(id="rollouts-00", prompt=said("q"), chosen=answers[0], rejected=answers[1])

    good = sampled(" yes", ids(" yes<|im_end|>"))
    render_pairs([of(good, sampled("", ids("<|im_end|>")))], renderer(), 512, "here")
    render_pairs([of(sampled("a\n\nuser: b\n\nc", ids("a"), ids("c")), sampled("", []))], renderer(), 512, "here")
    render_pairs([of(sampled("x", ids("<tool_call>{}</tool_call>x")), sampled("", []))], renderer(), 512, "here")
    for other in ([5, 6, 7], [10**6, 10**6]):
        with pytest.raises(DataError, match="here: its rollouts were sampled with another tokenizer"):
            render_pairs([of(sampled("words", other), sampled("more", other[:1]))], renderer(), 512, "here")


def test_batches_take_every_pair_once_an_epoch_with_its_margin_and_reference():
    pairs = render_pairs([pair(chosen=("y" * (n + 1),), margin=n / 10) for n in range(7)], renderer(), 512, "here")
    reference = {n: (np.full(len(p.chosen), n), np.full(len(p.rejected), -n)) for n, p in enumerate(pairs)}
    batch_at = pair_batches(pairs, batch_size=3, seed=1, kind="preference", reference=reference)
    counts = Counter()
    for step in range(1, 8):  # three epochs
        batch = batch_at(step)
        for place in batch.pairs:
            number = round(place.margin * 10)
            counts[number] += 1
            assert len(batch.samples[place.chosen]) == len(pairs[number].chosen) and place.weight == 1 / 3
            assert set(batch.ref_logprobs[place.chosen]) == {number}
            assert set(batch.ref_logprobs[place.rejected]) == {-number}
            assert batch.samples[place.chosen].ticket == batch.samples[place.rejected].ticket
        assert len({sample.ticket for sample in batch.samples}) == 3
    assert counts == dict.fromkeys(range(7), 3)
    assert [p.margin for p in batch_at(2).pairs] == [p.margin for p in batch_at(2).pairs]


def test_epochs_are_shuffles_that_depend_on_the_path_alone():
    places = shuffled_places(5, 0, 15, 3, "x")
    assert [sorted(places[n : n + 5]) for n in (0, 5, 10)] == [list(range(5))] * 3
    assert places[:5] != places[5:10] and places[7:9] == shuffled_places(5, 7, 2, 3, "x")
    assert shuffled_places(5, 0, 15, 4, "x") != places != shuffled_places(5, 0, 15, 3, "y")


def seen(tokens=10, text="plain", finished=True):
    return Seen(text=text, num_tokens=tokens, finished=finished)


def right(margins):
    return float(np.mean(np.sign(margins)) + 1) / 2


def test_baselines_see_what_is_theirs_and_nothing_else():
    longer = [(seen(10 + n), seen(9)) for n in range(20)]
    shorter = [(b, a) for a, b in longer]
    fenced = [(seen(text="x\n```\ny\n```"), seen(text="x y"))] * 20
    equal = [(seen(), seen())] * 20
    cut = [(seen(), seen(finished=False))] * 20
    for train, by_length, by_format in (
        (longer, 1.0, 0.5),
        (shorter, 1.0, 0.5),  # the direction is learned
        (fenced, 0.5, 1.0),
        (cut, 0.5, 1.0),
        (equal, 0.5, 0.5),  # ties are half right
    ):
        found = baseline_margins(train, train)
        assert [right(found["length_only"]), right(found["format_only"])] == [by_length, by_format]
    found = baseline_margins(longer, shorter)
    assert right(found["length_only"]) == 0.0


def result(prompt, margin, length=0.0, form=0.0):
    return PairResult(prompt=prompt, margin=margin, length_only=length, format_only=form)


def test_accuracy_and_lead_by_hand():
    results = [result("a", 1.0, 1.0), result("a", -1.0, 1.0), result("b", 0.5), result("c", 0.0, -2.0)]
    report = PairReport(model="m", results=tuple(results))
    assert report.accuracy().value == pytest.approx((0.5 + 1.0 + 0.5) / 3)  # prompts weigh the same; a tie is half
    assert report.accuracy("length_only").value == pytest.approx((1.0 + 0.5 + 0.0) / 3)
    assert report.lead("length_only").value == pytest.approx((-0.5 + 0.5 + 0.5) / 3)
    assert report.lead("format_only").value == pytest.approx((0.0 + 0.5 + 0.0) / 3)
    assert report.mean_margin() == pytest.approx(0.125)
    assert PairReport.from_json(report.to_json()) == report
    many = PairReport(model="m", results=tuple(result(str(n), 1.0 if n % 10 else -1.0) for n in range(200)))
    lead = many.lead("length_only")
    assert lead.value == pytest.approx(0.4) and 0.3 < lead.low < lead.value < lead.high < 0.5


def test_the_table_shows_baselines_and_the_lead_over_the_better_one():
    report = PairReport(model="rm", results=tuple(result(str(n), 1.0, float(n % 4 - 1)) for n in range(40)))
    console = Console(width=160)
    with console.capture() as captured:
        console.print(pair_table([report]))
    line = next(line for line in captured.get().splitlines() if line.strip().startswith("rm"))
    assert "40" in line and "100.0 [" in line and "62.5 [" in line and "50.0 [" in line and "+37.5 [" in line
