"""Lists of numbers, sets and sorting. The level sets how many members they have."""

from __future__ import annotations

from itertools import accumulate
from random import Random

from strop.tasks.generated.problem import Problem
from strop.tasks.generated.strings import WORDS

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _said(items: list[int] | list[str]) -> str:
    return " ".join(map(str, items))


def _numbers(draw: Random, count: int, top: int = 100) -> list[int]:
    return draw.sample(range(1, top), count)


def sort_numbers(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 2 + level)
    return Problem(f"Sort from small to large: {_said(numbers)}", _said(sorted(numbers)))


def sort_words(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 1 + level)
    return Problem(f"Sort these words alphabetically: {_said(words)}", _said(sorted(words)))


def second_largest(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 2 + level)
    return Problem(f"What is the second largest of: {_said(numbers)}?", str(sorted(numbers)[-2]))


def median(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 1 + 2 * level, 20 * level)
    middle = sorted(numbers)[len(numbers) // 2]
    return Problem(f"What is the median of: {_said(numbers)}?", str(middle))


def spread(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 1 + level, 20 * level)
    return Problem(f"What is the largest minus the smallest of: {_said(numbers)}?", str(max(numbers) - min(numbers)))


def place_of(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 2 + level)
    number = draw.choice(numbers)
    return Problem(f"In which place stands {number}: {_said(numbers)}?", str(numbers.index(number) + 1))


def count_distinct(draw: Random, level: int) -> Problem:
    numbers = [draw.randrange(1, 4 + level) for _ in range(3 + level)]
    return Problem(f"How many different numbers are here: {_said(numbers)}?", str(len(set(numbers))))


def repeated(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 1 + level)
    twice = draw.choice(numbers)
    numbers.insert(draw.randrange(len(numbers) + 1), twice)
    return Problem(f"Which number is here twice: {_said(numbers)}?", str(twice))


def keep_even(draw: Random, level: int) -> Problem:
    while True:
        numbers = _numbers(draw, 2 + level)
        even = [n for n in numbers if n % 2 == 0]
        if even:
            return Problem(f"Write only the even numbers: {_said(numbers)}", _said(even))


def keep_above(draw: Random, level: int) -> Problem:
    numbers = _numbers(draw, 2 + level)
    limit = draw.randrange(10, max(numbers)) if max(numbers) > 10 else 1
    kept = [n for n in numbers if n > limit]
    return Problem(f"Write only the numbers above {limit}: {_said(numbers)}", _said(kept))


def remove_number(draw: Random, level: int) -> Problem:
    numbers = [draw.randrange(1, 10) for _ in range(2 + level)]
    gone = draw.choice(numbers)
    kept = [n for n in numbers if n != gone]
    if not kept:
        return remove_number(draw, level)
    return Problem(f"Leave out every {gone}: {_said(numbers)}", _said(kept))


def rotate(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 2 + level)
    times = draw.randrange(1, min(level, 3) + 1)
    how = "once" if times == 1 else f"{times} times"
    return Problem(f"Move the first word to the end, {how}: {_said(words)}", _said(words[times:] + words[:times]))


def running_sum(draw: Random, level: int) -> Problem:
    numbers = [draw.randrange(1, 10) for _ in range(1 + level)]
    return Problem(f"Write the running sums of: {_said(numbers)}", _said(list(accumulate(numbers))))


def every_second(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 2 + 2 * level)
    start = draw.randrange(2)
    which = ("first", "second")[start]
    return Problem(f"Write every second word, from the {which} on: {_said(words)}", _said(words[start::2]))


def take_turns(draw: Random, level: int) -> Problem:
    letters = draw.sample(LETTERS, 2 + 2 * level)
    left, right = letters[: 1 + level], letters[1 + level :]
    mixed = [letter for pair in zip(left, right, strict=True) for letter in pair]
    return Problem(f"Take turns, one from each: {_said(left)} and {_said(right)}", _said(mixed))


def _two_sets(draw: Random, level: int) -> tuple[list[str], list[str], list[str]]:
    """Both, and what they share, which is never nothing."""
    letters = draw.sample(LETTERS, 3 + 2 * level)
    num_shared = draw.randrange(1, 1 + level) if level > 1 else 1
    shared, rest = letters[:num_shared], letters[num_shared:]
    cut = len(rest) // 2
    left, right = shared + rest[:cut], shared + rest[cut:]
    draw.shuffle(left)
    draw.shuffle(right)
    return left, right, shared


def in_both(draw: Random, level: int) -> Problem:
    left, right, shared = _two_sets(draw, level)
    return Problem(
        f"Which letters of {_said(left)} are also in {_said(right)}?", _said([x for x in left if x in shared])
    )


def only_in_first(draw: Random, level: int) -> Problem:
    left, right, _ = _two_sets(draw, level)
    kept = [x for x in left if x not in right]
    return Problem(f"Which letters of {_said(left)} are not in {_said(right)}?", _said(kept))


def size_of_union(draw: Random, level: int) -> Problem:
    left, right, shared = _two_sets(draw, level)
    count = len(left) + len(right) - len(shared)
    return Problem(f"How many different letters have {_said(left)} and {_said(right)} together?", str(count))


def is_subset(draw: Random, level: int) -> Problem:
    whole = draw.sample(LETTERS, 3 + level)
    part = draw.sample(whole, 1 + level)
    holds = draw.random() < 0.5
    if not holds:
        part[draw.randrange(len(part))] = draw.choice([x for x in LETTERS if x not in whole])
    return Problem(f"Are all of {_said(part)} in {_said(whole)}? Yes or no.", "yes" if holds else "no")
