"""Whether an answer is the one wanted: extraction, reading and comparing put together. Runs in the caller's process
and always ends; what needs more than exact arithmetic is left to `symbolic`."""

from __future__ import annotations

import re
from functools import lru_cache

from strop.rewards.math.compare import Oracle, equivalent, exact_equal
from strop.rewards.math.exact import UndecidedError
from strop.rewards.math.extract import answers
from strop.rewards.math.notation import NotMathError, plain_signs
from strop.rewards.math.read import read
from strop.rewards.math.shapes import Shape, Words

LETTERS = re.compile(r"\(?([A-J])\)?\.?")
LABEL = re.compile(
    r"(?:(?:the\s+)?(?:correct\s+)?(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s*:?\s*)?"
    r"(?:\(\s*([A-J])\s*\)|([A-J])(?=\s*(?:[).:]|$)|,?\s+(?:because|since|as|with)\b))[\s).:]*(.*)",
    re.S,
)
BEYOND = re.compile(r"\\(?:int|i?oint|sum|prod|lim|partial|nabla|Gamma|zeta|frac\s*\{?\s*d)(?![A-Za-z])")


def judge(gold: str, text: str, oracle: Oracle = exact_equal) -> bool | None:
    """Whether the answer of `text` is `gold`; None where exact arithmetic cannot tell."""
    return judge_readings(gold, answers(text), oracle)


def judge_readings(gold: str, readings: tuple[str, ...], oracle: Oracle = exact_equal) -> bool | None:
    unsure = False
    for reading in readings:
        answer = same_answer(gold, reading, oracle)
        if answer:
            return True
        unsure = unsure or answer is None
    return None if unsure else False


def same_answer(gold: str, given: str, oracle: Oracle = exact_equal) -> bool | None:
    """Whether two answers, both without the text around them, say the same."""
    if not given.strip() or not gold.strip():
        return False
    if gold.strip() == given.strip():
        return True
    letter = _letter(gold)
    if letter:
        return _chosen(given) == letter
    wanted, found = _read_gold(gold), read(given)
    try:
        answer = equivalent(wanted, found, oracle)
    except (NotMathError, UndecidedError, RecursionError):
        answer = None
    if answer is False and _beyond(gold, given, wanted, found):
        return None
    return answer


@lru_cache(maxsize=4096)
def _read_gold(gold: str) -> Shape:
    return read(gold)


def _beyond(gold: str, given: str, wanted: Shape, found: Shape) -> bool:
    """Whether a side is mathematics that this package does not read, such as an integral."""
    return any(isinstance(shape, Words) and BEYOND.search(text) for text, shape in ((gold, wanted), (given, found)))


def _bare(text: str) -> str:
    plain = re.sub(
        r"\\(?:text\w*|math(?:rm|bf|sf|it)|mbox|bf|rm|left|right)(?![A-Za-z])", " ", plain_signs(text[:2000])
    )
    return re.sub(r"\s+", " ", re.sub(r"[{}$*_`]|\\[(),;:! ]", " ", plain)).strip(" .\"'")


def _letter(gold: str) -> str:
    """The letter that the gold is, alone or in brackets."""
    match = LETTERS.fullmatch(_bare(gold))
    return match[1] if match else ""


def _chosen(given: str) -> str:
    """The one letter that an answer picks: `B`, `(B)`, `(B) 12`, `Option B`; nothing where it names several."""
    bare = _bare(given)
    match = LABEL.fullmatch(bare)
    if match is None or re.search(r"\([A-J]\)|\b[B-J]\b\s*[).,]|(?:\bor\b|\band\b|,)\s*\(?[A-J]\b", match[3]):
        return ""
    return match[1] or match[2]
