"""Levels: up and down on the frontier's pass rate alone, practice of easier ones, and levels that are not offered."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.core.errors import ConfigError
from strop.curriculum.difficulty import Ladder, Standing, clamp_level, first_standing, level_of_turn, moved

LEVELS = (1, 2, 3, 5)
LADDER = Ladder(up=0.75, down=0.25, min_rollouts=8, practice=0.25)


def after(standing, *groups):
    for level, scores in groups:
        standing = moved(standing, LEVELS, LADDER, level, scores)
    return standing


def test_levels_that_are_not_offered_clamp():
    assert [clamp_level(LEVELS, level) for level in (-4, 0, 1, 3, 4, 5, 99)] == [1, 1, 1, 3, 3, 5, 5]
    assert first_standing(LEVELS, LADDER).level == 1
    assert first_standing(LEVELS, Ladder(start=4)).level == 3


def test_up_and_down_after_enough_rollouts():
    four = (1, 1, 1, 0)
    assert after(Standing(level=3), (3, four)) == Standing(level=3, rollouts=4, passes=3)
    assert after(Standing(level=3), (3, four), (3, four)) == Standing(level=5)
    assert after(Standing(level=3), (3, (0, 0, 0, 0)), (3, (1, 0, 0, 0))) == Standing(level=2)
    assert after(Standing(level=3), (3, (1, 0, 0, 0)), (3, (1, 0, 0, 0))) == Standing(level=3)  # 0.25 is not below 0.25
    assert after(Standing(level=5), (5, four), (5, four)) == Standing(level=5)
    assert after(Standing(level=1), (1, (0,) * 8)) == Standing(level=1)


def test_late_and_easier_results_move_nothing():
    standing = Standing(level=3, rollouts=4, passes=3)
    assert after(standing, (2, (1,) * 50), (5, (0,) * 50), (None, (1,) * 50)) == standing
    assert after(standing, (3, ())) == standing
    climbed = after(Standing(level=2), (2, (1,) * 8), (2, (1,) * 8), (2, (1,) * 8))
    assert climbed == Standing(level=3)


def test_between_the_bounds_a_level_stays():
    standing = Standing(level=2)
    for _ in range(100):
        standing = moved(standing, LEVELS, LADDER, 2, (1, 0, 1, 0))
        assert standing.level == 2 and standing.rollouts < 8


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.floats(0, 1), max_size=9)), max_size=40))
def test_levels_move_one_offered_step_at_a_time(groups):
    standing = Standing(level=2)
    for level, scores in groups:
        later = moved(standing, LEVELS, LADDER, level, scores)
        assert later.level in LEVELS
        assert abs(LEVELS.index(later.level) - LEVELS.index(standing.level)) <= (level == standing.level)
        standing = later


def test_a_share_of_the_turns_practises_every_easier_level():
    levels = [level_of_turn(LEVELS, 5, turn, LADDER, 7, "d") for turn in range(400)]
    assert levels.count(5) == 300
    assert min(levels.count(level) for level in (1, 2, 3)) > 15
    assert all(level != 5 for level in levels[3::4])  # evenly spread
    assert {level_of_turn(LEVELS, 1, turn, LADDER, 7, "d") for turn in range(20)} == {1}
    never = Ladder(practice=0)
    assert {level_of_turn(LEVELS, 5, turn, never, 7, "d") for turn in range(50)} == {5}


@pytest.mark.parametrize(
    "bad", [{"up": 0.2, "down": 0.3}, {"up": 1.2}, {"down": -0.1}, {"practice": 1.0}, {"min_rollouts": 0}]
)
def test_ladders_that_cannot_be_climbed(bad):
    with pytest.raises(ConfigError):
        Ladder(**bad)
