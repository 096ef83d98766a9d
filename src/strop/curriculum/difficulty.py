"""A level per domain that follows what the policy can do: up where it passes, down where it fails.

Results count only at the present level (the frontier): late ones of a level that was left, and those of easier levels
that are kept in practice, move nothing (RLVE, 2511.07317, counts the frontier alone too).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strop.core.errors import ConfigError
from strop.core.seeds import derive_seed


@dataclass(frozen=True, kw_only=True, slots=True)
class Ladder:
    """When a level is left. After `min_rollouts` at a level: up at a pass rate >= `up`, down below `down`, else stay.

    A decision, also to stay, starts a new count: the gap between `up` and `down` and the count are the hysteresis.
    `practice` is the share of a domain's tickets at easier levels; `start` is a level, None the easiest.
    """

    up: float = 0.8
    down: float = 0.2
    min_rollouts: int = 64
    practice: float = 0.15
    start: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.down < self.up <= 1:
            raise ConfigError(f"a level is left below {self.down:g} and from {self.up:g} on: give 0 <= down < up <= 1")
        if not 0 <= self.practice < 1 or self.min_rollouts < 1:
            raise ConfigError("a ladder needs 0 <= practice < 1 and min_rollouts of at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The frontier level of one domain, and the rollouts and the sum of their scores counted there so far."""

    level: int
    rollouts: int = 0
    passes: float = 0.0


def clamp_level(levels: Sequence[int], level: int) -> int:
    """The hardest offered level that is not above `level`; the easiest where all are. `levels` rise."""
    return max((offered for offered in levels if offered <= level), default=levels[0])


def first_standing(levels: Sequence[int], ladder: Ladder) -> Standing:
    return Standing(level=clamp_level(levels, levels[0] if ladder.start is None else ladder.start))


def moved(
    standing: Standing, levels: Sequence[int], ladder: Ladder, level: int | None, scores: Sequence[float]
) -> Standing:
    """`standing` after the scores [G] in [0, 1] of one group whose task was of `level`."""
    if level != standing.level:
        return standing
    rollouts, passes = standing.rollouts + len(scores), standing.passes + sum(scores)
    if rollouts < ladder.min_rollouts:
        return Standing(level=level, rollouts=rollouts, passes=passes)
    at, rate = levels.index(clamp_level(levels, level)), passes / rollouts
    step = 1 if rate >= ladder.up else -1 if rate < ladder.down else 0
    return Standing(level=levels[min(len(levels) - 1, max(0, at + step))])


def level_of_turn(levels: Sequence[int], frontier: int, turn: int, ladder: Ladder, *seed_path: int | str) -> int:
    """The level of a domain's ticket number `turn`: the frontier, or for the share `practice` an easier one.

    Practice is spread evenly over the turns; which easier level it is, `seed_path` and the turn decide.
    """
    easier = [level for level in levels if level < frontier]
    due = int((turn + 1) * ladder.practice) > int(turn * ladder.practice)
    if not easier or not due:
        return clamp_level(levels, frontier)
    return easier[derive_seed(*seed_path, turn) % len(easier)]
