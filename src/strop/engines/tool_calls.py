"""Calls in what an assistant wrote: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""

from __future__ import annotations

import json
import re

from strop.core.types import Message, ToolCall

TOOL_CALL = re.compile(r"<tool_call>((?:(?!</?tool_call>).)*+)</tool_call>", re.DOTALL)  # linear in what is written


def assistant_message(text: str) -> Message:
    """The message that `text` says. A tool call that is not valid JSON stays text."""
    calls = tuple(call for number, match in enumerate(TOOL_CALL.finditer(text)) if (call := _call(match, number)))
    content = TOOL_CALL.sub(lambda m: "" if _call(m, 0) else m.group(), text) if calls else text
    return Message(role="assistant", content=content, tool_calls=calls)


def _call(match: re.Match[str], number: int) -> ToolCall | None:
    try:
        content = json.loads(match.group(1))
    except (ValueError, RecursionError):  # the latter: nested too deeply, which is the policy's doing
        return None
    if not isinstance(content, dict):
        return None
    name, arguments = content.get("name"), content.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments)
