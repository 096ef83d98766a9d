"""Words and their letters. The level sets how many there are."""

from __future__ import annotations

from random import Random

from strop.tasks.generated.problem import Problem
from strop.tasks.generated.strings import WORDS

VOWELS = "aeiou"
CONSONANTS = "bcdfghjklmnpqrstvwxyz"


def first_letters(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 1 + level)
    return Problem(f"Write the first letter of each word: {' '.join(words)}", " ".join(w[0] for w in words))


def count_words(draw: Random, level: int) -> Problem:
    words = draw.choices(WORDS, k=draw.randrange(2, 4 + 2 * level))
    return Problem(f"How many words are here: {' '.join(words)}?", str(len(words)))


def count_vowels(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, level)
    count = sum(letter in VOWELS for word in words for letter in word)
    return Problem(f"How many vowels (a e i o u) has: {' '.join(' '.join(word) for word in words)}?", str(count))


def drop_vowels(draw: Random, level: int) -> Problem:
    letters = [draw.choice(VOWELS if draw.random() < 0.4 else CONSONANTS) for _ in range(2 + level)]
    kept = [x for x in letters if x not in VOWELS]
    if not kept:
        return drop_vowels(draw, level)
    return Problem(f"Leave out the vowels: {' '.join(letters)}", " ".join(kept))


def double_letters(draw: Random, level: int) -> Problem:
    letters = draw.choices(VOWELS + CONSONANTS, k=1 + level)
    return Problem(f"Write each letter twice: {' '.join(letters)}", " ".join(x for x in letters for _ in range(2)))


def replace_letter(draw: Random, level: int) -> Problem:
    old, new, *others = draw.sample(VOWELS + CONSONANTS, 5)
    letters = [draw.choice([old, *others]) for _ in range(2 + level)]
    letters[draw.randrange(len(letters))] = old
    changed = [new if x == old else x for x in letters]
    return Problem(f"Replace each {old} by {new}: {' '.join(letters)}", " ".join(changed))


def palindrome(draw: Random, level: int) -> Problem:
    half = draw.choices(VOWELS + CONSONANTS, k=1 + level)
    word = half + half[::-1][draw.randrange(2) :]
    holds = draw.random() < 0.5
    if not holds:
        place = draw.randrange(level // 2 + 1)
        word[place] = draw.choice([x for x in VOWELS + CONSONANTS if x != word[place]])
        holds = word == word[::-1]
    return Problem(f"Does this read the same backwards: {' '.join(word)}? Yes or no.", "yes" if holds else "no")


def longest_word(draw: Random, level: int) -> Problem:
    sizes = draw.sample(range(2, 9), min(2 + level, 6))
    words = ["".join(draw.choice(VOWELS if i % 2 else CONSONANTS) for i in range(size)) for size in sizes]
    return Problem(f"Which word is the longest: {', '.join(words)}?", max(words, key=len))


def same_start(draw: Random, level: int) -> Problem:
    start = "".join(draw.choices(VOWELS + CONSONANTS, k=draw.randrange(1, 2 + level)))
    a, b = draw.sample(CONSONANTS, 2)
    words = [start + last + "".join(draw.choices(VOWELS, k=2)) for last in (a, b)]
    question = f"With which letters do both begin: {' '.join(words[0])} and {' '.join(words[1])}?"
    return Problem(question, " ".join(start))


def swap_ends(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 2 + level)
    return Problem(
        f"Swap the first and the last word: {' '.join(words)}", " ".join([words[-1], *words[1:-1], words[0]])
    )


def next_word(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 3 + level)
    place = draw.randrange(len(words) - 1)
    where, answer = ("after", words[place + 1]) if draw.random() < 0.5 else ("before", words[place])
    named = words[place] if where == "after" else words[place + 1]
    return Problem(f"Which word stands {where} {named}: {' '.join(words)}?", answer)


def count_word(draw: Random, level: int) -> Problem:
    some = draw.sample(WORDS, 2 + level // 2)
    words = [draw.choice(some) for _ in range(2 + 2 * level)]
    return Problem(f"How often is {some[0]} here: {' '.join(words)}?", str(words.count(some[0])))
