"""The stream of tokens of a cleaned text."""

from __future__ import annotations

import re
from fractions import Fraction

from strop.rewards.math.notation import (
    BRACKETS,
    COMMANDS,
    CONSTANTS,
    FUNCTIONS,
    NAMES,
    SCALES,
    SMALL,
    TOKEN,
    WORD_OPS,
    NotMathError,
    Token,
    decimal,
    num,
    repeating,
)
from strop.rewards.math.units import CURRENCY, UNIT_WORDS

MAX_TOKENS = 4500
OPENS = {"(": "open", "[": "open", "{": "open", "⦃": "open", ")": "close", "]": "close", "}": "close", "⦄": "close"}
PRODUCT_WORD = re.compile(r"[a-zA-Z]{2}|[xyzabcnmk]{3}|d[xyztu]")
NOT_PRODUCTS = frozenset("is no if of at by to on so up us we he me my an as it do go ok or am pm yes".split())


def tokenize(text: str) -> list[Token]:
    """NotMathError for signs and words that no expression has."""
    if re.fullmatch(r"[+-]?\d+[eE][+-]?\d{1,6}", text):
        text = text.upper().replace("E", ".0E")
    found: list[Token] = []
    depth = 0
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        assert match is not None  # the last alternative takes anything
        kind = match.lastgroup if match.lastgroup not in ("mark", "field") else None
        kind = kind or ("thousands" if match["thousands"] else "bb")
        piece = match[0]
        if kind == "thousands" and depth and match["mark"] == ",":
            digits = re.match(r"\d+", piece)
            assert digits is not None
            piece, kind = digits[0], "num"
        position += len(piece)
        if kind == "space":
            continue
        made = _tokens(kind, piece, text, position)
        for token in made:
            depth += (token.kind == "open" and token.value in "([⦃") - (token.kind == "close" and token.value in ")]⦄")
        found += made
        if len(found) > MAX_TOKENS:
            raise NotMathError("too long")
    return found


def _tokens(kind: str, piece: str, text: str, end: int) -> list[Token]:
    if kind in ("num", "thousands", "comma_decimal", "sci", "period", "dots", "mixed"):
        return [_number(kind, piece)]
    if kind == "env":
        return [Token("begin" if piece.startswith("\\begin") else "end", piece.partition("{")[2].strip("}* "))]
    if kind == "cmd":
        return [_command(piece[1:])]
    if kind == "bb":
        return [Token("name", "ℝ" if "R" in piece[-3:] else piece.strip("\\{} "))]
    if kind == "text":
        return _words(piece[1:-1])
    if kind == "word":
        return _word(piece, text[end : end + 1])
    return [_sign(piece)]


def _number(kind: str, piece: str) -> Token:
    if kind == "mixed":
        whole, over, under = re.findall(r"\d+", piece)
        if not int(under[:1000].strip("0") or 0):
            raise NotMathError("division by zero")
        return num(decimal(whole) + decimal(over) / decimal(under))
    if kind == "sci":
        mantissa, exponent = re.split("[eE]", piece)
        if abs(int(exponent)) > 50_000:
            raise NotMathError("too large an exponent")
        return num(decimal(mantissa) * Fraction(10) ** int(exponent))
    if kind == "period":
        fixed, period = re.match(r"(\d*\.\d*)\D+(\d+)", piece).groups()  # type: ignore[union-attr]
        return num(repeating(fixed, period[:CHUNK_PERIOD]))
    if kind == "dots":
        return _with_dots(re.match(r"[\d.]+?(?=\\|\.\.\.)", piece)[0])  # type: ignore[index]
    digits = re.sub(r"[,'\s]", "", piece)
    if kind == "comma_decimal":
        digits = digits.replace("‚", ".")
    return num(decimal(digits.replace("‚", "")), kind == "num" and piece.isdigit())


CHUNK_PERIOD = 1000


def _with_dots(digits: str) -> Token:
    """0.333... is the fraction whose period shows at least twice, or three times where it is one digit."""
    fixed, _, part = digits.partition(".")
    for start in range(min(len(part), 8)):
        for size in range(1, (len(part) - start) // 2 + 1):
            period = part[start : start + size]
            times = (len(part) - start) / size
            if times >= (3 if size == 1 else 2) and (period * (int(times) + 1)).startswith(part[start:]):
                return num(repeating(f"{fixed}.{part[:start]}", period))
    raise NotMathError("a number that goes on unseen")


def _command(name: str) -> Token:
    if name in COMMANDS:
        sign = COMMANDS[name]
        return Token("name", "∅") if sign == "∅" else Token("fn" if sign in ("sqrt", "frac", "binom") else "op", sign)
    if name in BRACKETS:
        kind, sign = BRACKETS[name]
        return Token(kind, sign)  # type: ignore[arg-type]
    if name in CONSTANTS:
        return Token("name", CONSTANTS[name])
    if name in FUNCTIONS:
        return Token("fn", name)
    if name in NAMES:
        return Token("name", name.removeprefix("var"))
    if name == "imath":
        return Token("name", "i")
    raise NotMathError(f"the command \\{name}")


def _words(words: str) -> list[Token]:
    """What stands in \\text{...}: a joining word, a unit, a number, or words."""
    plain = " ".join(words.split())
    low = plain.lower().strip(" .,;:")
    if not low:
        return [Token("op", plain)] if plain in (",", ";", ":") else []
    if low in ("and", "or", "in", "mod"):
        return [Token("op", low)]
    if low in CONSTANTS:
        return [Token("name", CONSTANTS[low])]
    if plain in FUNCTIONS:
        return [Token("fn", plain)]
    return [Token("text", plain)]


def _word(word: str, following: str) -> list[Token]:
    """Letters outside \\text{...}: a known word, a unit, or a product of variables."""
    low = word.lower()
    if word in WORD_OPS or low in ("or", "and"):
        return [Token("op", WORD_OPS.get(word, low))]
    if word in FUNCTIONS:
        return [Token("fn", word)]
    if word in CONSTANTS:
        return [Token("name", CONSTANTS[word])]
    if len(word) == 1:
        return [Token("name", word)]
    if word in GREEK_WORDS:
        return [Token("name", word)]
    if low in SCALES or word in UNIT_WORDS or low in UNIT_WORDS or word in CURRENCY:
        return [Token("text", word)]
    if low in SMALL:
        return [num(Fraction(SMALL.index(low)), True)]
    if word.startswith(("pi", "sin", "cos", "tan", "ln", "log", "exp", "sqrt")) and len(word) <= 5:
        head = next(w for w in ("pi", "sin", "cos", "tan", "ln", "log", "exp", "sqrt") if word.startswith(w))
        first = Token("name", "pi") if head == "pi" else Token("fn", head)
        return [first, *(Token("name", c) for c in word[len(head) :])]
    if PRODUCT_WORD.fullmatch(word) and low not in NOT_PRODUCTS:
        return [Token("name", c) for c in word]
    if word.endswith("pi") and len(word) == 3:
        return [Token("name", word[0]), Token("name", "pi")]
    return [Token("text", word)]


GREEK_WORDS = frozenset("alpha beta gamma delta theta lambda mu sigma omega phi epsilon".split())


def _sign(piece: str) -> Token:
    if piece in OPENS:
        return Token(OPENS[piece], piece)  # type: ignore[arg-type]
    if piece in ("＄", "€", "£", "¥", "₹", "$"):
        return Token("unit", "$" if piece == "＄" else piece)
    if piece == "**":
        return Token("op", "^")
    if piece == "==":
        return Token("op", "=")
    if piece == "‚":
        return Token("op", ",")
    if piece in "+-*/^_=<>!%|,;:&↵'°" or piece in ("<=", ">=", "!=", "..."):
        return Token("op", piece)
    raise NotMathError(f"the sign {piece!r}")
