"""Finding the answer in what the policy wrote: one rule, in this order.

1. Thinking is not read: everything up to the last `</think>` is dropped; an unclosed `<think>` leaves nothing.
2. The last line that says `Answer: ...` (any case; the line's rest is the answer, or the next line that is not blank;
   where that holds a box, the answer is what the box holds).
3. The last `\\boxed{...}`.
4. Nothing else is an answer. Two answers in form 2, or two in form 3, that differ in value, are no answer: a spray of
   guesses must not earn. A line that lists several (`1, 2, 3` or `1 or 2`) is one answer, which equals no number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

# Possessive throughout: the policy chooses the text, so matching must stay linear in it.
ANSWER_LINE = re.compile(
    r"^[ \t*_>#-]*+(?:the[ \t]++)?(?:final[ \t]++)?answer\**+[ \t]*+(?:is|:|=)[\s*]*+([^\n]*+)", re.I | re.M
)
BRACES = r"(?:[^{}]++|\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\})*+"
BOXED = re.compile(r"\\boxed\s*+\{(" + BRACES + r")\}")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")


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
        said = [text for match in pattern.findall(shown) for text in BOXED.findall(match) or [match]]
        found = [answer for text in said if (answer := text.strip().rstrip("* "))]
        if any(not same_answer(other, found[-1]) for other in found):
            return Answer(None, f"{len(found)} {form} that differ")
        if found:
            return Answer(found[-1])
    return Answer(None, "no answer")


def normal(text: str, case_sensitive: bool = False) -> str:
    """Surrounding quotes, dollar signs, a final full stop, runs of blanks and, unless asked for, case do not matter."""
    plain = " ".join((text if case_sensitive else text.casefold()).split())
    return plain.strip("$`'\" ").removesuffix(".").strip("$`'\" ")


def same_answer(given: str, wanted: str, case_sensitive: bool = False) -> bool:
    """Equality of normal forms, or of exact value where both are decimal numbers (`42`, `42.0`, `1,000`, `1e3`)."""
    a, b = normal(given, case_sensitive), normal(wanted, case_sensitive)
    if not a or not b:  # nothing but marks: they are the answer
        return given.strip() == wanted.strip()
    x, y = _number(a), _number(b)
    return a == b or (x is not None and x == y)


def _number(text: str) -> Decimal | None:
    plain = THOUSANDS.sub("", text.lower())
    return Decimal(plain) if NUMBER.fullmatch(plain) else None
