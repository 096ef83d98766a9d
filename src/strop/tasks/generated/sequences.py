"""Sequences and patterns. The level sets the steps or the length of what repeats."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from strop.tasks.generated.problem import Problem

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sum_of_two_before(draw: Random, level: int) -> Problem:
    top = (15, 20, 30, 50, 100)[level - 1]
    numbers = [draw.randrange(1, top), draw.randrange(1, top)]
    while len(numbers) < 5 + level // 2:
        numbers.append(numbers[-1] + numbers[-2])
    shown = " ".join(map(str, numbers[:-1]))
    return Problem(f"Each number is the sum of the two before: {shown}. What comes next?", str(numbers[-1]))


def gap_in_sequence(draw: Random, level: int) -> Problem:
    start, step = draw.randrange(1, 15 * level), draw.randrange(1, 3 + 3 * level)
    numbers = [start + step * i for i in range(5)]
    place = draw.randrange(1, 4)
    shown = " ".join("?" if i == place else str(n) for i, n in enumerate(numbers))
    return Problem(f"Which number is missing: {shown}?", str(numbers[place]))


def pattern(draw: Random, level: int) -> Problem:
    unit = draw.choices(LETTERS, k=1 + level)
    if len(set(unit)) < 2:
        return pattern(draw, level)
    length = 2 * len(unit) + draw.randrange(len(unit))
    shown = [unit[i % len(unit)] for i in range(length)]
    return Problem(f"What comes next: {' '.join(shown)}?", unit[length % len(unit)])


def letters_in_steps(draw: Random, level: int) -> Problem:
    step = draw.randrange(1, 3 + level)
    back = level >= 3 and draw.random() < 0.5
    place = draw.randrange(26 - 4 * step) if 4 * step < 26 else 0
    places = [place + step * i for i in range(5) if place + step * i < 26]
    letters = [LETTERS[p] for p in (places[::-1] if back else places)]
    return Problem(f"Which letter comes next: {' '.join(letters[:-1])}?", letters[-1])


def count_down(draw: Random, level: int) -> Problem:
    low, length = draw.randrange(1, (20, 50, 100, 500, 1000)[level - 1]), draw.randrange(2, 4 + level)
    numbers = list(range(low, low + length + 1))
    if draw.random() < 0.5:
        numbers = numbers[::-1]
    return Problem(f"Count from {numbers[0]} to {numbers[-1]}.", " ".join(map(str, numbers)))


def count_in_steps(draw: Random, level: int) -> Problem:
    start, step = draw.randrange(1, 20 * level), draw.randrange(2, 7 + 2 * level)
    numbers = [start + step * i for i in range(2 + level)]
    question = f"Start at {start} and add {step} each time. Write {len(numbers)} numbers."
    return Problem(question, " ".join(map(str, numbers)))


def nth_term(draw: Random, level: int) -> Problem:
    start, step = draw.randrange(1, 10), draw.randrange(2, 3 + 2 * level)
    place = draw.randrange(4, 6 + 4 * level)
    shown = " ".join(str(start + step * i) for i in range(3))
    return Problem(f"The sequence {shown} goes on like this. What is number {place}?", str(start + step * (place - 1)))


def next_power(draw: Random, level: int) -> Problem:
    start, factor = draw.randrange(1, 20 * level), draw.randrange(2, 4 + level)
    numbers = [start * factor**i for i in range(4)]
    return Problem(
        f"Each number is {factor} times the one before: {' '.join(map(str, numbers[:3]))}. Next?", str(numbers[3])
    )


def two_sequences(draw: Random, level: int) -> Problem:
    (a, b), (c, d) = ((draw.randrange(1, 10 * level), draw.randrange(1, 2 + 2 * level)) for _ in range(2))
    numbers = [(a + b * (i // 2)) if i % 2 == 0 else (c + d * (i // 2)) for i in range(7)]
    shown = " ".join(map(str, numbers[:-1]))
    return Problem(f"Two sequences take turns: {shown}. What comes next?", str(numbers[-1]))


def count_rises(draw: Random, level: int) -> Problem:
    numbers = [draw.randrange(1, 10 * level) for _ in range(3 + level)]
    rises = sum(b > a for a, b in pairwise(numbers))
    return Problem(f"How often is a number larger than the one before it: {' '.join(map(str, numbers))}?", str(rises))
