"""What runs in worker processes: pairs that exact arithmetic leaves open, by many digits, then by math-verify."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from strop.rewards.math.decide import BEYOND, judge_readings
from strop.rewards.math.numeric import numeric_equal

ROUNDING = 12  # decimals that math-verify compares floats to


def decide(gold: str, readings: Sequence[str]) -> bool:
    """Whether a reading of the answer is `gold`. What stays open is not equal: a reward needs a reason."""
    found = judge_readings(gold, tuple(readings), numeric_equal)
    if found is not None:
        return found
    if not any(BEYOND.search(text) for text in (gold, *readings)):
        return False
    return any(_by_math_verify(gold, reading) for reading in readings)


def _by_math_verify(gold: str, given: str) -> bool:
    """Integrals, sums and the like, which are carried out; what math-verify reads as text alone is not equal."""
    import sympy
    from math_verify import LatexExtractionConfig, parse, verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that the deadline is ours to keep
    sides = []
    for text in (gold, given):
        found = parse(f"${text.strip().strip('$')}$", [LatexExtractionConfig()], parsing_timeout=None)  # type: ignore[arg-type]
        if not found or not isinstance(found[0], sympy.Basic):
            return False
        sides.append(found[0].doit())
    return bool(verify(sides[0], sides[1], float_rounding=ROUNDING, strict=True, timeout_seconds=None))
