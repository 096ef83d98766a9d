"""From the name of a component to the object: built-in names, `module:attribute`, or a callable given in Python."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from strop.config.component import Component
from strop.core.errors import ConfigError, describe_error

TASKS: Mapping[str, str] = {
    "generated": "strop.tasks.generated:Generated",
    "guess_number": "strop.tasks.guess_number:GuessTasks",
    "files": "strop.tasks.files:Files",
    "reasoning_gym": "strop.tasks.reasoning_gym:ReasoningGym",
    "generated_code": "strop.tasks.generated.code_source:GeneratedCode",
    "generated_calls": "strop.tasks.generated.call_source:GeneratedCalls",
    "generated_prompts": "strop.tasks.generated.prompt_source:GeneratedPrompts",
    "summaries": "strop.tasks.summaries:Summaries",
    "humaneval": "strop.tasks.humaneval:HumanEval",
    "mbpp": "strop.tasks.mbpp:MBPP",
    "bfcl": "strop.tasks.bfcl:BFCL",
}
PAIRS: Mapping[str, str] = {
    "pairs": "strop.tasks.pairs:pairs",
    "graded_rollouts": "strop.tasks.graded_rollouts:graded_rollouts",
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
    "reward_model": "strop.rewards.reward_model:RewardModelReward",
    "math": "strop.rewards.math:MathReward",
    "lint": "strop.rewards.lint:LintReward",
    "policy": "strop.rewards.policy:PolicyReward",
    "instruction": "strop.rewards.instruction:FollowsInstruction",
    "safety": "strop.rewards.safety:SafetyReward",
    "summary": "strop.rewards.summary:SummaryReward",
    "judge": "strop.rewards.judge:JudgeReward",
    "pairwise_judge": "strop.rewards.judge:PairwiseJudge",
}

STRATEGIES: Mapping[str, str] = {
    "static": "strop.curriculum.strategies:Static",
    "uniform": "strop.curriculum.strategies:Uniform",
    "learnability": "strop.curriculum.strategies:Learnability",
    "ucb": "strop.curriculum.strategies:Ucb",
    "mt_grpo": "strop.curriculum.strategies:MtGrpo",
    "strop": "strop.curriculum.strategies:Strop",
}

PLAIN: Mapping[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "text"),
    bool: (bool, "true or false"),
    NoneType: (NoneType, "none"),
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
    _check_params(target, component.params, where)
    accepted = parameters_of(target)
    given = {k: v for k, v in context.items() if k in accepted} | component.params
    bound: Callable[..., Any] = partial(target, **given) if given else target
    return bound


def parameters_of(target: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(_signature(target).parameters)


def check_takes(fn: Callable[..., Any], arguments: Sequence[str], where: str) -> None:
    """ConfigError when `fn` cannot be called with so many arguments."""
    try:
        _signature(fn).bind(*arguments)
    except TypeError as error:
        raise ConfigError(
            f"{where}: must be a function of ({', '.join(arguments)}), but calling it: {error}"
        ) from error


def call(target: Callable[..., Any], params: Mapping[str, Any], where: str) -> Any:
    """`target(**params)`, with unknown, missing or mistyped parameters named in one line."""
    _check_params(target, params, where)
    try:
        _signature(target).bind(**params)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error
    try:
        return target(**params)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    """With annotations as types, where they can be had; that of `f(*args, **kwargs)` where the target tells none."""
    try:
        return inspect.signature(target, eval_str=True)
    except (NameError, AttributeError, TypeError, SyntaxError):  # names that only a type checker imports
        return inspect.signature(target)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


def _check_params(target: Callable[..., Any], params: Mapping[str, Any], where: str) -> None:
    known = _signature(target).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    unknown = [name for name in params if name not in known]
    if unknown and not takes_any:
        near = get_close_matches(unknown[0], known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"
        raise ConfigError(f"{where}: unknown parameter {unknown[0]!r}; {hint}")
    for name, value in params.items():
        wanted = _plain_types(known[name].annotation) if name in known else ()
        if wanted and not any(_is_a(value, kind) for kind in wanted):
            raise ConfigError(f"{where}: {name} must be {' or '.join(map(_said, wanted))}, got {value!r}")


def _plain_types(annotation: Any) -> tuple[Any, ...]:
    """The plain types and literals that an annotation asks for; none where it asks for anything else too."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return kinds if all(get_origin(kind) is Literal or kind in PLAIN for kind in kinds) else ()


def _is_a(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return isinstance(value, PLAIN[kind][0]) and (kind is bool or not isinstance(value, bool))


def _said(kind: Any) -> str:
    return " or ".join(map(repr, get_args(kind))) if get_origin(kind) is Literal else PLAIN[kind][1]
