"""From the name of a component to the object: built-in names, `module:attribute`, or a callable given in Python."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

from strop.config.schema import Component
from strop.core.errors import ConfigError, describe_error

TASKS: Mapping[str, str] = {
    "generated": "strop.tasks.generated:Generated",
    "guess_number": "strop.tasks.guess_number:GuessTasks",
    "files": "strop.tasks.files:Files",
    "reasoning_gym": "strop.tasks.reasoning_gym:ReasoningGym",
    "generated_code": "strop.tasks.generated.code_source:GeneratedCode",
    "generated_calls": "strop.tasks.generated.call_source:GeneratedCalls",
    "humaneval": "strop.tasks.humaneval:HumanEval",
    "mbpp": "strop.tasks.mbpp:MBPP",
    "bfcl": "strop.tasks.bfcl:BFCL",
}
ENVIRONMENTS: Mapping[str, str] = {
    "single_turn": "strop.environments.single_turn:SingleTurn",
    "guess_number": "strop.environments.guess_number:GuessNumber",
    "execute_verify_correct": "strop.environments.execute_verify_correct:ExecuteVerifyCorrect",
}
REWARDS: Mapping[str, str] = {
    "exact": "strop.rewards:ExactMatch",
    "has_answer": "strop.rewards:HasAnswer",
    "think_format": "strop.rewards:ThinkFormat",
    "soft_overlong": "strop.rewards:SoftOverlong",
    "length_penalty": "strop.rewards:LengthPenalty",
    "random": "strop.rewards:RandomReward",
    "found_number": "strop.rewards:FoundNumber",
    "few_guesses": "strop.rewards:FewGuesses",
    "reasoning_gym": "strop.rewards:ReasoningGymScore",
    "code": "strop.rewards.code:CodeReward",
    "has_code": "strop.rewards.code:HasCode",
    "function_call": "strop.rewards.function_call:FunctionCallReward",
}


def locate(use: str | Callable[..., Any], builtin: Mapping[str, str], where: str) -> Any:
    """The object that `use` names. ConfigError says which part of the name is wrong."""
    if not isinstance(use, str):
        return use
    target = builtin.get(use, use)
    module, colon, attribute = target.partition(":")
    if not colon:
        near = get_close_matches(use, builtin, 1, 0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"built-in are {', '.join(builtin)}"
        raise ConfigError(f"{where}: nothing is called {use!r}; {hint} (your own code: 'module:attribute')")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{where}: cannot import {error.name!r} for {use!r}; is it installed or on PYTHONPATH?"
        ) from error
    except Exception as error:
        raise ConfigError(f"{where}: importing {module!r} failed: {describe_error(error)}") from error
    if attribute not in vars(found):
        raise ConfigError(f"{where}: module {module!r} has no {attribute!r}")
    return vars(found)[attribute]


def make(component: Component, builtin: Mapping[str, str], where: str, **context: Any) -> Any:
    """Call what the component names with its params, plus whatever of `context` it has parameters for."""
    target = locate(component.use, builtin, where)
    accepted = parameters_of(target)
    given = {k: v for k, v in context.items() if k in accepted and k not in component.params}
    return call(target, {**given, **component.params}, where)


def make_callable(component: Component, builtin: Mapping[str, str], where: str, **context: Any) -> Callable[..., Any]:
    """A function with its params bound, or an instance of a class made with them; both with what of `context` they
    have parameters for."""
    target = locate(component.use, builtin, where)
    if inspect.isclass(target):
        made: Callable[..., Any] = make(component, builtin, where, **context)
        return made
    if not callable(target):
        raise ConfigError(f"{where}: {component.use!r} is {type(target).__name__}, not a function or class")
    _check_names(target, component.params, where)
    accepted = parameters_of(target)
    given = {k: v for k, v in context.items() if k in accepted}
    bound: Callable[..., Any] = partial(target, **{**given, **component.params})
    return bound


def parameters_of(target: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(target).parameters)


def call(target: Callable[..., Any], params: Mapping[str, Any], where: str) -> Any:
    """`target(**params)`, with unknown or missing parameters named in one line."""
    _check_names(target, params, where)
    try:
        inspect.signature(target).bind(**params)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error
    try:
        return target(**params)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _check_names(target: Callable[..., Any], params: Mapping[str, Any], where: str) -> None:
    known = parameters_of(target)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(target).parameters.values())
    unknown = [name for name in params if name not in known]
    if unknown and not takes_any:
        near = get_close_matches(unknown[0], known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"
        raise ConfigError(f"{where}: unknown parameter {unknown[0]!r}; {hint}")
