"""The reward of single-turn function calls: name, arguments, what the call returns, and knowing when not to call.

The reference is `{"calls": [...]}`, each `{"name", "arguments"?, "returns"?}`. `arguments` gives each parameter a list
of acceptable values, of which "" says that it may be left out. `returns` is the value that the call must give when it
is run against the stub in `task.data["stub"]`, Python source that defines the functions (`a.b` is `a_b` there). An
empty list says that no call is right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.errors import InfraError, RewardError
from strop.core.programs import Answer, Call, Limits, Program
from strop.core.protocols import Sandbox
from strop.core.types import JSON, Rollout, Score, Task, ToolCall
from strop.rewards.extract import visible

OPTIONAL = ""
UNREADABLE = "<tool_call>"  # what the renderer leaves in the text where a call is not valid JSON
IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class FunctionCallReward:
    """1 when the calls of the last turn are the reference's, in any order and none besides, else 0.

    Where no call is right, 1 for an answer in words. Texts are equal without regard to case, blanks and `,./-_*^`,
    numbers by value.
    """

    sandbox: Sandbox
    cpu_s: float = 2.0

    async def __call__(self, rollout: Rollout, task: Task) -> Score:
        wanted = _wanted_calls(task)
        message = rollout.turns[-1].message if rollout.turns else None
        calls = message.tool_calls if message is not None else ()
        words = visible(message.content) if message is not None else ""
        if UNREADABLE in words:
            return Score(value=0.0, detail="a call that is not valid JSON")
        if not wanted:
            return Score(value=float(not calls and bool(words.strip())), detail=f"{len(calls)} calls, none is right")
        if len(calls) != len(wanted):
            return Score(value=0.0, detail=f"{len(calls)} calls, {len(wanted)} wanted")
        try:
            answers = await self._run(calls, wanted, task)
        except InfraError as error:
            return Score(value=None, outcome="infra", detail=str(error)[:200])
        fits = [[_fits(call, answer, want) for want in wanted] for call, answer in zip(calls, answers, strict=True)]
        right = _can_pair(fits)
        return Score(value=float(right), detail="" if right else _first_misfit(calls, fits))

    async def _run(self, calls: Sequence[ToolCall], wanted: Sequence[Mapping[str, Any]], task: Task) -> list[Answer]:
        """What the stub returns to each call that must return something, each in a fresh job."""
        executed = {want["name"] for want in wanted if "returns" in want}
        stub = task.data.get("stub")
        if executed and not isinstance(stub, str):
            raise RewardError(f"task {task.id}: the reference says what calls return, but data has no stub to run")
        answers = []
        for call in calls:
            if call.name not in executed:
                answers.append(Answer(kind="none", detail="not run"))
                continue
            done = await self.sandbox.call(
                Program(language="python", source=str(stub)),
                call.name.replace(".", "_"),
                [Call(kwargs=call.arguments)],
                Limits(cpu_s=self.cpu_s),
            )
            if done.execution.status == "infra_error":
                raise InfraError(f"the stub could not be run: {done.execution.detail}")
            answers.append(done.answers[0] if done.answers else Answer(kind="none", detail=done.execution.status))
        return answers


def _wanted_calls(task: Task) -> Sequence[Mapping[str, Any]]:
    reference = task.reference
    calls = reference.get("calls") if isinstance(reference, Mapping) else None
    if not isinstance(calls, list | tuple):
        raise RewardError(f'task {task.id}: the reference of function calls must be {{"calls": [...]}}')
    for call in calls:
        known = isinstance(call, Mapping) and set(call) <= {"name", "arguments", "returns"}
        if not known or "name" not in call or not ({"arguments", "returns"} & set(call)):
            raise RewardError(f"task {task.id}: a reference call needs name, and arguments or returns or both")
        arguments = call.get("arguments", {})
        if not isinstance(arguments, Mapping) or not all(isinstance(v, list | tuple) for v in arguments.values()):
            raise RewardError(f"task {task.id}: arguments of a reference call give each parameter a list of values")
    return calls


def _fits(call: ToolCall, answer: Answer, want: Mapping[str, Any]) -> bool:
    if call.name != want["name"]:
        return False
    if "returns" in want and not (answer.kind == "value" and same_value(answer.value, want["returns"])):
        return False
    return "arguments" not in want or fields_accepted(call.arguments, want["arguments"])


def fields_accepted(given: Mapping[str, JSON], wanted: Mapping[str, Sequence[Any]]) -> bool:
    """Whether each field has one of its acceptable values, none is unknown, and none is missing but optional ones."""
    if not set(given) <= set(wanted):
        return False
    return all(
        any(value_accepted(given[name], value) for value in values) if name in given else OPTIONAL in values
        for name, values in wanted.items()
    )


def value_accepted(given: Any, wanted: Any) -> bool:
    """Equality of argument values; an object in `wanted` again lists the acceptable values of each field."""
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and fields_accepted(given, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(given, list | tuple)
            and len(given) == len(wanted)
            and all(value_accepted(g, w) for g, w in zip(given, wanted, strict=True))
        )
    if isinstance(wanted, str):
        return isinstance(given, str) and _plain(given) == _plain(wanted)
    return same_value(given, wanted)


def same_value(given: Any, wanted: Any) -> bool:
    """Equality of plain data: lists and tuples alike, numbers by value (floats to 9 digits), true is not 1."""
    if isinstance(given, Mapping) and isinstance(wanted, Mapping):
        return set(given) == set(wanted) and all(same_value(given[key], wanted[key]) for key in wanted)
    if isinstance(given, list | tuple) and isinstance(wanted, list | tuple):
        return len(given) == len(wanted) and all(same_value(g, w) for g, w in zip(given, wanted, strict=True))
    if isinstance(given, bool) or isinstance(wanted, bool) or not _are_numbers(given, wanted):
        return type(given) is type(wanted) and bool(given == wanted)
    if isinstance(given, int) and isinstance(wanted, int):
        return given == wanted
    return given == wanted or (abs(given) < 1e300 and math.isclose(given, wanted, rel_tol=1e-9))


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _plain(text: str) -> str:
    return IGNORED.sub("", text).casefold().replace("'", '"') or text.strip()


def _can_pair(fits: Sequence[Sequence[bool]]) -> bool:
    """Whether calls and wanted calls can be paired one to one (augmenting paths)."""
    taken: dict[int, int] = {}

    def place(call: int, tried: set[int]) -> bool:
        for want, fit in enumerate(fits[call]):
            if fit and want not in tried:
                tried.add(want)
                if want not in taken or place(taken[want], tried):
                    taken[want] = call
                    return True
        return False

    return all(place(call, set()) for call in range(len(fits)))


def _first_misfit(calls: Sequence[ToolCall], fits: Sequence[Sequence[bool]]) -> str:
    name = next((call.name for call, row in zip(calls, fits, strict=True) if not any(row)), None)
    return "two calls for one that is wanted" if name is None else f"no wanted call is like {name[:60]!r}"
