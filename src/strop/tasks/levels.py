"""Levels of a source. One that has them says which, in `levels`, and makes itself anew with `at_level(level)`."""

from __future__ import annotations

from collections.abc import Sequence


def nearest_level(level: int, levels: Sequence[int]) -> int:
    """`level`, or the first or last of `levels` where it lies outside of them."""
    return min(max(level, levels[0]), levels[-1])


def check_level(level: int, levels: Sequence[int]) -> None:
    """ValueError when a configuration asks for a level that is not there."""
    if level not in levels:
        raise ValueError(f"level must be from {levels[0]} to {levels[-1]}, got {level}")
