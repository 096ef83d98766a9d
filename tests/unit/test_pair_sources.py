"""Where preference pairs come from: files in every form, rollouts of a run, and what is wrong with them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import completion

from strop.config.component import Component
from strop.config.resolve import PAIRS, make
from strop.core.errors import ConfigError, DataError
from strop.core.pairs import form_of
from strop.core.types import Message, Reward, Rollout, RolloutGroup, Score, Task, Turn
from strop.storage.records import write_rollouts
from strop.tasks.graded_rollouts import graded_rollouts
from strop.tasks.pairs import pair_of, pairs


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


FORMS = [
    {"prompt": "q", "chosen": "good", "rejected": "bad"},
    {"question": [user("q")], "chosen": [assistant("good")], "rejected": [assistant("bad")]},
    {"prompt": "q", "chosen": [user("q"), assistant("good")], "rejected": [user("q"), assistant("bad")]},
    {"chosen": [user("q"), assistant("good")], "rejected": [user("q"), assistant("bad")]},
    {"prompt": "q", "chosen": "good", "rejected": [assistant("bad")], "margin": None},
]


@pytest.mark.parametrize("row", FORMS)
def test_every_form_of_a_row_is_the_same_pair(row):
    pair = pair_of(row, where="here")
    assert pair.prompt == (Message(role="user", content="q"),)
    assert (pair.chosen.text, pair.rejected.text, pair.margin) == ("good", "bad", 0.0)
    assert pair.id == pair_of(FORMS[0], where="here").id


def test_conversations_that_part_late_keep_the_whole_history_as_prompt():
    history = [user("a"), assistant("b"), user("c")]
    row = {"chosen": [*history, assistant("good")], "rejected": [*history, assistant("bad")], "margin": 2}
    pair = pair_of(row, where="here")
    assert [m.content for m in pair.prompt] == ["a", "b", "c"] and pair.margin == 2.0
    same_start = [user("a"), assistant("b")]
    row = {"chosen": same_start, "rejected": [*same_start, user("more"), assistant("bad")]}
    pair = pair_of(row, where="here")  # one answer is where the other goes on
    assert [len(p) for p in (pair.prompt, pair.chosen.messages, pair.rejected.messages)] == [1, 1, 3]


def test_columns_of_other_names():
    row = {"ask": "q", "win": "good", "lose": "bad"}
    assert pair_of(row, where="x", prompt="ask", chosen="win", rejected="lose").chosen.text == "good"


GOOD = {"prompt": "q", "chosen": "good", "rejected": "bad"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "q", "chosen": "good"}, r"no column 'rejected'; there are prompt, chosen"),
        ({**GOOD, "rejected": None}, r"no column 'rejected'"),
        ({"chosen": "good", "rejected": "bad"}, r"chosen is text, so a prompt is needed too: one of prompt"),
        ({**GOOD, "chosen": ""}, r"column chosen: must end with what the assistant says"),
        ({**GOOD, "rejected": "  \n"}, r"column rejected: must end with what the assistant says"),
        ({**GOOD, "chosen": 3}, r"column chosen: must be text or a list of messages"),
        ({**GOOD, "prompt": ""}, r"column prompt: must be text or a list of messages, and not empty"),
        ({**GOOD, "chosen": [user("q")]}, r"column chosen: must end with what the assistant says"),
        ({**GOOD, "chosen": [user("other"), assistant("good")]}, r"column chosen: begins with a message of the user"),
        ({**GOOD, "chosen": [{"role": "robot", "content": "x"}]}, r"role 'robot' must be one of"),
        ({**GOOD, "margin": "large"}, r"column margin: must be a number of at least 0, got 'large'"),
        ({**GOOD, "margin": -1.0}, r"column margin: must be a number of at least 0"),
        ({**GOOD, "margin": float("nan")}, r"column margin"),
        (
            {"chosen": [user("a"), assistant("x")], "rejected": [user("b"), assistant("y")]},
            r"chosen and rejected begin differently; give the prompt they share",
        ),
    ],
)
def test_a_bad_row_is_one_line_that_says_where(tmp_path, row, message):
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r"pairs.jsonl, line 2.*" + message) as caught:
        pairs(str(file))
    assert "\n" not in str(caught.value)


def numbered(count):
    return [{"prompt": f"q{n}", "chosen": f"good {n}", "rejected": f"bad {n}"} for n in range(count)]


def test_jsonl_and_parquet_hold_the_same_pairs_and_splits_share_no_prompt(tmp_path):
    rows = [*numbered(60), *({**row, "chosen": "better"} for row in numbered(60))]
    lines, table = tmp_path / "p.jsonl", tmp_path / "p.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), table)
    for split in ("train", "held_out"):
        found = [[(p.id, p.chosen.text) for p in pairs(str(f), split, held_out_share=0.3)] for f in (lines, table)]
        assert found[0] == found[1] and found[0]
    train, held_out = ({p.id for p in pairs(str(lines), s, held_out_share=0.3)} for s in ("train", "held_out"))
    assert not train & held_out and len(train | held_out) == 60
    assert len(pairs(str(lines), max_pairs=7)) == 7


def test_equal_answers_are_left_out_and_counted(tmp_path, caplog):
    file = tmp_path / "p.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*numbered(20), {**GOOD, "rejected": "good"}]))
    assert sum(len(pairs(str(file), split)) for split in ("train", "held_out")) == 20
    assert "1 of 21 rows are left out: chosen and rejected are equal" in caplog.text


def test_a_file_that_is_missing_or_empty_is_told(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="holds no row"):
        pairs(str(tmp_path / "empty.jsonl"))
    with pytest.raises(DataError, match="no such file"):
        pairs(str(tmp_path / "none.jsonl"))
    with pytest.raises(ConfigError, match="held_out_share must be between 0 and 1"):
        pairs(str(tmp_path / "empty.jsonl"), held_out_share=0.0)
    with pytest.raises(ConfigError, match=r"unknown parameter 'file'"):
        make(Component(use="pairs", params={"file": "x"}), PAIRS, "stage 's'")
    with pytest.raises(ConfigError, match=r"nothing is called 'pair'; did you mean 'pairs'"):
        make(Component(use="pair"), PAIRS, "stage 's'")


def graded(index, total, ids, text="plain", *, given=(1, 2), reason="stop", status="ok", scores=None):
    turn = Turn(
        input_ids=np.array(given),
        continues=False,
        completion=completion(ids, reason=reason),
        message=Message(role="assistant", content=text),
    )
    values = {"accuracy": total, **(scores or {})}
    named = {n: Score(value=None, outcome="infra") if v is None else Score(value=v) for n, v in values.items()}
    weights = {name: float(name == "accuracy") for name in named}
    reward = Reward(scores=named, weights=weights)
    return Rollout(task_id="t", index=index, turns=(turn,), status=status, reward=reward)


def record(folder, rollouts, *, stage="rl", number=1, step=1, task_id="t", domain="d"):
    task = Task(id=task_id, domain=domain, prompt=(Message(role="user", content="q"),))
    group = RolloutGroup(ticket=step, attempt=0, task=task, rollouts=tuple(rollouts))
    write_rollouts(folder / f"{number}-{stage}" / "rollouts", step, [group], stage=stage)


def found(folder, **params):
    splits = [graded_rollouts(str(folder), split, **params) for split in ("train", "held_out")]
    return {
        (tuple(p.chosen.sample.token_ids.tolist()), tuple(p.rejected.sample.token_ids.tolist()))
        for split in splits
        for p in split
    }


def test_pairs_of_rollouts_keep_the_tokens_that_were_sampled(tmp_path):
    record(tmp_path, [graded(0, 1.0, [5, 6, 7]), graded(1, 0.0, [5, 8, 7]), graded(2, 0.0, [9, 9, 9])])
    assert found(tmp_path) == {((1, 2, 5, 6, 7), (1, 2, 5, 8, 7)), ((1, 2, 5, 6, 7), (1, 2, 9, 9, 9))}
    (pair, *_) = [*graded_rollouts(str(tmp_path)), *graded_rollouts(str(tmp_path), "held_out")]
    assert pair.chosen.sample.loss_mask.tolist() == [False, False, True, True, True]
    assert pair.chosen.text == "plain" and pair.margin == 0.0


@pytest.mark.parametrize(
    ("other", "params"),
    [
        (graded(1, 0.8, [5, 8, 7]), {}),  # less than the margin apart
        (graded(1, 1.0, [5, 8, 7]), {"margin": 1e-9}),  # equal
        (graded(1, None, [5, 8, 7]), {}),  # no reward
        (graded(1, 0.0, [5, 8, 7, 7, 7]), {}),  # another length bucket
        (graded(1, 0.0, [5, 8, 7, 7]), {"length_ratio": 1.0}),
        (graded(1, 0.0, [5, 8, 7], reason="length"), {}),  # cut off
        (graded(1, 0.0, [5, 8, 7], "```python\nx\n```"), {}),  # other marks
        (graded(1, 0.0, [5, 8, 7], "two\nlines"), {}),
        (graded(1, 0.0, [5, 8, 7], given=(1, 3)), {}),  # asked with other tokens
        (graded(1, 0.0, [5, 8, 7], status="agent_error"), {}),
        (graded(1, 0.0, [5, 6, 7]), {}),  # the same answer
    ],
)
def test_rollouts_that_make_no_fair_pair(tmp_path, other, params):
    record(tmp_path, [graded(0, 1.0, [5, 6, 7]), other])
    assert found(tmp_path, **params) == set()
    record(tmp_path, [graded(0, 0.0, [5, 9, 7])], step=2)
    assert len(found(tmp_path, **params)) >= 1  # across tickets of one task too


def test_the_score_form_keeps_answers_apart_and_can_be_let_go(tmp_path):
    record(tmp_path, [graded(n, 1.0 - n, [5, 6, n], scores={"form": float(n)}) for n in range(2)])
    assert not found(tmp_path) and len(found(tmp_path, equal_form=False)) == 1
    assert found(tmp_path, equal_form=False, score="form") == {((1, 2, 5, 6, 1), (1, 2, 5, 6, 0))}
    with pytest.raises(DataError, match=r"have no score 'style'; there are accuracy, form"):
        found(tmp_path, score="style")


def test_stages_domains_and_the_number_of_pairs_can_be_chosen(tmp_path):
    answers = [graded(n, float(n % 2), [5, 6, n]) for n in range(10)]
    record(tmp_path, answers)
    record(tmp_path, answers, stage="later", number=2, task_id="u", domain="e")
    assert len(found(tmp_path, max_per_task=100)) == 25
    for params in ({"stage": "later"}, {"domains": ["e"]}, {"stage": "rl"}):
        count = [len(graded_rollouts(str(tmp_path), s, max_per_task=3, **params)) for s in ("train", "held_out")]
        assert sum(count) == 3
    both = [graded_rollouts(str(tmp_path), s, max_per_task=3) for s in ("train", "held_out")]
    assert sum(map(len, both)) == 6
    with pytest.raises(DataError, match=r"no rollouts of a stage 'first'; there are those of later, rl"):
        graded_rollouts(str(tmp_path), stage="first")
    made = make(Component(use="graded_rollouts"), PAIRS, "stage 's'", split="train", folder=tmp_path)
    assert [p.id for p in made] == [p.id for p in graded_rollouts(str(tmp_path))]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"margin": 0.0}, ConfigError, "margin must be above 0"),
        ({"length_ratio": 0.9}, ConfigError, "length_ratio must be at least 1"),
        ({"held_out_share": 1.0}, ConfigError, "held_out_share"),
        ({"run": "nowhere"}, DataError, "nowhere is no folder"),
        ({"run": ""}, ConfigError, "give `run`"),
        ({}, DataError, "holds no rollouts; give the folder of a run with an rl stage"),
    ],
)
def test_bad_parameters_of_graded_rollouts(tmp_path, params, error, message):
    with pytest.raises(error, match=message):
        graded_rollouts(**{"run": str(tmp_path), **params})


def test_forms_differ_by_marks_alone():
    assert form_of("one line") == form_of("another, longer line of words")
    texts = ["one line", "<think>a</think> b", "x\n```\ny\n```", "\\boxed{3}", "Answer: 3", "- a", "# a", "|a|", "a\nb"]
    assert len({form_of(text) for text in texts}) == len(texts)
