"""Messages to ids and sampled ids to messages: the only user of the tokenizer.

Sampled ids are never tokenized again. What a chat template inserts between turns is found by rendering the text of the
conversation with and without the new messages; only the difference is tokenized and appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import TemplateError
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from strop.core.errors import DataError
from strop.core.types import NOT_SAMPLED, Completion, IntArray, Message, Tool, TrainingSample
from strop.engines.tool_calls import assistant_message

PROBE = "what is said"


class ChatRenderer:
    """Renders with a tokenizer's chat template. `end_ids` are all ids that end an assistant turn."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.end_ids = end_ids

    @classmethod
    def load(cls, folder: Path, chat_template: str | None = None) -> ChatRenderer:
        """The renderer of the model in `folder`. DataError when there is no chat template."""
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder}: no tokenizer that transformers loads: {error}") from error
        if chat_template is not None:
            tokenizer.chat_template = chat_template
        if not tokenizer.chat_template:
            raise DataError(f"{folder}: the tokenizer has no chat template; set model.chat_template in the recipe")
        renderer = cls(tokenizer, _end_ids(folder, tokenizer))
        if PROBE not in renderer._render([Message(role="user", content=PROBE)], (), prompt=True):
            raise DataError(f"{folder}: the chat template leaves out what the user says; set model.chat_template")
        return cls(tokenizer, renderer.end_ids | renderer._template_end())

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> IntArray:
        """Ids of the conversation up to where the assistant begins to write."""
        return self._encode(self._render(messages, tools, prompt=True))

    def extend(
        self, messages: Sequence[Message], tools: Sequence[Tool], ids: IntArray, replies: Sequence[Message]
    ) -> tuple[IntArray, bool]:
        """What follows the assistant turn that `ids` end with, up to the next one; see core.protocols.Renderer.

        Where the template renders the history differently once replies follow, the whole conversation is given anew.
        """
        whole = self._render([*messages, *replies], tools, prompt=True)
        history = self._render(messages, tools, prompt=False)
        closed = history.rstrip()
        if not whole.startswith(closed):
            return self._encode(whole), False
        end = self._end_text(closed)
        if not end:  # then what the message itself ends with was stripped too, and `ids` hold it
            said = messages[-1].content
            blank = said[len(said.rstrip()) :]
            closed += blank if whole[len(closed) :].startswith(blank) else ""
        rest = whole[len(closed) - len(end) :]
        if int(ids[-1]) in self.end_ids:
            rest = rest[len(end) :]
        return self._encode(rest), True

    def parse(self, completion: Completion) -> Message:
        """The assistant message that the sampled ids say. A tool call that is not valid JSON stays text."""
        ids = completion.token_ids.tolist()
        if ids and ids[-1] in self.end_ids:
            ids = ids[:-1]
        return assistant_message(self.decode(ids))

    def teach(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> TrainingSample:
        """The conversation as one sample; the mask covers what the assistant writes, its end token included."""
        ids: list[int] = []
        mask: list[bool] = []
        rendered = ""
        for number, message in enumerate(messages):
            if message.role != "assistant":
                continue
            before = self._render(messages[:number], tools, prompt=True)
            after = self._render(messages[: number + 1], tools, prompt=False).rstrip()
            if not before.startswith(rendered) or not after.startswith(before):
                raise DataError(f"the chat template changes what precedes message {number}; teach its turns one by one")
            given = self._encode(before[len(rendered) :]).tolist()
            said = self._encode(after[len(before) :]).tolist()
            ids += [*given, *said]
            mask += [False] * len(given) + [True] * len(said)
            rendered = after
        if not any(mask):
            raise DataError("a conversation to teach needs an assistant message that says something")
        return TrainingSample(token_ids=ids, loss_mask=mask, versions=[NOT_SAMPLED] * len(ids))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`, special tokens left out."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _encode(self, text: str) -> IntArray:
        return np.array(self.tokenizer(text, add_special_tokens=False)["input_ids"], np.int32)

    def _render(self, messages: Sequence[Message], tools: Sequence[Tool], *, prompt: bool) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    [_as_dict(message) for message in messages],
                    tools=[_as_schema(tool) for tool in tools] or None,
                    tokenize=False,
                    add_generation_prompt=prompt,
                )
            )
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise DataError(f"the chat template refuses this conversation: {error}") from error

    def _template_end(self) -> frozenset[int]:
        """The special token, if any, that the template ends an assistant turn with; it may be none of the model's."""
        turn = [Message(role="user", content="a"), Message(role="assistant", content=PROBE)]
        ids = self._encode(self._render(turn, (), prompt=False).rpartition(PROBE)[2].strip()).tolist()
        special = self.tokenizer.added_tokens_decoder
        return frozenset(ids[:1] if ids and ids[0] in special and special[ids[0]].special else ())

    def _end_text(self, closed: str) -> str:
        """The text of the end token that `closed` ends with, or nothing."""
        texts = [str(self.tokenizer.convert_ids_to_tokens(i)) for i in sorted(self.end_ids)]
        return next((text for text in texts if text and closed.endswith(text)), "")


def _end_ids(folder: Path, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    ids = {tokenizer.eos_token_id}
    if (folder / "generation_config.json").is_file():
        try:
            eos = GenerationConfig.from_pretrained(folder).eos_token_id
        except (OSError, ValueError) as error:
            raise DataError(f"{folder / 'generation_config.json'}: cannot be read: {error}") from error
        ids |= set(eos) if isinstance(eos, list) else {eos}
    return frozenset(i for i in ids if i is not None)


def _as_dict(message: Message) -> dict[str, Any]:
    content: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        content["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": dict(c.arguments)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        content["tool_call_id"] = message.tool_call_id
    return content


def _as_schema(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }
