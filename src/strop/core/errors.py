"""The errors a user can meet. Each message is one line that says what to change."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Any

MAX_SAID = 200
LIBRARIES = tuple(f"{p}/" for p in (Path(__file__).parents[1], *map(sysconfig.get_path, ("stdlib", "purelib"))))


class StropError(Exception):
    """Any error that is the user's to mend; the command line prints it and exits with 2."""


class ConfigError(StropError):
    """A recipe, override or keyword argument that cannot be used."""


class DataError(StropError):
    """A data file, task or model folder that cannot be used."""


class ContextError(DataError):
    """A prompt that leaves no room in the model's context."""


class EngineError(StropError):
    """The engine that samples stopped and cannot go on."""


class DivergedError(StropError):
    """Weights, losses or logits that are not finite: training on would teach nothing."""


class ForgettingError(StropError):
    """A domain that is proven to be forgotten, where the recipe asks to stop then."""


class RewardError(StropError):
    """A reward function that raised or returned something that is not a score."""


class CheckpointError(StropError):
    """A checkpoint that cannot be written, or cannot be resumed from."""


class InfraError(Exception):
    """A fault of the machinery (dead worker, unreachable server), never of the policy's answer.

    Parts raise it at the borders of DESIGN section 8; the caller retries, then masks what it touched.
    """


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a task group that is not itself a group: what actually went wrong."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe_error(error: BaseException) -> str:
    """On one line what an error in a user's code says and where it arose: `KeyError: 'x' (rewards.py, line 3)`."""
    said = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    said = said if len(said) <= MAX_SAID else said[: MAX_SAID - 3] + "..."
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*LIBRARIES, "<"))]
    return f"{said} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else said


def brief(value: Any) -> str:
    """The start of any object, for a message; not every one can be shown, such as a number of 5000 digits."""
    try:
        text = repr(value)
    except Exception:  # code of a user's
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "..."
