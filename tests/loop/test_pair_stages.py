"""Stages on preference pairs on a tiny real model: they learn a rule, chain, go on after a stop, and say what is wrong."""

import json
import shutil
from random import Random

import pytest
from test_tiny_run import recipe, run

from strop.core.errors import ConfigError, DataError
from strop.evaluation.pairs import PairReport
from strop.storage.records import read_rollouts

LETTERS = "abcdefgh"


def write_pairs(file, count=400, seed=0):
    """Answers of equal length; the better one has more vowels than consonants, whatever was asked."""
    draw = Random(seed)

    def word(vowels):
        letters = [draw.choice("aeiou") for _ in range(vowels)] + [draw.choice("bcdfg") for _ in range(6 - vowels)]
        draw.shuffle(letters)
        return "".join(letters)

    rows = [
        {"prompt": f"word {n}", "chosen": word(draw.choice((5, 6))), "rejected": word(draw.choice((0, 1)))}
        for n in range(count)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"use": "pairs", "params": {"path": str(file), "held_out_share": 0.2}}


def lines(folder, stage):
    return [json.loads(line) for line in (folder / stage / "metrics.jsonl").read_text().splitlines()]


def report(folder, stage):
    return PairReport.from_json((folder / stage / "pairs.json").read_text())


@pytest.mark.parametrize("kind", ["reward_model", "preference"])
def test_a_rule_is_learned(tiny_model, tmp_path, kind):
    stage = {"stage": kind, "steps": 40, "batch_size": 16, "data": write_pairs(tmp_path / "pairs.jsonl")}
    content = recipe(tiny_model, tmp_path, stages=[stage], learner={"learning_rate": 3e-3}, evaluation={"num_tasks": 1})
    folder = run(content)
    found = report(folder, f"1-{kind}")
    print(found.accuracy(), found.accuracy("length_only"), found.accuracy("format_only"))
    assert found.accuracy().value > 0.95
    steps = lines(folder, f"1-{kind}")
    assert steps[-1]["loss"] < 0.5 * steps[0]["loss"] and steps[-1]["accuracy"] > steps[0]["accuracy"]
