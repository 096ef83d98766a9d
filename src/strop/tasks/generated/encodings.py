"""Codes for letters and numbers. The level sets how long the message is."""

from __future__ import annotations

from itertools import groupby
from random import Random

from strop.tasks.generated.problem import Problem

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MORSE = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
).split()
SPELLING = (
    "alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa quebec romeo "
    "sierra tango uniform victor whiskey xray yankee zulu"
).split()
ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
TOPS = (60, 100, 400, 1000, 4000)


def _letters(draw: Random, count: int) -> list[str]:
    return draw.choices(LETTERS, k=count)


def to_binary(draw: Random, level: int) -> Problem:
    number = draw.randrange(2, (64, 128, 256, 512, 2048)[level - 1])
    return Problem(f"Write {number} as a binary number.", f"{number:b}")


def from_binary(draw: Random, level: int) -> Problem:
    number = draw.randrange(2, (64, 128, 256, 512, 2048)[level - 1])
    return Problem(f"Which number is binary {number:b}?", str(number))


def hexadecimal(draw: Random, level: int) -> Problem:
    number = draw.randrange(10, (50, 100, 256, 1000, 4096)[level - 1])
    if "e" in f"{number:x}":  # 1e3 would be read as a thousand
        return hexadecimal(draw, level)
    if draw.random() < 0.5:
        return Problem(f"Which number is hexadecimal {number:x}?", str(number))
    return Problem(f"Write {number} as a hexadecimal number.", f"{number:x}")


def _roman(number: int) -> str:
    said = ""
    for value, sign in ROMAN:
        said += sign * (number // value)
        number %= value
    return said


def to_roman(draw: Random, level: int) -> Problem:
    number = draw.randrange(1, TOPS[level - 1])
    return Problem(f"Write {number} as a Roman number.", _roman(number))


def from_roman(draw: Random, level: int) -> Problem:
    number = draw.randrange(1, TOPS[level - 1])
    return Problem(f"Which number is the Roman {_roman(number)}?", str(number))


def number_words(number: int) -> str:
    """`number`, from 0 to 9999, in words: two thousand three hundred forty-five."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f"-{ONES[number % 10]}" if number % 10 else "")
    unit, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = number % unit
    return f"{number_words(number // unit)} {name}" + (f" {number_words(rest)}" if rest else "")


def to_words(draw: Random, level: int) -> Problem:
    number = draw.randrange((0, 0, 0, 100, 1000)[level - 1], TOPS[level - 1])
    return Problem(f"Write {number} in words.", number_words(number))


def from_words(draw: Random, level: int) -> Problem:
    number = draw.randrange((0, 0, 0, 100, 1000)[level - 1], TOPS[level - 1])
    return Problem(f"Write in digits: {number_words(number)}", str(number))


def letter_numbers(draw: Random, level: int) -> Problem:
    letters = _letters(draw, 1 + level)
    return Problem(
        f"With a = 1, b = 2 and so on, write as numbers: {' '.join(letters)}",
        " ".join(str(ord(x) - 96) for x in letters),
    )


def number_letters(draw: Random, level: int) -> Problem:
    letters = _letters(draw, 1 + level)
    numbers = " ".join(str(ord(x) - 96) for x in letters)
    return Problem(f"With a = 1, b = 2 and so on, write as letters: {numbers}", " ".join(letters))


def shifted(draw: Random, level: int) -> Problem:
    letters, step = _letters(draw, 1 + level), draw.randrange(1, 1 + level)
    moved = " ".join(LETTERS[(LETTERS.index(x) + step) % 26] for x in letters)
    return Problem(f"Move each letter {step} on in the alphabet, a after z: {' '.join(letters)}", moved)


def swapped_alphabet(draw: Random, level: int) -> Problem:
    letters = _letters(draw, 1 + level)
    return Problem(
        f"Swap a with z, b with y and so on: {' '.join(letters)}",
        " ".join(LETTERS[25 - LETTERS.index(x)] for x in letters),
    )


def from_morse(draw: Random, level: int) -> Problem:
    letters = _letters(draw, 1 + level)
    code = " ".join(MORSE[LETTERS.index(x)] for x in letters)
    return Problem(f"Read this Morse code, letter by letter: {code}", " ".join(letters))


def spelling_alphabet(draw: Random, level: int) -> Problem:
    letters = _letters(draw, 1 + level)
    said = " ".join(SPELLING[LETTERS.index(x)] for x in letters)
    if level >= 3 and draw.random() < 0.5:
        return Problem(f"Spell with alfa, bravo, charlie and so on: {' '.join(letters)}", said)
    return Problem(f"Which letters are spelled: {said}?", " ".join(letters))


def _runs(draw: Random, level: int) -> list[str]:
    found: list[str] = []
    for _ in range(1 + level):
        found += [draw.choice([x for x in LETTERS if not found or x != found[-1]])] * draw.randrange(1, 4)
    return found


def run_lengths(draw: Random, level: int) -> Problem:
    letters = _runs(draw, level)
    code = " ".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters))
    return Problem(f"Write runs as count and letter (a a b is 2a 1b): {' '.join(letters)}", code)


def runs_written_out(draw: Random, level: int) -> Problem:
    letters = _runs(draw, level)
    code = " ".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters))
    return Problem(f"Write out (2a 1b is a a b): {code}", " ".join(letters))


def check_digit(draw: Random, level: int) -> Problem:
    digits = [draw.randrange(10) for _ in range(1 + level)]
    return Problem(
        f"What is the last digit of the sum of these digits: {' '.join(map(str, digits))}?", str(sum(digits) % 10)
    )


def code_table(draw: Random, level: int) -> Problem:
    letters = draw.sample(LETTERS, 2 + level)
    signs = draw.sample(LETTERS, 2 + level)
    table = dict(zip(letters, signs, strict=True))
    message = draw.choices(letters, k=1 + level)
    code = ", ".join(f"{a}={b}" for a, b in table.items())
    return Problem(f"Code: {code}. Write in code: {' '.join(message)}", " ".join(table[x] for x in message))
