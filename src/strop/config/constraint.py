"""A named reward that must reach a bound, whatever the others pay."""

from __future__ import annotations

from pydantic import Field

from strop.config.section import Section


class ConstraintConfig(Section):
    """The mean of `reward` over a step is to be `at_least` so much. Each step moves its multiplier by `step` times what
    is missing, between 0 and `max`; see docs/rewards.md."""

    reward: str = Field(min_length=1)
    at_least: float
    step: float = Field(0.1, gt=0)
    max: float = Field(10.0, gt=0)
