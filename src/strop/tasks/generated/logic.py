"""Tables and small logic."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from strop.tasks.generated.problem import Problem

NAMES = ("Ann", "Ben", "Cid", "Dan", "Eva", "Flo", "Gus", "Hal", "Ida", "Jon", "Kim", "Leo")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
KINDS = {
    "fruit": ("apple", "pear", "plum", "grape", "cherry", "lemon"),
    "animal": ("dog", "cat", "horse", "cow", "sheep", "goat"),
    "colour": ("red", "blue", "green", "yellow", "black", "white"),
    "tool": ("hammer", "saw", "drill", "wrench", "pliers", "chisel"),
}


def _table(draw: Random, rows: int, top: int) -> dict[str, int]:
    names = draw.sample(NAMES, rows)
    return dict(zip(names, draw.sample(range(1, top), rows), strict=True))


def _shown(table: dict[str, int]) -> str:
    return "; ".join(f"{name} {value}" for name, value in table.items())


def table_lookup(draw: Random, level: int) -> Problem:
    table = _table(draw, 2 + level, 100)
    name = draw.choice(list(table))
    return Problem(f"Points: {_shown(table)}. How many points has {name}?", str(table[name]))


def table_best(draw: Random, level: int) -> Problem:
    table = _table(draw, 2 + level, 100)
    return Problem(f"Points: {_shown(table)}. Who has the most points?", max(table, key=table.__getitem__))


def table_difference(draw: Random, level: int) -> Problem:
    table = _table(draw, 1 + level, 10 + 10 * level)
    a, b = sorted(draw.sample(list(table), 2), key=table.__getitem__)
    question = f"Points: {_shown(table)}. How many points more has {b} than {a}?"
    return Problem(question, str(table[b] - table[a]))


def table_count(draw: Random, level: int) -> Problem:
    table = _table(draw, 2 + level, 50)
    limit = draw.randrange(10, 40)
    count = sum(value > limit for value in table.values())
    return Problem(f"Points: {_shown(table)}. How many have more than {limit}?", str(count))


def parity(draw: Random, level: int) -> Problem:
    numbers = [draw.randrange(1, 10 ** min(level, 3)) for _ in range(1 + level)]
    answer = "even" if sum(numbers) % 2 == 0 else "odd"
    return Problem(f"Is {' + '.join(map(str, numbers))} even or odd?", answer)


def comparison(draw: Random, level: int) -> Problem:
    top = (30, 100, 300, 1000, 5000)[level - 1]
    a, b, c = (draw.randrange(1, top) for _ in range(3))
    return Problem(f"Is {a} + {b} greater than {c + top // 2}? Yes or no.", "yes" if a + b > c + top // 2 else "no")


def truth(draw: Random, level: int) -> Problem:
    value = draw.random() < 0.5
    expression = str(value).lower()
    for _ in range(level):
        other, negated, joined_by = draw.random() < 0.5, draw.random() < 0.5, draw.choice(("and", "or"))
        expression = f"({expression}) {joined_by} {'not ' if negated else ''}{str(other).lower()}"
        right = other != negated
        value = value and right if joined_by == "and" else value or right
    return Problem(f"What is: {expression}? True or false.", str(value).lower())


def tallest(draw: Random, level: int) -> Problem:
    names = draw.sample(NAMES, 2 + level)
    facts = [f"{a} is taller than {b}" for a, b in pairwise(names)]
    draw.shuffle(facts)
    which = draw.choice(("tallest", "shortest"))
    return Problem(f"{'. '.join(facts)}. Who is the {which}?", names[0] if which == "tallest" else names[-1])


def weekday(draw: Random, level: int) -> Problem:
    day, step = draw.randrange(7), draw.randrange(1, (4, 7, 14, 30, 100)[level - 1])
    if draw.random() < 0.5:
        return Problem(f"Which day is {step} days after {DAYS[day]}?", DAYS[(day + step) % 7])
    return Problem(f"Which day is {step} days before {DAYS[day]}?", DAYS[(day - step) % 7])


def odd_one_out(draw: Random, level: int) -> Problem:
    most, other = draw.sample(list(KINDS), 2)
    words = [*draw.sample(KINDS[most], 1 + level), draw.choice(KINDS[other])]
    odd = words[-1]
    draw.shuffle(words)
    return Problem(f"Which word does not fit: {', '.join(words)}?", odd)
