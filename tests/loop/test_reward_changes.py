"""A run that goes on keeps its rewards as they were, and the multipliers of its constraints."""

import json
import shutil
import sys

import pytest
from test_resume import forget
from test_tiny_run import recipe, run

from strop.cli import main
from strop.core.errors import ConfigError
from strop.storage.records import read_rollouts
from strop.storage.reward_versions import check_reward_versions

RECIPE = """
name = "small"
model = {{ path = "{model}" }}
sampling = {{ max_tokens = 4 }}
evaluation = {{ num_tasks = 1 }}
audit = {{ accept = ["sum", "largest"] }}
stages = [{{ stage = "rl", steps = 2, groups_per_step = 1, group_size = 4, save = {{ every_steps = 1, keep = 9 }} }}]

[[rewards]]
name = "accuracy"
use = "random"

[[rewards]]
name = "mine"
use = "rewards_that_change:mine"
weight = 0.1

[[domains]]
name = "sum"
tasks = {{ use = "generated", params = {{ generator = "sum", size = 20 }} }}

[[domains]]
name = "largest"
tasks = {{ use = "generated", params = {{ generator = "largest", size = 20 }} }}
rewards = [{{ name = "accuracy", use = "random" }}]
"""
CODE = "def mine(rollout, task):\n    return 1.0\n"


def test_a_changed_reward_is_refused_unless_accepted_by_name(tiny_model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "run.toml").write_text(RECIPE.format(model=tiny_model))
    folder = tmp_path / "runs" / "small"

    def strop(*arguments):
        sys.modules.pop("rewards_that_change", None)  # a process of its own would read it anew
        with pytest.raises(SystemExit) as ended:
            main(["train", *arguments, "--quiet"])
        return ended.value.code or 0, capsys.readouterr().err.strip()

    (tmp_path / "rewards_that_change.py").write_text(CODE)
    assert strop("run.toml")[0] == 0
    before = json.loads((folder / "rewards.json").read_text())
    forget(folder, "1-rl", after_step=1)
    (tmp_path / "rewards_that_change.py").write_text(CODE.replace("1.0", "0.25"))
    for refused in ([], ["--accept-reward", "accuracy"]):
        code, said = strop("--resume", "runs/small", *refused)
        assert code == 2 and "\n" not in said
        assert "reward 'mine' of domain 'sum' has changed" in said and before["sum"]["mine"] in said
        assert said.endswith("--accept-reward mine")
    assert not (folder / "1-rl" / "model").exists()
    assert strop("--resume", "runs/small", "--accept-reward", "mine")[0] == 0
    after = json.loads((folder / "rewards.json").read_text())
    assert after["sum"]["mine"] not in (before["sum"]["mine"], None) and after["largest"] == before["largest"]
    rows = read_rollouts(folder / "1-rl" / "rollouts")
    versions = {row["step"]: row["scores"]["mine"]["version"] for row in rows if row["domain"] == "sum"}
    assert set(versions.values()) <= {before["sum"]["mine"], after["sum"]["mine"]} and versions
    shutil.rmtree(folder / "1-rl" / "model")
    assert strop("--resume", "runs/small")[0] == 0  # what was accepted stays so
    code, said = strop("--resume", "runs/small", "--accept-reward", "mina")
    assert code == 2 and "--accept-reward mina: the run has no such reward, but accuracy, mine" in said
    code, said = strop("run.toml", "--accept-reward", "mine")
    assert code == 2 and "give --resume too" in said


def test_versions_are_compared_domain_by_domain_and_new_ones_noted(tmp_path):
    check_reward_versions(tmp_path, {"a": {"right": "1", "style": "2"}, "b": {"right": "3"}})
    check_reward_versions(tmp_path, {"a": {"right": "1"}, "c": {"right": "9"}})
    for versions in ({"b": {"right": "1"}}, {"c": {"right": "8"}}, {"a": {"style": "1"}}):
        with pytest.raises(ConfigError, match="has changed since the run began"):
            check_reward_versions(tmp_path, versions)
    check_reward_versions(tmp_path, {"a": {"right": "5", "style": "2"}, "b": {"right": "6"}}, ["right"])
    noted = json.loads((tmp_path / "rewards.json").read_text())
    assert noted == {"a": {"right": "5", "style": "2"}, "b": {"right": "6"}, "c": {"right": "9"}}


def odd(rollout, task):
    return float(rollout.turns[-1].completion.token_ids[-1] % 2)


def test_the_multiplier_of_a_constraint_goes_on_after_a_resume(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path, evaluation={"num_tasks": 1})
    content["rewards"].append({"name": "safety", "use": odd, "weight": 0.0})
    content["stages"] = [content["stages"][1]]
    content["stages"][0]["algorithm"] = {"constraint": {"reward": "safety", "at_least": 1.5, "step": 0.5, "max": 3.0}}
    folder = run(content)

    def lines():
        found = [json.loads(line) for line in (folder / "1-rl" / "metrics.jsonl").read_text().splitlines()]
        return [(x["constraint/safety/multiplier"], x["constraint/safety/value"], x.get("loss")) for x in found]

    whole = lines()
    expected = 0.0
    for multiplier, value, _ in whole:
        expected = min(3.0, max(0.0, expected + 0.5 * (1.5 - value)))
        assert multiplier == pytest.approx(expected) and multiplier > 0
    rows = read_rollouts(folder / "1-rl" / "rollouts", step=1)
    assert whole[0][1] == pytest.approx(sum(row["scores"]["safety"]["value"] for row in rows) / len(rows))
    forget(folder, "1-rl", after_step=2)
    run(content, folder)
    assert lines() == whole and len(whole) == 4
