"""Units, money, fractions and roots of numbers. The level sets the size of the numbers."""

from __future__ import annotations

import math
from random import Random

from strop.tasks.generated.problem import Problem

UNITS = (
    ("cm", "m", 100),
    ("mm", "cm", 10),
    ("m", "km", 1000),
    ("g", "kg", 1000),
    ("ml", "l", 1000),
    ("kg", "t", 1000),
)
TIMES = (("seconds", "minutes", 60), ("minutes", "hours", 60), ("hours", "days", 24), ("days", "weeks", 7))
COINS = (1, 2, 5, 10, 20, 50)


def convert_units(draw: Random, level: int) -> Problem:
    small, large, factor = draw.choice(UNITS)
    count = draw.randrange(2, (20, 50, 100, 300, 1000)[level - 1])
    if level >= 3 and draw.random() < 0.5:
        return Problem(f"How many {large} are {count * factor} {small}?", str(count))
    rest = draw.randrange(1, factor) if level >= 4 else 0
    more = f" and {rest} {small}" if rest else ""
    return Problem(f"How many {small} are {count} {large}{more}?", str(count * factor + rest))


def convert_times(draw: Random, level: int) -> Problem:
    small, large, factor = draw.choice(TIMES)
    count = draw.randrange(2, (10, 15, 20, 40, 100)[level - 1])
    rest = draw.randrange(1, factor)
    if level == 1 and draw.random() < 0.5:
        return Problem(f"How many {small} are {count} {large}?", str(count * factor))
    if level >= 3 and draw.random() < 0.5:
        return Problem(f"How many whole {large} are in {count * factor + rest} {small}?", str(count))
    return Problem(f"How many {small} are {count} {large} and {rest} {small}?", str(count * factor + rest))


def larger_quantity(draw: Random, level: int) -> Problem:
    small, large, factor = draw.choice(UNITS)
    count = draw.randrange(2, (10, 20, 50, 100, 300)[level - 1])
    other = max(1, count * factor + draw.choice((-1, 1)) * draw.randrange(1, factor * (4 if level < 3 else 1)))
    a, b = f"{count} {large}", f"{other} {small}"
    first, second = (a, b) if draw.random() < 0.5 else (b, a)
    return Problem(f"Which is more: {first} or {second}?", a if count * factor > other else b)


def coins(draw: Random, level: int) -> Problem:
    kinds = sorted(draw.sample(COINS, min(1 + level, 5)))
    counts = [draw.randrange(1, 3 + level) for _ in kinds]
    said = " and ".join(f"{count} of {kind}" for kind, count in zip(kinds, counts, strict=True))
    return Problem(
        f"Coins: {said}. How much are they together?", str(sum(map(math.prod, zip(kinds, counts, strict=True))))
    )


def change(draw: Random, level: int) -> Problem:
    paid = draw.choice(((10, 20), (20, 50), (50, 100), (100, 200), (200, 500))[level - 1])
    count = draw.randrange(1, 2 + level)
    price = draw.randrange(1, paid // count)
    things = f"{count} cups at {price} each" if count > 1 else f"a cup for {price}"
    return Problem(f"You buy {things} and pay {paid}. What is the change?", str(paid - count * price))


def average(draw: Random, level: int) -> Problem:
    count, mean = 1 + level, draw.randrange(5, (20, 30, 50, 100, 300)[level - 1])
    offsets = [draw.randrange(-4, 5) for _ in range(count - 1)]
    numbers = [mean + offset for offset in (*offsets, -sum(offsets))]
    if min(numbers) < 1:
        return average(draw, level)
    return Problem(f"What is the average of: {' '.join(map(str, numbers))}?", str(mean))


def percentage(draw: Random, level: int) -> Problem:
    percent = draw.choice(
        ((10, 50, 100), (10, 20, 25, 50), (5, 10, 20, 40, 75), (5, 15, 35, 60), range(1, 100))[level - 1]
    )
    step = 100 // math.gcd(percent, 100)
    number = step * draw.randrange(1, max(3, (200, 300, 500, 1000, 3000)[level - 1] // step))
    return Problem(f"What is {percent}% of {number}?", str(number * percent // 100))


def fraction_of(draw: Random, level: int) -> Problem:
    bottom = draw.randrange(2, (4, 6, 9, 13, 20)[level - 1])
    top = 1 if level < 2 else draw.randrange(1, bottom)
    number = bottom * draw.randrange(2, (30, 30, 30, 50, 100)[level - 1])
    return Problem(f"What is {top}/{bottom} of {number}?", str(number * top // bottom))


def reduce_fraction(draw: Random, level: int) -> Problem:
    top = (7, 9, 12, 20, 40)[level - 1]
    a, b = sorted((draw.randrange(1, top), draw.randrange(2, top + 1)))
    factor, common = draw.randrange(2, 6 + 2 * level), math.gcd(a, b)
    if a == b:
        return reduce_fraction(draw, level)
    return Problem(f"Reduce the fraction {a * factor}/{b * factor}.", f"{a // common}/{b // common}")


def larger_fraction(draw: Random, level: int) -> Problem:
    top = (5, 7, 10, 15, 25)[level - 1]
    (a, b), (c, d) = (sorted(draw.sample(range(1, top + 1), 2)) for _ in range(2))
    if a * d == c * b:
        return larger_fraction(draw, level)
    return Problem(f"Which is larger: {a}/{b} or {c}/{d}?", f"{a}/{b}" if a * d > c * b else f"{c}/{d}")


def round_number(draw: Random, level: int) -> Problem:
    unit = draw.choice((10, 100)[: 1 if level == 1 else 2]) * (10 if level >= 4 else 1)
    number = draw.randrange(unit + 1, (300, 1000, 5000, 30000, 300000)[level - 1])
    if number % unit == unit // 2:
        number += 1
    return Problem(f"Round {number} to the nearest {unit}.", str((number + unit // 2) // unit * unit))


def power(draw: Random, level: int) -> Problem:
    exponent = draw.randrange(2, 3 + (level + 1) // 2)
    number = draw.randrange(2, (61, 61, 41, 41, 61)[level - 1])
    if number**exponent > 10 ** (3 + level):
        return power(draw, level)
    return Problem(f"What is {number} to the power of {exponent}?", str(number**exponent))


def root(draw: Random, level: int) -> Problem:
    number = draw.randrange(2, (61, 81, 101, 201, 401)[level - 1])
    return Problem(f"What is the square root of {number**2}?", str(number))


def common_multiple(draw: Random, level: int) -> Problem:
    top = (13, 17, 21, 31, 61)[level - 1]
    a, b = draw.sample(range(2, top), 2)
    return Problem(f"What is the least common multiple of {a} and {b}?", str(math.lcm(a, b)))


def prime(draw: Random, level: int) -> Problem:
    top = (100, 150, 300, 1000, 3000)[level - 1]
    wanted = draw.random() < 0.5
    while True:
        number = draw.randrange(2, top)
        if all(number % d for d in range(2, math.isqrt(number) + 1)) == wanted:
            return Problem(f"Is {number} a prime number? Yes or no.", "yes" if wanted else "no")


def divisible(draw: Random, level: int) -> Problem:
    divisor = draw.randrange(2, (6, 8, 10, 12, 20)[level - 1])
    number = divisor * draw.randrange(2, (20, 30, 50, 80, 200)[level - 1])
    holds = draw.random() < 0.5
    number += 0 if holds else draw.randrange(1, divisor)
    return Problem(f"Can {number} be divided by {divisor} without remainder? Yes or no.", "yes" if holds else "no")


def decimal_sum(draw: Random, level: int) -> Problem:
    unit = 10 if level < 3 else 100
    top = (50, 200, 1000, 5000, 50000)[level - 1]
    a, b = draw.randrange(1, top), draw.randrange(1, top)
    places = 1 if unit == 10 else 2
    return Problem(f"What is {a / unit:.{places}f} + {b / unit:.{places}f}?", f"{(a + b) / unit:.{places}f}")


def plus_and_minus(draw: Random, level: int) -> Problem:
    top = (20, 50, 100, 500, 2000)[level - 1]
    a, b, c = (draw.randrange(1, top) for _ in range(3))
    c = min(c, a + b - 1) or 1
    return Problem(f"What is {a} + {b} - {c}?", str(a + b - c))


def nearest(draw: Random, level: int) -> Problem:
    numbers = draw.sample(range(1, 40 * level), 1 + level)
    target = draw.randrange(1, 40 * level)
    distances = sorted(abs(n - target) for n in numbers)
    if distances[0] == distances[1]:
        return nearest(draw, level)
    answer = min(numbers, key=lambda n: abs(n - target))
    return Problem(f"Which is nearest to {target}: {', '.join(map(str, numbers))}?", str(answer))
