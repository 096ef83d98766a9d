"""From LaTeX, Unicode and calculator notation to one stream of tokens. Nothing here is ever evaluated as code."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

MAX_LENGTH = 30_000  # characters of an answer; no honest one is longer
MAX_DIGITS = 30_000  # of a number in it
CHUNK = 4000  # digits that int() takes at once, below its own limit

Kind = Literal["num", "name", "fn", "op", "open", "close", "text", "unit", "begin", "end"]


class NotMathError(Exception):
    """The text is not an expression that this package reads."""


@dataclass(frozen=True, slots=True)
class Token:
    """A sign, word or number; `whole` says that a number is a plain row of digits. Numbers have no `value`."""

    kind: Kind
    value: str
    number: Fraction = Fraction(0)
    whole: bool = False


def num(number: Fraction, whole: bool = False) -> Token:
    return Token("num", "", number, whole)


GREEK = {
    **{c: n for c, n in zip("αβγδεζηθικλμνξρστυφχψω", (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega"
    ).split(), strict=True)},
    "π": "pi", "Γ": "Gamma", "Δ": "Delta", "Σ": "Sigma", "Ω": "Omega", "ϕ": "phi", "ϵ": "epsilon",
}  # fmt: skip
SIGNS = {
    "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "∗": "*", "÷": "/", "∕": "/", "⁄": "/",
    "−": "-", "–": "-", "—": "-", "‒": "-", "﹣": "-", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ",
    "≠": r"\ne ", "∞": r"\infty ", "√": r"\sqrt ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ",
    "±": r"\pm ", "∓": r"\mp ", "°": r"\degree ", "º": r"\degree ", "˚": r"\degree ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "…": r"\ldots ", "∨": r"\lor ", "∧": r"\land ", "′": "'", "’": "'", "∶": ":", "∖": r"\setminus ",
    "，": ", ", "、": ", ", "；": "; ", "。": ". ", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "→": r"\to ",
    "≈": r"\approx ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    **{c: f"\\{n} " for c, n in GREEK.items()},
}  # fmt: skip
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ", "0123456789+-()n")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
FONTS = r"(?:text(?:bf|it|rm|sf|tt|normal|sc)?|mathrm|mathbf|mathit|mathsf|mathtt|mathnormal|boldsymbol|bm|mbox|hbox|operatorname\*?|emph|underline)"
SPACING = re.compile(
    r"\\(?:[,;: >]|quad(?![A-Za-z])|qquad(?![A-Za-z])|hspace\*?\{[^{}]*\}|hfill|newline|(?:thin|med|thick)space|phantom\{[^{}]*\})|~"
)
SIZES = re.compile(
    r"\\(?:left|right|bigg?[lrm]?|Bigg?[lrm]?|middle|displaystyle|textstyle|scriptstyle|limits|nolimits)(?![A-Za-z])\.?"
)
DELIMITERS = re.compile(r"\\[()]|\\\[(?!\d+(?:\.\d+)?(?:pt|em|ex|mm|cm)\])|\\\]")
FONT_GROUP = re.compile(r"\\" + FONTS + r"\s*\{([^{}]*)\}")
TRIMS = " \t\n\r"
UNIT_LETTERS = frozenset("mgshlL")


def plain_signs(text: str) -> str:
    """`text` with Unicode signs, digits, fractions and raised or lowered digits spelled in ASCII and LaTeX."""
    if text.isascii():
        return text
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ]+", lambda m: "^{" + m[0].translate(SUPERSCRIPTS) + "}", text)
    text = re.sub("[₀₁₂₃₄₅₆₇₈₉]+", lambda m: "_{" + m[0].translate(SUBSCRIPTS) + "}", text)
    out = []
    for char in text:
        if char in SIGNS:
            out.append(SIGNS[char])
        elif char.isascii():
            out.append(char)
        elif unicodedata.category(char) == "No" and "⁄" in (form := unicodedata.normalize("NFKC", char)):
            out.append(" " + form.replace("⁄", "/"))
        elif unicodedata.category(char) == "Nd":
            out.append(str(unicodedata.digit(char)))
        elif unicodedata.category(char) != "Cf":
            out.append(unicodedata.normalize("NFKC", char))
    return "".join(out)


def clean(text: str) -> str:
    """`text` without layout: delimiters, sizes, spacing and fonts of single letters and numbers are gone."""
    if len(text) > MAX_LENGTH:
        raise NotMathError("too long")
    text = plain_signs(text)
    if "\\" in text or "$" in text or "~" in text or "{" in text:
        text = _clean_latex(text)
    text = text.strip(TRIMS)
    while text and text[-1] in ".,;:!?" and not text.endswith(("..", "\\,")) and not _is_factorial(text):
        text = text[:-1].rstrip(TRIMS)
    return _without_outer(text)


def _is_factorial(text: str) -> bool:
    return text[-1] == "!" and len(text) > 1 and bool(re.match(r"[\w)}!\]]", text[-2]))


def _clean_latex(text: str) -> str:
    text = (
        text.replace("\\!", "")
        .replace("{,}", "‚")
        .replace("{.}", ".")
        .replace("{:}", ":")
        .replace("\\%", "%")
        .replace("\\&", "&")
    )
    text = re.sub(r"\\(?:\{|lbrace(?![A-Za-z]))", "⦃", text)
    text = re.sub(r"\\(?:\}|rbrace(?![A-Za-z]))", "⦄", text)
    text = text.replace("\\\\", "↵")
    text = text.replace("\\$", "＄")
    text = re.sub(r"\$(?=\s?\d[\d,]*(?:\.\d+)?(?:[^$]*|[^$]*\$\s?\d[^$]*)$)", "＄", text)
    text = DELIMITERS.sub(" ", text.replace("$", " "))
    text = SPACING.sub(" ", SIZES.sub("", text))
    text = re.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac", text)
    text = re.sub(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\(?:degree|textdegree)(?![A-Za-z])", "°", text)
    text = re.sub(r"\\boxed\s*\{", "{", text)
    return FONT_GROUP.sub(_font, text)


def _font(match: re.Match[str]) -> str:
    """A letter, number or sign means the same in every font; words stay marked as words."""
    inner = match[1].strip(" .")
    if inner in UNIT_LETTERS and re.search(r"[\d}/]\s*$", match.string[: match.start()][-4:]):
        return "⟪" + inner + "⟫"
    if len(inner) <= 1 or re.fullmatch(r"[\d.,/:+\-()⦃⦄ °%＄‚]+", inner) or "\\" in inner:
        return f" {inner} "
    return "⟪" + match[1] + "⟫"


CLOSES = {"(": ")", "{": "}", "[": "]"}


def _without_outer(text: str) -> str:
    """`text` without braces and round brackets that hold all of it, unless they may be a tuple's."""
    for first in ("(", "{", "("):
        lead = len(text) - len(text.lstrip(first))
        tail = len(text) - len(text.rstrip(CLOSES[first]))
        inner = text[lead : len(text) - tail]
        if lead and min(lead, tail) > 1 and first not in inner and CLOSES[first] not in inner:
            spare = min(lead, tail) - 1  # thousands of them are looked at once
            text = text[spare : len(text) - spare]
    while len(text) > 1 and text[0] in "({" and text[-1] == CLOSES[text[0]] and _holds_all(text):
        if text[0] == "(" and ("," in text or re.fullmatch(r"\([A-Za-z]\)", text)):
            break
        text = text[1:-1].strip(TRIMS)
    return text


def _holds_all(text: str) -> bool:
    first, last, depth = text[0], CLOSES[text[0]], 0
    for place, char in enumerate(text):
        depth += (char == first) - (char == last)
        if depth == 0:
            return place == len(text) - 1
    return False


FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth asin acos atan ln log exp sqrt cbrt abs"
    " gcd lcm max min floor ceil lg Re Im sign det".split()
)
CONSTANTS = {"pi": "pi", "infty": "oo", "infinity": "oo", "inf": "oo", "oo": "oo", "Infinity": "oo", "Pi": "pi"}
NAMES = frozenset(GREEK.values()) | {
    "varphi", "vartheta", "varepsilon", "ell", "hbar", "theta", "Theta", "Lambda", "Phi", "Psi", "Xi", "Pi", "Upsilon"
}  # fmt: skip
COMMANDS = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "le": "<=", "leq": "<=", "leqslant": "<=",
    "ge": ">=", "geq": ">=", "geqslant": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "in": "in", "cup": "∪",
    "cap": "∩", "setminus": "∖", "backslash": "∖", "lor": "or", "vee": "or", "land": "and", "wedge": "and",
    "ldots": "...", "dots": "...", "cdots": "...", "bmod": "mod", "mod": "mod", "pmod": "mod", "mid": "|", "vert": "|",
    "lvert": "|", "rvert": "|", "colon": ":", "equiv": "≡", "approx": "≈", "to": "→", "over": "over", "frac": "frac",
    "sqrt": "sqrt", "binom": "binom", "dbinom": "binom", "tbinom": "binom", "emptyset": "∅", "varnothing": "∅",
    "prime": "'", "cong": "≈", "sim": "≈", "circ": "°",
}  # fmt: skip
BRACKETS = {
    "lfloor": ("open", "⌊"), "rfloor": ("close", "⌋"), "lceil": ("open", "⌈"), "rceil": ("close", "⌉"),
    "langle": ("open", "("), "rangle": ("close", ")"), "lparen": ("open", "("), "rparen": ("close", ")"),
    "lbrack": ("open", "["), "rbrack": ("close", "]"),
}  # fmt: skip
WORD_OPS = {"or": "or", "and": "and", "mod": "mod", "in": "in", "over": "over", "union": "∪", "U": "∪"}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
).split()
TOKEN = re.compile(
    r"""(?P<space>\s+)
  | (?P<thousands>(?<![\d.,])\d{1,3}(?:(?P<mark>[,‚'\s])\d{3})(?:(?P=mark)\d{3})*+(?![\d/]|,\d|\s\d|\s/)(?:\.\d+)?)
  | (?P<sci>(?:\d+\.\d*|\.\d+)[eE][+-]?\d{1,6}(?![\d.])|\d+E[+-]?\d{1,6}(?![\d.]))
  | (?P<period>\d*\.\d*\\overline\s*\{\d+\}|\d*\.\d*\\overline\s*\d|\d*\.\d*\\bar\s*\{\d+\}|\d*\.\d*\\dot\s*\{?\d\}?(?![\d\\])|\d*\.(?:\d*)\(\d+\)(?:\.\.\.)?)
  | (?P<dots>\d*\.\d{3,}(?:\\ldots|\\dots|\\cdots|\.\.\.))
  | (?P<comma_decimal>\d+‚\d+)
  | (?P<mixed>(?<![\d./^_])\d+\s+\d+\s*/\s*\d+(?![\d.!^]))
  | (?P<num>\d+(?:\.\d+)?|\.\d+|\d+\.(?![.\w]))
  | (?P<bb>\\math(?:bb|bf)\s*\{?\s*(?P<field>[RZQNC])\s*\}?)
  | (?P<env>\\(?:begin|end)\s*\{\s*[A-Za-z]+\*?\s*\})
  | (?P<cmd>\\[A-Za-z]+)
  | (?P<text>⟪[^⟫]*⟫)
  | (?P<word>[A-Za-z]+)
  | (?P<two><=|>=|!=|\*\*|\.\.\.|==)
  | (?P<one>.)""",
    re.VERBOSE | re.DOTALL,
)


def whole_number(digits: str) -> int:
    """int() of any number of digits up to MAX_DIGITS, whatever the interpreter's limit is."""
    if len(digits) > MAX_DIGITS:
        raise NotMathError("too many digits")
    if len(digits) <= CHUNK:
        return int(digits)
    value = 0
    for start in range(0, len(digits), CHUNK):
        part = digits[start : start + CHUNK]
        value = value * 10 ** len(part) + int(part)
    return value


def decimal(text: str) -> Fraction:
    """The exact value of digits with at most one point."""
    whole, _, part = text.partition(".")
    return Fraction(whole_number((whole + part) or "0"), 10 ** len(part))


def repeating(fixed: str, period: str) -> Fraction:
    """0.3(6) as a fraction: `fixed` is "0.3", `period` is "6"."""
    places = len(fixed.partition(".")[2])
    return decimal(fixed) + Fraction(int(period), (10 ** len(period) - 1) * 10**places)
