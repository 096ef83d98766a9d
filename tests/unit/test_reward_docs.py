"""What docs/rewards.md shows works as it stands, and a constraint on a reward that is not there does not."""

import re
import tomllib
from pathlib import Path

import pytest

from strop.build import build_algorithm, build_domains, needs_sandbox
from strop.config.load import parse_config
from strop.core.errors import ConfigError
from strop.rewards.policy import read_rules
from strop.testing.sandbox import FakeSandbox

PAGE = Path(__file__).parents[2] / "docs" / "rewards.md"
RECIPE, RULES = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def algorithm_of(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ruff.toml").write_text('lint.select = ["F"]\n')
    (tmp_path / "rules.toml").write_text(RULES)
    config = parse_config(tomllib.loads(recipe), "docs/rewards.md")
    assert needs_sandbox(config, config.domains[0])
    [domain] = build_domains(config, config.stages[0], sandbox_of=lambda name: FakeSandbox())
    assert [reward.name for reward in domain.rewards] == ["accuracy", "lint", "safety"]
    return build_algorithm(config.stages[0], [domain])


def test_the_recipe_loads_with_the_files_it_names(tmp_path, monkeypatch):
    [constraint] = algorithm_of(RECIPE, tmp_path, monkeypatch).constraints
    assert constraint.reward == "safety" and constraint.at_least == 0.95


def test_the_rules_are_those_of_the_page():
    assert [rule.id for rule in read_rules(tomllib.loads(RULES)["rules"])] == ["F-1", "F-2", "F-3", "F-4"]


def test_a_constraint_on_a_reward_that_no_domain_has_is_told(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"constraint.reward = 'safty' names no reward.*accuracy, lint, safety"):
        algorithm_of(RECIPE.replace('reward = "safety"', 'reward = "safty"'), tmp_path, monkeypatch)
