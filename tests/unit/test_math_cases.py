"""Pairs of a gold and a whole answer, by kind, with the right value."""

import asyncio
import json
from pathlib import Path

import pytest

from strop.cli import main
from strop.rewards.math import MathReward
from strop.scoring.math_workers import open_math_workers
from strop.scoring.workers import Canary, WorkerPool

FILE = Path(__file__).parents[1] / "cases" / "math.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text().splitlines()]
KINDS = sorted({row["kind"] for row in ROWS})

# texts that a policy may write and that must end soon: the answer, and what it is worth for the gold 31
BOX = "\\boxed{%s}"
LONG = {
    "words before the box": ("and so on " * 20_000 + BOX % 31, True),
    "numbers before": ("1 " * 100_000 + BOX % 31, True),
    "dollar signs": ("$" * 50_000 + BOX % 31, True),
    "brackets before": ("(" * 100_000 + BOX % 31, True),
    "blanks after": ("31" + " " * 200_000, True),
    "lines before": ("\n" * 200_000 + "31", True),
    "one long word": ("a" * 200_000 + " 31", True),
    "answers withdrawn": ("answer is 30 " * 10_000 + "\nthe answer is 31", True),
    "marks": ("*_" * 50_000 + "Answer: 31", True),
    "open text groups": ("\\text{" * 20_000 + BOX % 31, True),
    "no answer": ("The answer is " * 20_000, False),
    "thinking never closed": ("<think>" * 20_000 + "31", False),
    "signs": ("-+" * 100_000 + "32", False),
    "thousands": ("1,000," * 30_000 + "31", False),
    "signs in a box": (BOX % ("-" * 3000 + "31"), True),
    "roots": (BOX % ("\\sqrt{" * 800 + "31" + "}" * 800), False),
    "fractions": (BOX % ("\\frac{1}{" * 900 + "31" + "}" * 900), False),
    "bars": (BOX % ("|" * 2000 + "31"), False),
    "brackets never closed": (BOX % ("(" * 4000), False),
    "brackets around": (BOX % ("(" * 1500 + "31" + ")" * 1500), True),
    "powers": (BOX % ("x^" * 3000 + "2"), False),
    "sums": (BOX % ("1+" * 10_000 + "1"), False),
    "factorials": (BOX % ("5" + "!" * 3000), False),
    "lists": (BOX % ",".join("1" * 3000), False),
    "functions": (BOX % ("\\ln" * 3000 + " 2"), False),
    "nines": (BOX % ("0." + "9" * 20_000), False),
    "ones": (BOX % ("1" * 29_000), False),
    "divisions": (BOX % ("1" + "/1" * 5000 + "/2"), False),
    "matrices": (BOX % ("\\begin{pmatrix}" * 1000 + "1" + "\\end{pmatrix}" * 1000), False),
    "boxes": ("\\boxed{" * 2000 + "31" + "}" * 2000, True),
}


@pytest.fixture(scope="module")
def reward():
    pool = open_math_workers(workers=1, deadline_s=4.0)
    yield MathReward(math_workers=pool.call)
    pool.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_every_case_of_a_kind_is_right(kind, reward):
    rows = [row for row in ROWS if row["kind"] == kind]
    wrong = []
    for row in rows:
        score = await reward.score(row["prediction"], [row["gold"]])
        assert score.outcome in ("scored", "timeout")
        if row["scored"] and score.value != float(row["equivalent"]):
            wrong.append(f"{row['id']}: {row['gold']!r} and {row['prediction'][-80:]!r} are {row['equivalent']}")
    assert not wrong


async def test_a_pair_that_never_ends_is_stopped_at_its_deadline():
    pool = open_math_workers(workers=1, deadline_s=0.3)
    score = await MathReward(math_workers=pool.call).score(r"\boxed{\int_0^{10^{100}} e^{x^x} dx}", ["1"])
    pool.close()
    assert (score.value, score.outcome) == (0.0, "timeout")


def test_long_and_twisted_texts_end():
    """In a worker, which is killed where the text never ends; exact arithmetic alone decides them."""
    pool = WorkerPool(
        target="strop.rewards.math.decide:judge", canary=Canary(("1", "1"), True), workers=1, deadline_s=60.0
    )

    async def judged():
        return {name: await pool.call("31", text) for name, (text, _) in LONG.items()}

    found = asyncio.run(judged())
    pool.close()
    wrong = [name for name, (_, right) in LONG.items() if (found[name].outcome, found[name].value) != ("scored", right)]
    assert not wrong


def test_the_command_line_answers_in_the_order_of_the_file(tmp_path, capsys):
    rows = [row for row in ROWS if row["kind"] in ("fraction", "trig", "empty")]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit) as ended:
        main(["verify", "math", str(file), "--json"])
    assert not ended.value.code
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["equivalent"]) for row in said] == [(row["id"], row["equivalent"]) for row in rows]
    assert all(row["outcome"] == "scored" and row["seconds"] >= 0 for row in said)


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "line 2: is no JSON"), ('{"gold": 5, "prediction": "5"}', "line 2: must be an object"), ("[]", "line 2")],
)
def test_a_line_that_is_no_row_is_named(line, said, tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"gold": "5", "prediction": "5"}\n' + line + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["verify", "math", str(file)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
