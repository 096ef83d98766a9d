"""Rewards: plain callables of (rollout, task). Your own needs no base class and no registration."""

from strop.rewards.extract import extract_answer
from strop.rewards.from_trl import from_trl
from strop.rewards.reasoning_gym import ReasoningGymScore
from strop.rewards.rules import (
    ExactMatch,
    FewGuesses,
    FoundNumber,
    HasAnswer,
    LengthPenalty,
    RandomReward,
    SoftOverlong,
    ThinkFormat,
)

__all__ = [
    "ExactMatch",
    "FewGuesses",
    "FoundNumber",
    "HasAnswer",
    "LengthPenalty",
    "RandomReward",
    "ReasoningGymScore",
    "SoftOverlong",
    "ThinkFormat",
    "extract_answer",
    "from_trl",
]
