"""One row of a user's data to one Task. The column forms of TRL and the common ones are recognised."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, get_args

from strop.core.errors import DataError
from strop.core.types import Message, Role, Task

PROMPTS = ("prompt", "question", "problem", "instruction", "input")
REFERENCES = ("answer", "solution", "reference", "ground_truth", "target", "output")
RESPONSES = ("completion", "chosen", "response")


def task_of(row: Mapping[str, Any], *, domain: str, where: str, prompt: str = "", reference: str = "") -> Task:
    """A Task of `row`; DataError, which begins with `where`, says which column is missing or wrong.

    `messages` is a whole conversation, whose last assistant message is what an SFT stage teaches. Otherwise the prompt
    is text or messages, and `completion` or `chosen` is taught. Every other column stays in `data`.
    """
    messages, response = _conversation(row, where, prompt)
    wanted = _column(row, (reference,) if reference else REFERENCES)
    if reference and wanted is None:
        raise DataError(f"{where}: no column {reference!r}; there are {', '.join(row)}")
    data = {name: value for name, value in row.items() if name not in ("messages", *PROMPTS, prompt)}
    if response is not None:
        data["response"] = response
    content = json.dumps([[m.role, m.content] for m in messages], ensure_ascii=False)
    return Task(
        id=f"{domain}-{blake2b(content.encode(), digest_size=8).hexdigest()}",
        domain=domain,
        prompt=tuple(messages),
        reference=row[wanted] if wanted is not None else None,
        data=data,
    )


def _conversation(row: Mapping[str, Any], where: str, prompt: str) -> tuple[list[Message], str | None]:
    name = _column(row, (prompt,) if prompt else PROMPTS)
    if name is None and "messages" in row and not prompt:
        messages = messages_of(row["messages"], f"{where}, column messages")
        if messages[-1].role == "assistant":
            return _not_empty(messages[:-1], where), messages[-1].content
        return messages, None
    if name is None:
        asked = f"column {prompt!r}" if prompt else f"column messages or one of {', '.join(PROMPTS)}"
        raise DataError(f"{where}: no {asked}; there are {', '.join(row) or 'none'}")
    answered = _column(row, RESPONSES)
    response = None if answered is None else _text(row[answered], f"{where}, column {answered}")
    return messages_of(row[name], f"{where}, column {name}"), response


def messages_of(value: Any, where: str) -> list[Message]:
    """Text as what the user says, or a list of messages; DataError, which begins with `where`, when it is neither."""
    if isinstance(value, str) and value.strip():
        return [Message(role="user", content=value)]
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [_message(entry, where) for entry in value]
    raise DataError(f"{where}: must be text or a list of messages, and not empty")


def _message(entry: Any, where: str) -> Message:
    try:
        role, content = entry["role"], entry["content"] or ""
    except (TypeError, KeyError) as error:
        raise DataError(f"{where}: a message needs role and content") from error
    if role not in get_args(Role):
        raise DataError(f"{where}: role {role!r} must be one of {', '.join(get_args(Role))}")
    if not isinstance(content, str):
        raise DataError(f"{where}: a message's content must be text, got {type(content).__name__}")
    return Message(role=role, content=content)


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    return messages_of(value, where)[-1].content


def _not_empty(messages: list[Message], where: str) -> list[Message]:
    if not messages:
        raise DataError(f"{where}: the conversation has no message before the assistant's")
    return messages


def _column(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if row.get(name) is not None), None)
