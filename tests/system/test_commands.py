"""The verbs of the command line on a tiny model, one after the other, as a user would."""

import json

import pytest
from transformers import AutoModelForCausalLM

import strop
from strop.cli import main

RECIPE = """
name = "tour"
output = "runs"
[model]
path = "{model}"
[audit]
accept = ["sum"]
[sampling]
max_tokens = 4
[evaluation]
num_tasks = 4
[[rewards]]
name = "accuracy"
use = "random"
[[domains]]
name = "sum"
tasks = {{ use = "generated", params = {{ generator = "sum", size = 20 }} }}
[[stages]]
stage = "rl"
steps = 2
groups_per_step = 2
group_size = 4
"""


def test_train_compare_rollouts_eval_export(tiny_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(RECIPE.format(model=tiny_model))

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        assert "it/s" not in said.err, "a progress bar of a library"
        return said.out

    trained = call("train", "run.toml")
    assert "runs/tour" in trained and "sum" in trained and "cost: " in trained
    assert "runs/tour-2" in call("train", "run.toml", "stages.rl.steps=1")
    assert "sum" in call("compare", "runs/tour")
    assert "of 16 rollouts" in call("rollouts", "runs/tour", "--limit", "2")
    with pytest.raises(SystemExit, match="2"):
        main(["rollouts", "runs/tour", "--domain", "summ"])
    assert "'summ'; there are sum" in capsys.readouterr().err
    call("eval", "run.toml", "--model", "runs/tour/1-rl/model", "--output", "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["domains"][0]["domain"] == "sum"
    assert "sum" in call("compare", "runs/tour/evaluations/base.json", "report.json")
    call("export", "runs/tour", "out")
    call("train", "run.toml", "learner.lora.rank=2", "name=adapter")
    call("export", "runs/adapter", "merged", "--merge")
    call("eval", "run.toml", "--model", "runs/adapter/1-rl/model", "--output", "new/folder/report.json")
    assert "sum" in call("compare", "runs/adapter/evaluations/rl.json", "new/folder/report.json")
    assert "model" in call("model", "get", tiny_model)
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_python_evaluates_and_teaches(tiny_model, tmp_path):
    rows = [{"prompt": f"Say {n}", "completion": f"Answer: {n}", "answer": str(n)} for n in range(30)]
    report = strop.evaluate(
        model=str(tiny_model), domains={"mine": rows}, sampling={"max_tokens": 3}, evaluation={"num_tasks": 2}
    )
    assert len(report.domains[0].results) == 2
    result = strop.sft(
        model=str(tiny_model),
        domains={"mine": rows},
        steps=2,
        stage={"batch_size": 4},
        sampling={"max_tokens": 3},
        evaluation={"num_tasks": 2},
        output=str(tmp_path),
        quiet=True,
    )
    assert set(result.reports) == {"base", "sft"}
