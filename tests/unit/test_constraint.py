import numpy as np
import pytest
from making import group, rollout

from strop.algorithms.advantage import Gdpo, Grpo, Rloo
from strop.algorithms.constraint import Constrained, Constraint
from strop.algorithms.keep import KeepSignal
from strop.algorithms.presets import make_algorithm
from strop.config.load import parse_config
from strop.config.schema import AlgorithmConfig
from strop.core.errors import ConfigError
from strop.core.types import RolloutGroup, Score

SAFETY = Constraint(reward="safety", at_least=0.95, step=0.1, max=10.0)
KEY = "constraint/safety/multiplier"
NA = Score(value=None, outcome="not_applicable")


def safe(*pairs, weights=None):
    """A group of (accuracy, safety)."""
    given = [{"accuracy": Score(value=a), "safety": s if isinstance(s, Score) else Score(value=s)} for a, s in pairs]
    members = tuple(rollout(n, 0, scores=scores, weights=weights) for n, scores in enumerate(given))
    return RolloutGroup(ticket=0, attempt=0, task=group([0]).task, rollouts=members)


def test_the_multiplier_moves_by_what_is_missing_and_stays_within_its_bounds():
    scale, said = SAFETY([safe((1, 1), (1, 0), (0, 1), (0, 0))], {"d": 4.0})
    assert said == pytest.approx({KEY: 0.1 * (0.95 - 0.5), "constraint/safety/value": 0.5})
    assert scale == pytest.approx({"d": 4.0, KEY: 0.045})
    scale, _ = SAFETY([safe((1, 1), (1, 1))], scale)
    assert scale[KEY] == pytest.approx(0.045 - 0.1 * 0.05)
    assert SAFETY([safe((1, 1), (1, 1))], {KEY: 0.001})[0][KEY] == 0.0
    assert SAFETY([safe((1, 0), (1, 0))], {KEY: 9.99})[0][KEY] == 10.0


def test_what_failed_or_does_not_apply_is_no_violation():
    infra = Score(value=None, outcome="infra")
    scale, said = SAFETY([safe((1, 1), (1, NA), (0, infra))], {KEY: 1.0})
    assert said["constraint/safety/value"] == 1.0 and scale[KEY] == pytest.approx(0.995)
    scale, said = SAFETY([safe((1, NA), (1, infra)), group([1, 0])], {KEY: 1.0})
    assert (scale, said) == ({KEY: 1.0}, {KEY: 1.0})


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_the_multiplier_joins_the_weight_and_the_sum_is_divided_by_one_plus_it(weight):
    """lambda 3, accuracy (1, 0), safety (0, 1): totals (1, w + 3) / 4."""
    one = safe((1, 0), (0, 1), weights={"accuracy": 1.0, "safety": weight})
    found = Constrained(Rloo(), (SAFETY,))([one], {}, {KEY: 3.0})
    assert found.advantages[0] == pytest.approx([(1 - weight - 3) / 4, (weight + 3 - 1) / 4])
    assert found.scale[KEY] == 3.0


@pytest.mark.parametrize("inner", [Grpo(), Rloo(), Gdpo()], ids=repr)
def test_without_a_violation_nothing_changes_and_with_one_safety_turns_the_order(inner):
    one = safe((1, 0), (0, 1), (1, 0), (0, 0), weights={"accuracy": 1.0, "safety": 0.0})
    constrained = Constrained(inner, (SAFETY,))
    assert constrained([one], {}, {}).advantages == inner([one], {}, {}).advantages
    right, obedient, _, neither = constrained([one], {}, {KEY: 5.0}).advantages[0]
    assert obedient > right > neither


def test_dual_ascent_finds_the_multiplier_of_a_problem_with_a_known_answer():
    """A policy of one number p, the share of safe answers: an unsafe one earns 2, a safe one 1. Following the gradient
    of (r + lambda g) / (1 + lambda), p rises exactly while lambda > 1, and must reach 0.95 and stay near it."""
    constraint = Constraint(reward="safety", at_least=0.95, step=0.2, max=10.0)
    logit, scale, shares, multipliers = 0.0, {}, [], []
    for _ in range(3000):
        p = 1 / (1 + np.exp(-logit))
        scale, _ = constraint([safe((1.0, p), (1.0, p))], scale)
        multiplier = scale[KEY]
        logit += 0.5 * p * (1 - p) * (multiplier + 1 - 2) / (1 + multiplier)
        shares.append(p)
        multipliers.append(multiplier)
    assert np.mean(shares[-1000:]) == pytest.approx(0.95, abs=0.01)
    assert min(multipliers[-1000:]) < 1 < max(multipliers[-1000:]) < 3


class Forgetful:
    """A user's advantage that returns a state of its own making."""

    def __call__(self, groups, outputs, scale):
        return Grpo()(groups, outputs, {"mine": 1.0})


def test_the_multiplier_outlives_an_advantage_that_makes_its_own_state():
    one = safe((1, 0), (0, 1))
    assert Constrained(Forgetful(), (SAFETY,))([one], {}, {KEY: 3.0}).scale == {"mine": 1.0, KEY: 3.0}


def test_a_group_that_only_safety_tells_apart_is_kept():
    keep = KeepSignal({"d": "accuracy"}, 2, ("safety",))
    assert keep(safe((1, 0), (1, 1))) is None
    assert "no signal" in keep(safe((1, 1), (1, 1)))
    assert "no signal" in KeepSignal({"d": "accuracy"}, 2)(safe((1, 0), (1, 1)))


def made(**choices):
    config = AlgorithmConfig.model_validate(choices)
    return make_algorithm(config, max_tokens=8, group_size=4, signals={"d": "accuracy"}, max_staleness=0)


def test_one_table_or_a_list_in_a_recipe():
    one = made(constraint={"reward": "safety", "at_least": 0.95, "step": 0.1, "max": 10})
    assert one.constraints == (SAFETY,) and one.keep.also == ("safety",)
    assert isinstance(one.advantage, Constrained)
    two = made(constraint=[{"reward": "safety", "at_least": 0.9}, {"reward": "policy", "at_least": 1.0}])
    assert [c.reward for c in two.constraints] == ["safety", "policy"]


BAD = [
    ({"reward": "safety"}, "constraint.*at_least.*missing"),
    ({"at_least": 1}, "constraint.*reward.*missing"),
    ({"reward": "safety", "at_least": 0.9, "step": 0}, "constraint.*step.*greater than 0"),
    ({"reward": "safety", "at_least": 0.9, "max": -1}, "constraint.*max.*greater than 0"),
    ({"reward": "safety", "at_least": 0.9, "steps": 1}, "unknown key.*did you mean 'step'"),
    ({"reward": "safety", "at_least": float("inf")}, "constraint.*at_least.*finite"),
    ([{"reward": "safety", "at_least": 0.9}, {"reward": "safety", "at_least": 0.8}], "two constraints .*'safety'"),
]


@pytest.mark.parametrize(("constraint", "said"), BAD)
def test_a_constraint_that_cannot_be_is_one_line(constraint, said):
    content = {
        "name": "x",
        "model": {"path": "m"},
        "domains": [{"name": "d", "tasks": {"use": "generated"}}],
        "stages": [{"stage": "rl", "steps": 1, "algorithm": {"constraint": constraint}}],
    }
    with pytest.raises(ConfigError, match=said) as told:
        parse_config(content, "run.toml")
    assert "\n" not in str(told.value)
