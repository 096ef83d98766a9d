"""What an SFT stage teaches of a task."""

from __future__ import annotations

from strop.core.errors import DataError
from strop.core.types import Message, Task


def conversation(task: Task) -> tuple[Message, ...]:
    """The task's prompt and its worked response, `data["response"]`. DataError when it has none."""
    response = task.data.get("response")
    if not isinstance(response, str) or not response.strip():
        raise DataError(
            f"domain {task.domain!r}, task {task.id}: has no response to teach; add one or drop the SFT stage"
        )
    return (*task.prompt, Message(role="assistant", content=response))
