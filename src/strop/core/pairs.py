"""Preference pairs, and what can be seen of an answer's form without reading it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from strop.core.types import Message, Tool, TrainingSample

MARKS = {  # what a text is laid out with
    "thinking": re.compile(r"</?think(?:ing)?>"),
    "code": re.compile(r"^```", re.MULTILINE),
    "boxed": re.compile(r"\\boxed\b"),
    "answer_tag": re.compile(r"</?answer>|^\s*(?:final )?answer\s*:", re.MULTILINE | re.IGNORECASE),
    "list": re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE),
    "heading": re.compile(r"^\s*#{1,6}\s|^\s*\*\*.+\*\*\s*$", re.MULTILINE),
    "table": re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE),
    "tool_call": re.compile(r"<tool_call>"),
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answer:
    """Messages to be rendered after the pair's prompt; or, of a rollout, the sampled tokens of prompt and answer.

    Where there is a `sample`, the messages only say what it says.
    """

    messages: tuple[Message, ...]
    sample: TrainingSample | None = None

    @property
    def text(self) -> str:
        """What the assistant wrote."""
        return "\n\n".join(message.content for message in self.messages if message.role == "assistant")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PreferencePair:
    """Two answers to one prompt, the first preferred, and by how much its score should be higher at least.

    `id` is the prompt's: pairs of one prompt are never both trained on and held out.
    """

    id: str
    prompt: tuple[Message, ...]
    chosen: Answer
    rejected: Answer
    tools: tuple[Tool, ...] = ()
    margin: float = 0.0


def form_of(text: str) -> tuple[bool, ...]:
    """Which of MARKS the text has, and whether it has more than one line."""
    return (*(mark.search(text) is not None for mark in MARKS.values()), "\n" in text.strip())


def is_held_out(prompt_id: str, share: float) -> bool:
    """By the hash that the id of a prompt ends with, so that equal prompts are on one side in every file."""
    return int(prompt_id.rpartition("-")[2], 16) / 2**64 < share
