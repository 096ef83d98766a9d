"""Preference pairs labelled by a judge, as the stages reward_model and preference read them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop.core.errors import DataError
from strop.core.types import Message
from strop.rewards.extract import visible
from strop.rewards.judge import PairwiseJudge, pairs_of
from strop.rewards.judge_forms import Setting

Prompt = str | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class LabelledPairs:
    """`rows` of prompt, chosen and rejected; what was left out is counted: ties, and pairs without a verdict."""

    rows: tuple[Mapping[str, Any], ...]
    num_ties: int = 0
    num_unknown: int = 0

    def write(self, path: Path) -> None:
        """One JSON object a line; the file is whole or not there."""
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows), encoding="utf-8")
        part.replace(path)


async def label_pairs(
    judge: PairwiseJudge,
    prompts: Sequence[Prompt],
    completions: Sequence[Sequence[str]],
    references: Sequence[str | None] | None = None,
) -> LabelledPairs:
    """Every pair (see `max_opponents`) of each prompt's completions in which one is better in both orders.

    A prompt is text or messages. Rows hold prompts and completions as given, thinking included, in the order given.
    A completion that scores 0 unasked is rejected against every one that does not. DataError names what does not fit.
    """
    known = references if references is not None else [None] * len(prompts)
    if not len(prompts) == len(completions) == len(known):
        raise DataError(
            f"{len(prompts)} prompts, {len(completions)} lists of completions and {len(known)} references: "
            "give one of each for every prompt"
        )
    messages = [_messages(number, prompt) for number, prompt in enumerate(prompts, start=1)]
    for number, texts in enumerate(completions, start=1):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"prompt {number}: its completions must be a list of texts")
    asked = zip(messages, completions, known, strict=True)
    labelled = await asyncio.gather(*(_of_one(judge, said, texts, reference) for said, texts, reference in asked))
    rows, num_ties, num_unknown = [], 0, 0
    for prompt, texts, outcomes in zip(prompts, completions, labelled, strict=True):
        for first, second, winner in outcomes:
            num_ties += winner == "tie"
            num_unknown += winner is None
            if winner in ("first", "second"):
                chosen, rejected = (first, second) if winner == "first" else (second, first)
                rows.append({"prompt": prompt, "chosen": texts[chosen], "rejected": texts[rejected]})
    return LabelledPairs(rows=tuple(rows), num_ties=num_ties, num_unknown=num_unknown)


async def _of_one(
    judge: PairwiseJudge, prompt: Sequence[Message], texts: Sequence[str], reference: str | None
) -> list[tuple[int, int, str | None]]:
    setting = Setting(
        conversation=tuple((message.role, message.content) for message in prompt),
        reference=reference if judge.show_reference else None,
    )
    refused = {number for number, text in enumerate(texts) if judge.unasked(prompt, [text]) is not None}
    playing = [number for number in range(len(texts)) if number not in refused]
    answers = [visible(text) for text in texts]
    asked = [(playing[i], playing[j]) for i, j in pairs_of(len(playing), judge.max_opponents)]
    matches = await asyncio.gather(*(judge.compare(setting, answers, i, j) for i, j in asked))
    outcomes: list[tuple[int, int, str | None]] = [(m.first, m.second, m.winner) for m in matches]
    outcomes += [(winner, loser, "first") for winner in playing for loser in refused]
    return sorted(outcomes, key=lambda outcome: sorted(outcome[:2]))


def _messages(number: int, prompt: Prompt) -> list[Message]:
    if isinstance(prompt, str):
        return [Message(role="user", content=prompt)]
    try:
        return [Message(role=message["role"], content=message["content"]) for message in prompt]
    except (KeyError, TypeError) as error:
        raise DataError(f"prompt {number}: must be text, or messages with role and content") from error
