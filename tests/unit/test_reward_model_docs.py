"""The recipes of docs/reward-models.md load, and what they name takes what they give it."""

import re
import tomllib
from pathlib import Path

import pytest

from strop.config.load import parse_config
from strop.config.resolve import PAIRS, REWARDS, locate, make_callable, parameters_of
from strop.preference import check_pairs

PAGE = Path(__file__).parents[2] / "docs" / "reward-models.md"


def blocks():
    return [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def recipes():
    whole, stage = blocks()
    return [whole, {**whole, "rewards": whole["rewards"][:1], "stages": [whole["stages"][0], *stage["stages"]]}]


@pytest.mark.parametrize("number", [0, 1])
def test_the_recipes_of_the_page_load(number):
    content = recipes()[number]
    config = parse_config(content, "page")
    for stage in config.stages:
        if stage.data is not None:
            assert set(stage.data.params) <= set(parameters_of(locate(stage.data.use, PAIRS, "page")))
    for reward in config.rewards:
        make_callable(reward, REWARDS, "page")
    if number == 0:
        check_pairs(config)  # the reward's stage is there, and its pairs are the run's own


def test_every_parameter_the_page_names_is_one():
    text = PAGE.read_text()
    known = {"use", "data", "stage", "path", "per", "keep", "signal", "run", "score", "device", "dtype", "threads"}
    for name in re.findall(r"`([a-z_]+) = ", text):
        known_by = [parameters_of(locate(use, table, "page")) for table in (PAIRS, REWARDS) for use in table]
        assert name in known or any(name in parameters for parameters in known_by), name
