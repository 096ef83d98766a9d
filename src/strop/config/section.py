"""What every section of a recipe is: typed, strict and frozen."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

MIN_TEMPERATURE = 1e-3  # below it logits over the temperature leave the range of float32


class Section(BaseModel):
    """Unknown keys are errors; values never change after loading; numbers are finite and written as numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        wanted = {annotation, *get_args(annotation)}
        if wanted & {int, float} and not wanted & {str, bool} and isinstance(value, (str, bool)):
            raise ValueError(f"should be a valid number, got {value!r}")
        return value


def file_name(value: str, what: str) -> str:
    """`value`, which names a folder or file of the run; ValueError when it cannot."""
    if value.strip() in ("", ".", "..") or "/" in value or "\0" in value or len(value.encode()) > 200:
        raise ValueError(f"{what} names a folder: give a short text without slashes, got {value[:60]!r}")
    return value


def possible_temperature(value: float) -> float:
    if 0 < value < MIN_TEMPERATURE:
        raise ValueError(f"must be 0 (greedy) or at least {MIN_TEMPERATURE}, got {value}")
    return value
