"""Finding the answer in what the policy wrote: one rule, in this order.

1. Thinking is not read: everything up to the last `</think>` is dropped; an unclosed `<think>` leaves nothing.
2. The last line that says `Answer: ...` (any case; the line's rest is the answer).
3. The last `\\boxed{...}`.
4. Nothing else is an answer. Two answers in form 2, or two in form 3, that differ, are no answer: a spray of guesses
   must not earn. So is an answer line that lists several (`1, 2, 3` or `1 or 2`) where one number is asked for: it
   simply does not equal the reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ANSWER_LINE = re.compile(
    r"^[\s*_>#-]*(?:the\s+)?(?:final\s+)?answer\**\s*(?:is|:|=)\s*\**\s*(.*?)\s*\**\s*$", re.I | re.M
)
BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer's text, or None with the reason why there is none."""

    text: str | None
    reason: str = ""


def visible(text: str) -> str:
    """`text` without its thinking part."""
    _, closed, tail = text.rpartition("</think>")
    if closed:
        return tail
    return "" if "<think>" in text else text


def extract_answer(text: str) -> Answer:
    """The one answer of `text` by the rule of this module."""
    shown = visible(text)
    for form, pattern in (("answer lines", ANSWER_LINE), ("boxes", BOXED)):
        found = [match.strip() for match in pattern.findall(shown) if match.strip()]
        if not found:
            continue
        if len({normal(answer) for answer in found}) > 1:
            return Answer(None, f"{len(found)} {form} that differ")
        return Answer(found[-1])
    return Answer(None, "no answer")


def normal(text: str) -> str:
    """Case, surrounding quotes, dollar signs, a final full stop and runs of blanks do not matter."""
    plain = re.sub(r"\s+", " ", text.strip().casefold())
    plain = plain.strip("$`'\" ").removesuffix(".").strip("$`'\" ")
    return plain


def same_answer(given: str, wanted: str) -> bool:
    """Equality of normal forms, or of value where both are plain decimal numbers (`42`, `42.0`, `1,000`)."""
    a, b = normal(given), normal(wanted)
    if a == b:
        return True
    x, y = _number(a), _number(b)
    return x is not None and x == y


def _number(text: str) -> float | None:
    plain = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text)
    return float(plain) if re.fullmatch(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", plain) else None
