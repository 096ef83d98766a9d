"""Answers of mathematics: found in the text, read, and compared. See docs/math.md."""

from strop.rewards.math.decide import judge, same_answer
from strop.rewards.math.extract import answers
from strop.rewards.math.reward import MathReward

__all__ = ["MathReward", "answers", "judge", "same_answer"]
