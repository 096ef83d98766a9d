"""Units of measure: spellings, dimensions and exact sizes. A unit that only one side names does not matter."""

from __future__ import annotations

import re
from fractions import Fraction

F = Fraction
LENGTHS = {
    "mm": F(1, 1000), "cm": F(1, 100), "dm": F(1, 10), "m": F(1), "km": F(1000), "in": F(254, 10000),
    "ft": F(3048, 10000), "yd": F(9144, 10000), "mi": F(1609344, 1000),
}  # fmt: skip
SIZES: dict[str, tuple[str, Fraction]] = {
    **{name: ("length", size) for name, size in LENGTHS.items()},
    "mg": ("mass", F(1, 1000)), "g": ("mass", F(1)), "kg": ("mass", F(1000)),
    "lb": ("pounds", F(16)), "oz": ("pounds", F(1)), "ton": ("ton", F(1)),
    "ms": ("time", F(1, 1000)), "s": ("time", F(1)), "min": ("time", F(60)), "h": ("time", F(3600)),
    "day": ("time", F(86400)), "week": ("time", F(604800)), "month": ("months", F(1)), "year": ("months", F(12)),
    "ml": ("volume", F(1, 1000)), "cl": ("volume", F(1, 100)), "l": ("volume", F(1)),
    "cent": ("money", F(1)), "$": ("money", F(100)), "€": ("euro", F(1)), "£": ("pound sterling", F(1)),
    "¥": ("yen", F(1)), "₹": ("rupee", F(1)), "°": ("angle", F(1)), "°C": ("celsius", F(1)), "°F": ("fahrenheit", F(1)),
    "rad": ("radian", F(1)), "mph": ("mph", F(1)), "%": ("percent", F(1)),
    "unit": ("unit", F(1)), "dozen": ("dozen", F(1)),
}  # fmt: skip
SPELLINGS = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre cms", "dm": "decimeter decimetre",
    "m": "meter metre", "km": "kilometer kilometre kms", "in": "inch inches", "ft": "foot feet", "yd": "yard yds",
    "mi": "mile", "mg": "milligram", "g": "gram gm gms", "kg": "kilogram kilo kgs", "lb": "pound lbs",
    "oz": "ounce", "ton": "ton tonne", "ms": "millisecond", "s": "second sec secs", "min": "minute mins",
    "h": "hour hr hrs", "day": "day", "week": "week", "month": "month", "year": "year yr yrs",
    "ml": "milliliter millilitre mL", "cl": "centiliter cL", "l": "liter litre L", "cent": "cent ¢",
    "$": "dollar USD usd buck", "€": "euro EUR", "£": "GBP", "°": "degree deg", "°C": "celsius", "°F": "fahrenheit",
    "rad": "radian", "mph": "mph", "%": "percent", "unit": "unit", "dozen": "dozen", "¥": "yen", "₹": "rupee",
}  # fmt: skip
NAMED = {
    spelling: unit for unit, words in SPELLINGS.items() for word in words.split() for spelling in (word, word + "s")
} | {unit: unit for unit in SIZES}
UNIT_WORDS = frozenset(w for w in NAMED if len(w) > 1 and w not in ("in", "ins")) | {
    "square", "cubic", "sq", "per", "inches", "km", "Hz", "kmh", "km/h", "N", "J", "cu"
}  # fmt: skip
CURRENCY = frozenset({"USD", "EUR", "GBP"})
Unit = tuple[tuple[str, int], ...] | str  # known: (unit, power) in order; else the words


def read_unit(text: str) -> Unit | None:
    """The unit that words and signs spell: (("cm", 2),) for `square centimeters`, words for one not known; None for
    nothing. `of` and articles do not count."""
    text = re.sub(r"\^\s*\{?\s*(-?\d)\s*\}?", r"^\1", text.replace("\\", " "))
    plain = " ".join(re.sub(r"[{}()⟪⟫.]", " ", text).split()).replace(" ^", "^")
    if not plain:
        return None
    if re.search(r"degrees?\s+[CF]|°\s*[CF]|degrees? (?:celsius|fahrenheit)", plain, re.I):
        return (("°C" if re.search(r"c(?:elsius)?$", plain, re.I) else "°F", 1),)
    known = _known(plain)
    return known if known is not None else " ".join(_singular(w) for w in plain.lower().split())


def _known(plain: str) -> Unit | None:
    powers: dict[str, int] = {}
    power, sign = 1, 1
    for word in re.findall(r"/|\*|[^\s/*]+", plain):
        if word in ("/", "per"):
            sign = -1
        elif word in ("square", "sq", "cubic", "cu", "squared", "cubed"):
            if word in ("squared", "cubed") and powers:
                powers[next(reversed(powers))] *= 2 if word == "squared" else 3
            else:
                power = 2 if word.startswith("sq") else 3
        elif word not in ("*", "of", "a", "the"):
            stem, _, raised = word.partition("^")
            unit = NAMED.get(stem) or NAMED.get(stem.lower())
            if unit is None or (raised and not re.fullmatch(r"-?\d", raised)):
                return None
            powers[unit] = powers.get(unit, 0) + sign * (int(raised) if raised else power)
            power, sign = 1, 1
    if "mph" in powers:
        powers = {"mi": 1, "h": -1} if powers == {"mph": 1} else powers
    return tuple(sorted(powers.items())) or None


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def ratio(left: Unit, right: Unit) -> Fraction | None:
    """How many `right` one `left` is: 100 for m and cm, 1 for the same words, None for units of different things."""
    if left == right:
        return F(1)
    if isinstance(left, str) or isinstance(right, str):
        generic = ("unit", "units", (("unit", 1),))
        return F(1) if left in generic or right in generic or _square_units(left, right) else None
    sizes = []
    for unit in (left, right):
        size, dimension = F(1), dict[str, int]()
        for name, power in unit:
            kind, one = SIZES[name]
            size *= one**power
            dimension[kind] = dimension.get(kind, 0) + power
        sizes.append((size, dimension))
    if sizes[0][1] == sizes[1][1]:
        return sizes[0][0] / sizes[1][0]
    named = [{name for name, _ in unit} for unit in (left, right)]
    return F(1) if {"unit"} in named else None


def _square_units(left: Unit, right: Unit) -> bool:
    return False
