"""Rewards: plain callables of (rollout, task). Your own needs no base class and no registration."""

from strop.rewards.extract import extract_answer
from strop.rewards.from_trl import from_trl
from strop.rewards.rules import (
    ExactMatch,
    FewGuesses,
    FoundNumber,
    HasAnswer,
    RandomReward,
    SoftOverlong,
    ThinkFormat,
)

__all__ = [
    "ExactMatch",
    "FewGuesses",
    "FoundNumber",
    "HasAnswer",
    "RandomReward",
    "SoftOverlong",
    "ThinkFormat",
    "extract_answer",
    "from_trl",
]
