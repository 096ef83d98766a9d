"""strop audit on recipes, and training that refuses a domain whose reward fails."""

import asyncio
import json
import logging

import pytest

from strop.audit import gate
from strop.build import build_domains
from strop.cli import main
from strop.config.load import parse_config
from strop.core.errors import ConfigError

RECIPE = """
name = "audited"
output = "runs"
model = {{ path = "{model}" }}
sampling = {{ max_tokens = 4 }}
evaluation = {{ num_tasks = 1 }}
audit = {{ budget_s = 60 }}
rewards = [{{ name = "accuracy", use = "exact" }}]
[[domains]]
name = "sum"
tasks = {{ use = "generated", params = {{ generator = "sum", size = 20 }} }}
[[domains]]
name = "largest"
tasks = {{ use = "generated", params = {{ generator = "largest", size = 20 }} }}
[[stages]]
stage = "rl"
steps = 1
groups_per_step = 1
group_size = 2
algorithm = {{ keep = "all" }}
"""
SCORERS = """
def contains(rollout, task):
    return float(str(task.reference) in rollout.text)

def liked(rollout, task):
    return float(len(rollout.text) % 7)

def exact(rollout, task):
    return float(rollout.text.strip() == task.data["response"])
"""
ACCEPT = 'audit.accept=["largest"]'
BROKEN = "domains.largest.rewards=[{name = 'accuracy', use = 'my_scorers:contains'}]"


@pytest.fixture
def place(tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_scorers.py").write_text(SCORERS)
    (tmp_path / "run.toml").write_text(RECIPE.format(model=tiny_model))
    return tmp_path


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


def test_the_command_says_which_domain_fails_and_ends_with_2(place, capsys):
    code, out, _ = call(capsys, "audit", "run.toml")
    assert code == 0 and "sum" in out and "largest" in out and "fail" not in out
    code, out, _ = call(capsys, "audit", "run.toml", BROKEN)
    assert code == 2 and "scores 1.00" in " ".join(out.split())
    code, out, _ = call(capsys, "audit", "run.toml", BROKEN, "--json")
    found = json.loads(out)
    assert code == 2 and found["failed"] == ["largest"]
    [largest] = [domain for domain in found["domains"] if domain["domain"] == "largest"]
    paid = {row["kind"] for row in largest["junk"] if row["low"] > row["limit"]}
    assert {"every option listed, formed", "the prompt, formed"} <= paid
    assert call(capsys, "audit", "run.toml", BROKEN, ACCEPT)[0] == 0
    assert call(capsys, "audit", "run.toml", BROKEN, "--domain", "sum")[0] == 0
    code, _, err = call(capsys, "audit", "run.toml", "--domain", "summ")
    assert code == 2 and "there are sum, largest" in err and err.count("\n") == 1
    code, _, err = call(capsys, "audit", "run.toml", 'audit.accept=["summ"]')
    assert code == 2 and "audit.accept: no domain is named 'summ'" in err


def test_without_golds_the_models_samples_are_shown(place, capsys):
    (place / "asks.jsonl").write_text("".join(json.dumps({"prompt": f"Ask {n}"}) + "\n" for n in range(12)))
    asks = [
        "domains.sum.tasks={use = 'files', params = {path = 'asks.jsonl'}}",
        "domains.sum.rewards=[{name = 'accuracy', use = 'my_scorers:liked'}]",
    ]
    code, out, _ = call(capsys, "audit", "run.toml", *asks, "--domain", "sum", "--samples", "4", "--json")
    spread = json.loads(out)["domains"][0]["spread"]
    assert spread["num_samples"] == 4 and len(spread["best"]) == len(spread["worst"]) == 10, code
    assert spread["best"][0][0] >= spread["mean"] >= spread["worst"][0][0]
    code, out, _ = call(capsys, "audit", "run.toml", *asks, "--domain", "sum", "--samples", "0", "--json")
    assert json.loads(out)["domains"][0]["spread"] is None


def test_training_refuses_a_domain_that_fails_unless_it_is_accepted_by_name(place, capsys, caplog):
    code, _, err = call(capsys, "train", "run.toml", "--quiet", BROKEN)
    line = err.strip()
    assert code == 2 and "\n" not in line
    for part in ("domain 'largest'", "scores 1.00", 'audit.accept = ["largest"]', "tasks seen"):
        assert part in line
    with caplog.at_level(logging.WARNING):
        code, _, err = call(capsys, "train", "run.toml", "--quiet", BROKEN, ACCEPT)
    assert code == 0, err
    assert "domain 'largest' fails its audit" in caplog.text and "domain 'sum'" not in caplog.text
    [kept] = (place / "runs").glob("*/audit.json")
    found = json.loads(kept.read_text())
    assert found["sum"]["line"] is None and found["sum"]["num_tasks"] > 0 and "scores 1.00" in found["largest"]["line"]


def test_what_was_found_is_kept_until_reward_domain_or_bound_change(place, monkeypatch):
    content = {
        "name": "kept",
        "model": {"path": "unused"},
        "rewards": [{"name": "accuracy", "use": "exact"}],
        "domains": [{"name": "sum", "tasks": {"use": "generated", "params": {"generator": "sum", "size": 20}}}],
        "stages": [{"stage": "rl", "steps": 1}],
    }
    folder = place / "kept"
    folder.mkdir()

    def audited(**changes):
        config = parse_config({**content, **changes}, "test")
        domains = build_domains(config)
        return asyncio.run(gate.audit_before_training(domains, config, folder))[0].key

    first = audited()
    file = folder / gate.FILE
    mark = json.loads(file.read_text())
    mark["sum"]["num_tasks"] = -1  # a mark that a second audit would overwrite
    file.write_text(json.dumps(mark))
    assert audited() == first and json.loads(file.read_text())["sum"]["num_tasks"] == -1
    assert audited(audit={"bound": 0.3}) != first and json.loads(file.read_text())["sum"]["num_tasks"] > 0
    assert audited(rewards=[{"name": "accuracy", "use": "exact", "params": {"case_sensitive": True}}]) != first
    file.write_text("{half")
    assert audited() == first


def test_domains_that_no_rl_stage_learns_from_are_not_refused(place):
    content = {
        "name": "taught",
        "model": {"path": "unused"},
        "rewards": [{"name": "accuracy", "use": "random"}],
        "domains": [{"name": "sum", "tasks": {"use": "generated", "params": {"generator": "sum", "size": 20}}}],
        "stages": [{"stage": "sft", "steps": 1}],
    }
    config = parse_config(content, "test")
    assert asyncio.run(gate.audit_before_training(build_domains(config), config, place)) == []
    config = parse_config({**content, "stages": [{"stage": "rl", "steps": 1}]}, "test")
    with pytest.raises(ConfigError, match="gold answers score below 1"):
        asyncio.run(gate.audit_before_training(build_domains(config), config, place))


def test_a_function_given_in_python_is_warned_of(place, caplog):
    def anything(rollout, task):
        return 1.0

    content = {
        "name": "trial",
        "model": {"path": "unused"},
        "rewards": [{"name": "accuracy", "use": anything}],
        "domains": [{"name": "sum", "tasks": {"use": "generated", "params": {"generator": "sum", "size": 20}}}],
        "stages": [{"stage": "rl", "steps": 1}],
    }
    config = parse_config(content, "test")
    with caplog.at_level(logging.WARNING):
        [passed] = asyncio.run(gate.audit_before_training(build_domains(config), config, place))
    assert passed.line is not None and "fails its audit" in caplog.text
