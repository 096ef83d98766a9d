"""A run goes on where it stopped, whatever it was doing: in SFT, with rollouts in flight, in an export."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from test_tiny_run import TIMES, recipe, run
from transformers import AutoModelForCausalLM

import strop
from strop.cli import main
from strop.storage.records import read_rollouts


def metrics(folder, stage):
    lines = [json.loads(line) for line in (folder / stage / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith(TIMES)} for line in lines]


def weights(folder):
    return [p.detach().numpy() for p in AutoModelForCausalLM.from_pretrained(folder).parameters()]


def forget(folder, stage, after_step):
    """As if the process had died after the save of step `after_step`."""
    for checkpoint in (folder / stage / "checkpoints").glob("step-*"):
        if int(checkpoint.name.removeprefix("step-")) > after_step:
            shutil.rmtree(checkpoint)
    shutil.rmtree(folder / stage / "model")
    for report in (folder / "evaluations").glob("*.json"):
        if report.stem != "base":
            report.unlink()


@pytest.mark.parametrize("settings", [{}, {"lora": {"rank": 2, "dropout": 0.2}}], ids=["plain", "lora"])
@pytest.mark.parametrize("stage", ["sft", "rl", "ppo"])
def test_a_resumed_stage_equals_the_unbroken_one(tiny_model, tmp_path, stage, settings):
    common = {"steps": 4, "save": {"every_steps": 1, "keep": 9}}
    rl = {"stage": "rl", **common, "groups_per_step": 2, "group_size": 4, "max_replacements": 2}
    stages = {
        "sft": {"stage": "sft", **common, "batch_size": 4},
        "rl": {**rl, "algorithm": {"kl_coef": 0.1, "importance": "token_tis"}},
        "ppo": {**rl, "algorithm": {"preset": "ppo"}},
    }
    content = recipe(tiny_model, tmp_path, stages=[{**stages[stage], "name": stage}], evaluation={"num_tasks": 1})
    content["learner"] = {"learning_rate": 1e-2, "schedule": "linear", "warmup_steps": 1, **settings}
    folder = run(content)
    before = metrics(folder, f"1-{stage}"), sorted((folder / f"1-{stage}" / "model").iterdir())
    kept = {file.name: file.read_bytes() for file in before[1] if file.suffix == ".safetensors"}
    forget(folder, f"1-{stage}", after_step=2)
    assert run(content, folder) == folder
    assert metrics(folder, f"1-{stage}") == before[0] and len(before[0]) == 4
    for name, content in kept.items():
        assert (folder / f"1-{stage}" / "model" / name).read_bytes() == content


def test_with_rollouts_in_flight_every_ticket_is_trained_once(tiny_model, tmp_path):
    """Field case 68: the rollout side goes on too; field case 62: with the weights of the checkpoint."""
    content = recipe(tiny_model, tmp_path, engine={}, evaluation={"num_tasks": 1})
    content["stages"] = [
        {
            "stage": "rl",
            "steps": 6,
            "groups_per_step": 2,
            "group_size": 4,
            "max_staleness": 2,
            "save": {"every_steps": 1, "keep": 9},
            "algorithm": {"keep": "all"},
        }
    ]
    folder = run(content)
    first = {row["ticket"]: row["task_id"] for row in read_rollouts(folder / "1-rl" / "rollouts")}
    forget(folder, "1-rl", after_step=3)
    run(content, folder)
    rows = read_rollouts(folder / "1-rl" / "rollouts")
    assert [row["ticket"] for row in rows] == [t for t in range(12) for _ in range(4)]
    assert {row["ticket"]: row["task_id"] for row in rows} == first
    for row in rows:
        sampled = [v for versions in row["versions"] for v in versions if v >= 0]
        assert row["step"] - 2 <= min(sampled) <= max(sampled) <= row["step"]
        assert row["attempt"] == (row["step"] > 3)
    fresh = [v for row in rows if row["step"] == 4 for versions in row["versions"] for v in versions if v >= 0]
    assert set(fresh) == {4}  # stage versions begin at 1, so three updates made version 4
    state = json.loads((folder / "1-rl" / "checkpoints" / "step-6" / "state.json").read_text())
    assert sum(state["curriculum"]["observed"].values()) == state["next_ticket"] == 12
    assert metrics(folder, "1-rl")[-1]["step"] == 6


def test_the_first_rollout_after_a_resume_comes_from_the_checkpoint(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path, evaluation={"num_tasks": 1}, learner={"learning_rate": 0.3})
    content["stages"] = [
        {"stage": "rl", "steps": 3, "groups_per_step": 2, "group_size": 4, "save": {"every_steps": 1, "keep": 9}}
    ]
    content["stages"][0]["algorithm"] = {"keep": "all", "preset": "rloo"}
    folder = run(content)
    forget(folder, "1-rl", after_step=2)
    run(content, folder)
    assert all(line["mismatch_abs"] < 1e-3 for line in metrics(folder, "1-rl"))


FULL_DISK = """
import resource, sys
from strop.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
main(["train", "run.toml", "--quiet", *sys.argv[1:]])
"""
SMALL = """
name = "small"
output = "runs"
model = {{ path = "{model}" }}
sampling = {{ max_tokens = 4 }}
evaluation = {{ num_tasks = 1 }}
rewards = [{{ name = "accuracy", use = "random" }}]
domains = [{{ name = "sum", tasks = {{ use = "generated", params = {{ generator = "sum", size = 20 }} }} }}]
stages = [{{ stage = "rl", steps = 1, groups_per_step = 1, group_size = 4 }}]
audit = {{ accept = ["sum"] }}
"""


def test_the_run_folder_alone_is_enough_to_go_on_and_the_cost_is_of_the_whole_run(
    tiny_model, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(SMALL.format(model=tiny_model))

    def strop(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["train", *arguments])
        said = capsys.readouterr()
        return ended.value.code or 0, " ".join(said.out.split()), said.err

    changes = ["learner.learning_rate=1e-3", "stages.rl.steps=2", "stages.rl.save.every_steps=1"]
    assert strop("run.toml", *changes)[0] == 0
    folder = tmp_path / "runs" / "small"
    before = metrics(folder, "1-rl")
    forget(folder, "1-rl", after_step=1)
    spent = {"evaluate base": 600.0, "rl": 1200.0, "evaluate rl": 60.0}
    (folder / "seconds.json").write_text(json.dumps(spent))
    (tmp_path / "run.toml").unlink()  # nobody needs it any more
    code, said, _ = strop("--resume", "runs/small")
    assert code == 0 and "evaluate base 10.0 min, rl 20." in said and "evaluate rl 1." in said
    assert [line["step"] for line in metrics(folder, "1-rl")] == [line["step"] for line in before] == [1, 2]
    (tmp_path / "run.toml").write_text(SMALL.format(model=tiny_model))
    assert strop("run.toml", *changes, "--resume", "runs/small")[0] == 0
    code, _, error = strop("run.toml", *changes[1:], "--resume", "runs/small")
    assert code == 2 and "learner.learning_rate = 0.001 where this is 1e-06" in error
    code, _, error = strop()
    assert code == 2 and "give a recipe, or --resume" in error


def even(rollout, task):
    return float(rollout.turns[-1].completion.token_ids[0] % 2 == 0)


def test_a_run_with_code_from_python_says_where_it_goes_on(tiny_model, tmp_path, capsys):
    settings = {
        "model": str(tiny_model),
        "domains": {"mine": [{"prompt": f"Say {n}"} for n in range(20)]},
        "rewards": [even],
        "steps": 1,
        "stage": {"groups_per_step": 1, "group_size": 2},
        "sampling": {"max_tokens": 3},
        "evaluation": {"num_tasks": 1},
        "output": str(tmp_path),
        "quiet": True,
    }
    folder = strop.train(**settings).folder
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--resume", str(folder)])
    assert "strop.train(..., resume=" in capsys.readouterr().err
    shutil.rmtree(folder / "1-rl" / "model")
    assert strop.train(**settings, resume=folder).folder == folder


def test_a_disk_that_is_full_at_the_export_leaves_no_half_model(tiny_model, tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text(SMALL.format(model=tiny_model))
    done = subprocess.run([sys.executable, "-c", FULL_DISK], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("strop: ")]
    assert "1-rl/model cannot be written" in line and "--resume" in line
    stage = tmp_path / "runs" / "small" / "1-rl"
    assert not (stage / "model").exists()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["train", "run.toml", "--quiet", "--resume", "runs/small"])
    assert not ended.value.code
    assert np.isfinite(weights(stage / "model")[0]).all()
    assert not (stage / ".model.partial").exists()
