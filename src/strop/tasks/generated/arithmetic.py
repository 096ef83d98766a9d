"""Arithmetic. The level sets the size of the numbers or the length of the expression."""

from __future__ import annotations

import math
from random import Random

from strop.tasks.generated.problem import Problem


def sum_of_two(draw: Random, level: int) -> Problem:
    top = (30, 100, 500, 2000, 10000)[level - 1]
    a, b = draw.randrange(2, top), draw.randrange(2, top)
    return Problem(f"What is {a} + {b}?", str(a + b))


def difference(draw: Random, level: int) -> Problem:
    top = (30, 100, 500, 2000, 10000)[level - 1]
    b, a = sorted((draw.randrange(1, top), draw.randrange(1, top)))
    return Problem(f"What is {a} - {b}?", str(a - b))


def product(draw: Random, level: int) -> Problem:
    left, right = ((10, 10), (20, 10), (50, 10), (100, 20), (100, 100))[level - 1]
    a, b = draw.randrange(2, left), draw.randrange(2, right)
    a, b = (a, b) if draw.random() < 0.5 else (b, a)
    return Problem(f"What is {a} * {b}?", str(a * b))


def sum_of_list(draw: Random, level: int) -> Problem:
    numbers = [draw.randrange(1, 10) for _ in range(2 + level)]
    return Problem(f"Add these numbers: {' '.join(map(str, numbers))}", str(sum(numbers)))


def remainder(draw: Random, level: int) -> Problem:
    top, bottom = ((30, 6), (60, 8), (100, 10), (300, 12), (1000, 20))[level - 1]
    a, b = draw.randrange(5, top), draw.randrange(2, bottom)
    return Problem(f"What is the remainder of {a} divided by {b}?", str(a % b))


def division(draw: Random, level: int) -> Problem:
    top, bottom = ((10, 6), (12, 10), (30, 10), (60, 20), (100, 50))[level - 1]
    quotient, divisor = draw.randrange(1, top), draw.randrange(2, bottom)
    return Problem(f"What is {quotient * divisor} / {divisor}?", str(quotient))


def common_divisor(draw: Random, level: int) -> Problem:
    top = (13, 25, 50, 100, 300)[level - 1]
    a, b = draw.randrange(2, top), draw.randrange(2, top)
    return Problem(f"What is the greatest common divisor of {a} and {b}?", str(math.gcd(a, b)))


def largest(draw: Random, level: int) -> Problem:
    numbers = draw.sample(range(10, (100, 300, 1000, 3000, 10000)[level - 1]), 2 + level)
    return Problem(f"Which of these numbers is the largest: {', '.join(map(str, numbers))}?", str(max(numbers)))


def digit_sum(draw: Random, level: int) -> Problem:
    number = draw.randrange(10**level, 10 ** (level + 1))
    return Problem(f"What is the sum of the digits of {number}?", str(sum(map(int, str(number)))))


def brackets(draw: Random, level: int) -> Problem:
    top = (6, 10, 15, 25, 50)[level - 1]
    a, b, c = (draw.randrange(2, top) for _ in range(3))
    if draw.random() < 0.5:
        return Problem(f"What is ({a} + {b}) * {c}?", str((a + b) * c))
    return Problem(f"What is {a} + {b} * {c}?", str(a + b * c))


def next_in_sequence(draw: Random, level: int) -> Problem:
    start, step = draw.randrange(1, 10 * level), draw.randrange(2, 2 + 3 * level)
    if level >= 3 and draw.random() < 0.5:
        first = draw.randrange(1, 5 * level)
        numbers = [first * 2**i for i in range(5)]
    else:
        numbers = [start + step * i for i in range(5)]
    return Problem(f"What number comes next: {', '.join(map(str, numbers[:4]))}?", str(numbers[4]))


def missing_number(draw: Random, level: int) -> Problem:
    top = (15, 40, 100, 500, 2000)[level - 1]
    a, b = draw.randrange(1, top), draw.randrange(1, top)
    return Problem(f"{a} + x = {a + b}. What is x?", str(b))
