"""Single-turn function calls in the files of the Berkeley Function Calling Leaderboard, by path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from strop.core.errors import DataError
from strop.core.types import JSON, Message, Task, Tool
from strop.tasks.files import read_rows

TYPES = {"dict": "object", "float": "number", "tuple": "array"}  # names of theirs that JSON schema lacks
HELD_OUT_SHARE = 4  # one row in four


@dataclass(frozen=True)
class BFCL:
    """The rows of a question file as tasks for rewards/function_call.py.

    Acceptable calls stand in the file of the same name in the folder `possible_answer` beside it; without one (the
    irrelevance file) no call is right. A row is held out by the hash of its question.
    """

    path: str
    domain: str
    split: Literal["train", "held_out"] = "train"
    _tasks: tuple[Task, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        file = Path(self.path)
        answers_file = file.parent / "possible_answer" / file.name
        answers = {}
        if answers_file.is_file():
            answers = {row["id"]: row["ground_truth"] for _, row in read_rows(str(answers_file))}
        elif "irrelevance" not in file.name:
            raise DataError(f"{file}: its answers are missing; put them at {answers_file}")
        tasks = [task_of_row(row, answers, self.domain, where) for where, row in read_rows(str(file))]
        chosen = [t for t in tasks if is_held_out(t) == (self.split == "held_out")]
        object.__setattr__(self, "_tasks", tuple(chosen))

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:
        return self._tasks[index]


def is_held_out(task: Task) -> bool:
    content = "\n".join(message.content for message in task.prompt)
    return int(blake2b(content.encode(), digest_size=8).hexdigest(), 16) % HELD_OUT_SHARE == 0


def task_of_row(row: Mapping[str, Any], answers: Mapping[str, Any], domain: str, where: str) -> Task:
    """One row with its acceptable calls. DataError says what the row lacks."""
    for key in ("id", "question", "function"):
        if key not in row:
            raise DataError(f"{where}: no key {key!r}; is this a question file of the leaderboard?")
    if len(row["question"]) != 1:
        raise DataError(f"{where}: has {len(row['question'])} turns; only single-turn files can be used")
    if answers and row["id"] not in answers:
        raise DataError(f"{where}: no acceptable answer for {row['id']!r}")
    wanted = [pair for call in answers.get(row["id"], []) for pair in call.items()]
    calls: list[JSON] = [{"name": name, "arguments": arguments} for name, arguments in wanted]
    return Task(
        id=f"bfcl-{row['id']}",
        domain=domain,
        prompt=tuple(Message(role=m["role"], content=m["content"]) for m in row["question"][0]),
        tools=tuple(
            Tool(name=f["name"], description=f["description"], parameters=json_schema(f["parameters"]))
            for f in row["function"]
        ),
        reference={"calls": calls},
        data={"response": worked_response(wanted)},
    )


def worked_response(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The calls as an answer says them, each parameter with the first of its acceptable values; words for no call."""
    said = [json.dumps({"name": name, "arguments": _first_values(arguments)}) for name, arguments in calls]
    return "\n".join(f"<tool_call>{call}</tool_call>" for call in said) or "None of these functions fits."


def _first_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An object lists the acceptable values of its fields again; "" says that a parameter may be left out."""
    found = {}
    for name, values in arguments.items():
        given = [value for value in values if value != ""]
        if given:
            found[name] = _first(given[0])
    return found


def _first(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _first_values(value)
    return [_first(entry) for entry in value] if isinstance(value, list) else value


def json_schema(value: Any) -> Any:
    """Their parameter description as JSON schema: other names of types are replaced, `any` is left out."""
    if isinstance(value, list):
        return [json_schema(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    found = {key: json_schema(content) for key, content in value.items()}
    kind = value.get("type")
    if isinstance(kind, str):  # a parameter that is itself called `type` has an object there
        found["type"] = TYPES.get(kind, kind)
        if kind == "any":
            del found["type"]
    return found
