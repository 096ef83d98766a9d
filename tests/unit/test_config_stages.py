"""Stages that fit together load; what a stage would not heed is told."""

import pytest

from strop.config.load import parse_config
from strop.config.schema import ONLY_IN, StageConfig

PLAIN, SMALL, LARGE = {}, {"lora": {"rank": 2}}, {"lora": {"rank": 8}}


def content(*learners, **changes):
    stages = [
        {"stage": "sft" if n % 2 == 0 else "rl", "name": f"s{n}", "steps": 1, "learner": learner}
        for n, learner in enumerate(learners)
    ]
    domain = {"name": "d", "tasks": {"use": "generated", "params": {"generator": "sum"}}}
    return {"name": "r", "model": {"path": "m"}, "domains": [domain], "stages": stages, **changes}


@pytest.mark.parametrize(
    "learners", [(SMALL, SMALL), (SMALL, PLAIN, LARGE), (PLAIN, LARGE), (LARGE, PLAIN), (SMALL,), (None, None)]
)
def test_adapters_that_can_follow_each_other_load(learners):
    assert len(parse_config(content(*learners, learner=SMALL), "test").stages) == len(learners)


def test_every_key_of_a_stage_is_heeded_by_some_kind_or_by_all():
    shared = {"stage", "name", "steps", "learner", "domains", "save"}
    assert shared | set(ONLY_IN) == set(StageConfig.model_fields) and not shared & set(ONLY_IN)


def test_a_chain_of_gates_that_ends_loads():
    rewards = [
        {"name": "a", "use": "exact", "gate": "b"},
        {"name": "b", "use": "exact", "gate": "c"},
        {"name": "c", "use": "exact"},
    ]
    assert parse_config(content(PLAIN, rewards=rewards), "test").rewards[0].gate == "b"


def test_what_a_user_wrote_of_a_recipe_loads_again_as_the_same():
    wanted = parse_config(content(SMALL, SMALL, seed=3), "test")
    written = wanted.model_dump(mode="json", exclude_unset=True)
    assert parse_config(written, "test") == wanted
