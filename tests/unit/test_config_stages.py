"""Stages that fit together load; what a stage would not heed is told."""

import pytest

from strop.config.load import parse_config
from strop.config.schema import ONLY_IN, StageConfig
from strop.core.errors import ConfigError

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
    shared = {"stage", "name", "steps", "learner", "save"}
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


def chain(*kinds_and_learners):
    data = {"use": "pairs", "params": {"path": "pairs.jsonl"}}
    stages = [
        {"stage": kind, "name": f"s{n}", "steps": 1, "learner": learner}
        | ({"data": data} if kind in ("reward_model", "preference") else {})
        for n, (kind, learner) in enumerate(kinds_and_learners)
    ]
    return content(stages=stages)


def test_nothing_goes_on_with_the_adapter_of_a_reward_model():
    parse_config(chain(("sft", SMALL), ("reward_model", SMALL), ("rl", SMALL)), "test")
    parse_config(chain(("reward_model", LARGE), ("rl", SMALL), ("preference", SMALL)), "test")
    for stages in ((("sft", SMALL), ("reward_model", LARGE)), (("sft", SMALL), ("reward_model", PLAIN), ("rl", LARGE))):
        with pytest.raises(ConfigError, match="goes on with the adapter of 's0'"):
            parse_config(chain(*stages), "test")


@pytest.mark.parametrize("kind", ["reward_model", "preference"])
def test_stages_of_pairs_need_pairs(kind):
    stages = [{"stage": kind, "steps": 1}]
    with pytest.raises(ConfigError, match=f"stage '{kind}' needs pairs: give it data"):
        parse_config(content(stages=stages), "test")


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("sft", "preference", {"beta": 0.2}),
        ("preference", "reward_model", {}),
        ("reward_model", "domains", ["d"]),
        ("reward_model", "group_size", 4),
    ],
)
def test_a_key_of_another_kind_of_stage_is_told(kind, key, value):
    stage = {"stage": kind, "steps": 1, key: value, "data": {"use": "pairs"}}
    with pytest.raises(ConfigError, match=f"'{key}' is a key of"):
        parse_config(content(stages=[stage]), "test")


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("preference", "beta", 0.0),
        ("preference", "label_smoothing", 0.5),
        ("preference", "nll_coef", -1.0),
        ("reward_model", "centre_coef", -0.1),
    ],
)
def test_numbers_that_make_no_loss_are_refused(section, key, value):
    stage = {"stage": section, "steps": 1, "data": {"use": "pairs"}, section: {key: value}}
    with pytest.raises(ConfigError, match=key):
        parse_config(content(stages=[stage]), "test")
