"""All generators of reasoning_gym as domains; junk never raises and never earns."""

import pytest
from making import completion

from strop.config.resolve import REWARDS, locate
from strop.core.types import Message, Rollout, Turn
from strop.rewards import ReasoningGymScore

gym = pytest.importorskip("reasoning_gym")

from strop.tasks.reasoning_gym import ReasoningGym, generator_names  # noqa: E402

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


def test_levels_get_harder_and_invalid_ones_clamp():
    easy, hard = (ReasoningGym("chain_sum", "d", level=n, size=5) for n in (1, 3))
    assert len(hard[0].prompt[0].content) > len(easy[0].prompt[0].content)
    assert len(ReasoningGym("caesar_cipher", "d", level=9, size=2)) > 0


def test_held_out_items_are_others():
    train, held = (ReasoningGym("count_bits", "d", split=s, size=60) for s in ("train", "held_out"))
    assert not {train[i].id for i in range(len(train))} & {held[i].id for i in range(len(held))}


def test_recipes_find_the_scorer_by_its_name():
    assert locate("reasoning_gym", REWARDS, "domain 'd'") is ReasoningGymScore
