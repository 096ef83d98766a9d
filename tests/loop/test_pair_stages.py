"""Stages on preference pairs on a tiny real model: they learn, chain, go on after a stop, and say what is wrong."""

import json
import shutil
from random import Random

import pytest
from test_tiny_run import TIMES, recipe, run

from strop.core.errors import ConfigError, DataError
from strop.evaluation.pairs import PairReport
from strop.rewards.scoring_worker import load_scorer, score
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


def metrics(folder, stage):
    return [{k: v for k, v in line.items() if not k.startswith(TIMES)} for line in lines(folder, stage)]


def report(folder, stage):
    return PairReport.from_json((folder / stage / "pairs.json").read_text())


@pytest.mark.parametrize("kind", ["reward_model", "preference"])
def test_a_rule_is_learned(tiny_model, tmp_path, kind):
    stage = {"stage": kind, "steps": 40, "batch_size": 16, "data": write_pairs(tmp_path / "pairs.jsonl")}
    content = recipe(tiny_model, tmp_path, stages=[stage], learner={"learning_rate": 3e-3}, evaluation={"num_tasks": 1})
    folder = run(content)
    found = report(folder, f"1-{kind}")
    assert found.accuracy("length_only").value == found.accuracy("format_only").value == 0.5  # nothing to see there
    assert found.accuracy().value > 0.95
    steps = lines(folder, f"1-{kind}")
    assert steps[-1]["loss"] < 0.5 * steps[0]["loss"] and steps[-1]["accuracy"] > steps[0]["accuracy"]


def test_sft_then_a_reward_model_then_rl_against_it_in_one_recipe(tiny_model, tmp_path):
    """The reward does not apply before its stage; the policy after it goes on from the policy before it."""
    content = recipe(tiny_model, tmp_path, evaluation={"num_tasks": 2})
    content["rewards"].append(
        {"name": "liked", "use": "reward_model", "params": {"stage": "liking", "threads": 1}, "per": "group"}
    )
    content["stages"] = [
        {"stage": "sft", "steps": 2, "batch_size": 4},
        {"stage": "rl", "name": "before", "steps": 1, "groups_per_step": 1, "group_size": 4},
        {
            "stage": "reward_model",
            "name": "liking",
            "steps": 2,
            "batch_size": 4,
            "data": write_pairs(tmp_path / "pairs.jsonl", 40),
        },
        {"stage": "rl", "name": "after", "steps": 2, "groups_per_step": 2, "group_size": 4},
    ]
    for stage in content["stages"][1::2]:
        stage["algorithm"] = {"keep": "all"}
    folder = run(content)
    assert sorted(file.stem for file in (folder / "evaluations").glob("*.json")) == ["after", "base", "before", "sft"]
    assert not (folder / "3-liking" / "model").exists()
    early = [row["scores"]["liked"] for row in read_rollouts(folder / "2-before" / "rollouts")]
    assert {score["outcome"] for score in early} == {"not_applicable"} and "'liking' has left" in early[0]["detail"]
    groups = {}
    for row in read_rollouts(folder / "4-after" / "rollouts"):
        assert row["scores"]["liked"]["outcome"] == "scored"
        groups.setdefault(row["ticket"], []).append(row)
    assert len(groups) == 4
    model = load_scorer(folder / "3-liking" / "reward_model", "cpu", "float32")
    for rows in groups.values():
        assert sum(row["scores"]["liked"]["value"] for row in rows) == pytest.approx(0.0, abs=1e-5)
        raw = score(model, [row["token_ids"][0] for row in rows], 4096)
        said = [float(row["scores"]["liked"]["detail"].removeprefix("score ")) for row in rows]
        assert said == pytest.approx(raw, abs=2e-3)
        assert rows[0]["total"] == pytest.approx(sum(score["value"] for score in rows[0]["scores"].values()))
    again = run(content, folder)  # every stage is finished: nothing is done twice
    assert lines(again, "3-liking") == lines(folder, "3-liking")


def test_pairs_from_graded_rollouts_of_the_run_itself_and_of_another(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path, evaluation={"num_tasks": 1})
    rl = {"stage": "rl", "steps": 4, "groups_per_step": 2, "group_size": 8, "algorithm": {"keep": "all"}}
    params = {"equal_form": False, "held_out_share": 0.4}
    pairs = {"use": "graded_rollouts", "params": params}
    content["stages"] = [rl, {"stage": "reward_model", "steps": 1, "batch_size": 4, "data": pairs}]
    folder = run(content)
    found = report(folder, "2-reward_model")
    assert found.results and all(result.prompt.startswith("rollouts-") for result in found.results)
    content["name"] = "other"
    pairs = {"use": "graded_rollouts", "params": {**params, "run": str(folder), "stage": "rl"}}
    content["stages"] = [{"stage": "preference", "steps": 1, "batch_size": 4, "data": pairs}]
    other = run(content)
    asked = [[r.prompt for r in report(*at).results] for at in ((folder, "2-reward_model"), (other, "1-preference"))]
    assert asked[0] == asked[1]


@pytest.mark.parametrize("settings", [{}, {"lora": {"rank": 2}}], ids=["plain", "lora"])
@pytest.mark.parametrize("kind", ["reward_model", "preference"])
def test_a_resumed_stage_equals_the_unbroken_one(tiny_model, tmp_path, kind, settings):
    stage = {"stage": kind, "steps": 4, "batch_size": 4, "save": {"every_steps": 1, "keep": 9}}
    stage["data"] = write_pairs(tmp_path / "pairs.jsonl", 40)
    content = recipe(tiny_model, tmp_path, stages=[stage], evaluation={"num_tasks": 1})
    content["learner"] = {"learning_rate": 1e-2, "schedule": "linear", "warmup_steps": 1, **settings}
    folder = run(content)
    place = folder / f"1-{kind}"
    left = place / ("reward_model" if kind == "reward_model" else "model")
    kept = {file.name: file.read_bytes() for file in left.iterdir() if file.suffix in (".safetensors", ".json")}
    before, said = metrics(folder, f"1-{kind}"), (place / "pairs.json").read_text()
    for checkpoint in (place / "checkpoints").glob("step-*"):
        if int(checkpoint.name.removeprefix("step-")) > 2:
            shutil.rmtree(checkpoint)
    shutil.rmtree(left)
    (place / "pairs.json").unlink()
    run(content, folder)
    assert metrics(folder, f"1-{kind}") == before and len(before) == 4
    assert (place / "pairs.json").read_text() == said
    for name, content_before in kept.items():
        assert (left / name).read_bytes() == content_before, name
    if kind == "preference":  # where training starts both answers are as likely as under the reference
        assert before[0]["margin"] == pytest.approx(0.0, abs=1e-5) and before[1]["margin"] != 0.0


def test_the_reference_is_computed_once_and_is_where_the_stage_starts(tiny_model, tmp_path):
    data = write_pairs(tmp_path / "pairs.jsonl", 40)
    stage = {"stage": "preference", "steps": 2, "batch_size": 4, "data": data, "save": {"every_steps": 1, "keep": 9}}
    sft = {"stage": "sft", "steps": 2, "batch_size": 4}
    content = recipe(tiny_model, tmp_path, stages=[sft, stage], evaluation={"num_tasks": 1})
    folder = run(content)
    assert metrics(folder, "2-preference")[0]["margin"] == pytest.approx(0.0, abs=1e-5)
    place = folder / "2-preference"
    stored = {file: file.read_bytes() for file in place.glob("reference-*.npz")}
    assert len(stored) == 2
    times = {file: file.stat().st_mtime_ns for file in stored}
    shutil.rmtree(place / "model")
    run(content, folder)
    assert {file: file.stat().st_mtime_ns for file in stored} == times


def bad(tmp_path, kind="reward_model", rewards=(), signal="accuracy", **data):
    rows = [{"prompt": f"q{n}", "chosen": "good", "rejected": "bad"} for n in range(20)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    params = data.pop("params", {})
    if "use" not in data:
        params = {"path": str(tmp_path / "pairs.jsonl"), **params}
    stage = {"stage": kind, "steps": 1, "batch_size": 4, "data": {"use": "pairs", "params": params, **data}}
    return {"stages": [stage], "rewards": rewards, "signal": signal}


LIKED = {"name": "liked", "use": "reward_model"}
BAD = {
    "a file that is not there": ({"params": {"path": "none.jsonl"}}, DataError, "none.jsonl: no such file"),
    "an unknown source": ({"use": "pair"}, ConfigError, "did you mean 'pairs'"),
    "an unknown parameter": ({"params": {"files": "x"}}, ConfigError, "unknown parameter 'files'"),
    "a column that is not there": ({"params": {"chosen": "best"}}, DataError, "line 1: no column 'best'"),
    "nothing held out": ({"params": {"held_out_share": 1e-9}}, DataError, "has no pair held out; raise held_out_share"),
    "nothing to train on": ({"params": {"held_out_share": 1 - 1e-9}}, DataError, "has no pair to train on"),
    "tasks for pairs": (
        {"use": "test_pair_stages:not_pairs", "params": {}},
        ConfigError,
        "must hold strop PreferencePairs",
    ),
    "no such run": (
        {"use": "graded_rollouts", "params": {"run": "nowhere"}},
        DataError,
        "nowhere is no folder; give the folder of a run",
    ),
    "a stage that is none": (
        {"rewards": [{**LIKED, "params": {"stage": "reward"}}]},
        ConfigError,
        "reward 'liked': stage = 'reward' is no reward_model stage of this run; there is reward_model",
    ),
    "a reward model as signal before it is there": (
        {"rewards": [{**LIKED, "params": {"stage": "reward_model"}}], "signal": "liked"},
        ConfigError,
        "name another reward as signal",
    ),
    "a folder that holds no model": (
        {"rewards": [{**LIKED, "params": {"path": "nowhere"}}]},
        DataError,
        "nowhere: holds no model",
    ),
}


def not_pairs(path="", split="train"):
    return ("no", "pairs")


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_trained_on_is_told_before_any_work(tiny_model, tmp_path, case):
    changes, error, message = BAD[case]
    wanted = bad(tmp_path, **changes)
    content = recipe(tiny_model, tmp_path, stages=wanted["stages"], evaluation={"num_tasks": 1})
    content["rewards"] = [*content["rewards"], *wanted["rewards"]]
    content["domains"] = [{**domain, "signal": wanted["signal"]} for domain in content["domains"]]
    with pytest.raises(error, match=message) as caught:
        run(content)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*/evaluations"))


def test_a_pair_that_is_too_long_is_named(tiny_model, tmp_path):
    wanted = bad(tmp_path)
    row = {"prompt": "q", "chosen": "a" * 600, "rejected": "b"}
    with (tmp_path / "pairs.jsonl").open("a") as file:
        file.writelines(json.dumps({**row, "prompt": f"p{n}"}) + "\n" for n in range(40))
    content = recipe(tiny_model, tmp_path, stages=wanted["stages"], evaluation={"num_tasks": 1})
    with pytest.raises(DataError, match=r"stage 'reward_model', pair \d+: has 6\d\d tokens and the context 512"):
        run(content)
