"""All generators of reasoning_gym as domains; junk never raises and never earns."""

import pytest
from making import completion

from strop.config.component import Component
from strop.config.resolve import REWARDS, TASKS, locate, make
from strop.core.errors import ConfigError
from strop.core.types import Message, Rollout, Turn
from strop.rewards import ReasoningGymScore

gym = pytest.importorskip("reasoning_gym")

from strop.tasks.domains import all_domains  # noqa: E402
from strop.tasks.reasoning_gym import ReasoningGym, generator_names  # noqa: E402
from strop.tasks.reasoning_gym_domains import LEFT_OUT, MANY_ANSWERS, SLOWER  # noqa: E402

SLOW = {"knight_swap", "futoshiki", "zebra_puzzles", "puzzle24", "intermediate_integration", "jugs", "rush_hour"}
BY_FUNCTION = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
JUNK = ["", "0", "True False", "Answer: 0", "Answer: [[", "Answer: {}", "Answer: None", "x" * 300]


def said(text):
    message = Message(role="assistant", content=text)
    turn = Turn(input_ids=[1], continues=False, completion=completion([5]), message=message)
    return Rollout(task_id="t", index=0, turns=(turn,), status="ok")


def test_there_are_105_generators():
    assert len(generator_names()) == 105


@pytest.mark.parametrize("name", [n for n in generator_names() if n not in SLOW])
def test_gold_scores_one_and_junk_does_not(name):
    source = ReasoningGym(name, "d", size=2)
    task, score = source[0], ReasoningGymScore()
    assert (task.reference is None) == (name in BY_FUNCTION)
    if task.reference is not None:
        assert score(said(task.data["response"]), task).value == 1.0
    for junk in JUNK:
        value = score(said(junk), task).value
        assert value == 0.0 or junk.removeprefix("Answer: ") == str(task.reference)


def test_levels_get_harder_and_those_the_library_refuses_are_made_one_lower():
    easy, hard = (ReasoningGym("chain_sum", "d", level=n, size=5) for n in (1, 3))
    assert len(hard[0].prompt[0].content) > len(easy[0].prompt[0].content)
    for name in ("caesar_cipher", "rubiks_cube", "survo"):
        top = ReasoningGym(name, "d", size=2).at_level(99)
        assert len(top) == 2 and top[0].level == top.levels[-1] > 0


@pytest.mark.parametrize(("name", "levels"), [("chain_sum", r"0 to \d+"), ("acre", "0 to 0")])
def test_a_level_that_is_not_there_is_an_error_in_a_recipe(name, levels):
    component = Component(use="reasoning_gym", params={"generator": name, "level": 50})
    with pytest.raises(ConfigError, match=f"domain 'd': level must be from {levels}, got 50"):
        make(component, TASKS, "domain 'd'", domain="d")


@pytest.mark.parametrize("name", ["count_bits", "chain_sum", "letter_counting", "spell_backward", "gcd"])
def test_no_seed_or_level_puts_an_item_into_both_splits(name):
    seen = {"train": set(), "held_out": set()}
    for split, ids in seen.items():
        for seed, level in ((0, 0), (5, 1), (40, 2)):
            source = ReasoningGym(name, "d", split=split, size=30, seed=seed).at_level(level)
            found = [source[i].id for i in range(len(source))]
            assert len(set(found)) == len(found) > 5
            ids.update(found)
    assert not seen["train"] & seen["held_out"]


def test_all_usable_generators_are_domains_and_the_others_are_left_out_with_a_reason():
    names = {entry.params["generator"] for entry in all_domains() if not entry.own}
    assert names == set(generator_names()) - set(LEFT_OUT)
    assert set(LEFT_OUT) - set(generator_names()) == {"composite"} and all(LEFT_OUT.values())
    assert names >= MANY_ANSWERS | SLOWER


@pytest.mark.parametrize("name", sorted(MANY_ANSWERS))
def test_scorers_that_are_trusted_pay_the_gold_and_no_other(name):
    source, score = ReasoningGym(name, "d", size=3), ReasoningGymScore(own_scorer=True)
    tasks = [source[i] for i in range(len(source))]
    for task, other in zip(tasks, tasks[::-1], strict=True):
        assert score(said(task.data["response"]), task).value == 1.0
        assert task is other or score(said(other.data["response"]), task).value < 0.2


def test_recipes_find_the_scorer_by_its_name():
    assert locate("reasoning_gym", REWARDS, "domain 'd'") is ReasoningGymScore
