"""Strings. The level sets how long they are."""

from __future__ import annotations

from random import Random

from strop.tasks.generated.problem import Problem

# fmt: off
WORDS = (
    "apple", "bread", "chair", "dance", "eagle", "flame", "grape", "house", "input", "jelly", "knife", "lemon",
    "mouse", "night", "ocean", "piano", "queen", "river", "stone", "table", "uncle", "voice", "water", "youth",
    "zebra", "angle", "beach", "cloud", "dream", "earth", "field", "glass", "heart", "image", "juice", "light",
    "money", "north", "order", "paper", "radio", "sugar", "train", "value", "wheel", "story", "plant", "music",
    "horse", "green", "fruit", "floor", "death", "child", "brain", "black", "april", "adult", "brush", "clock",
    "cream", "doubt", "event", "faith", "grass", "hotel", "judge", "layer", "major", "metal", "nurse", "offer",
)
# fmt: on


def _letters(draw: Random, count: int) -> str:
    return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(count))


def reverse_letters(draw: Random, level: int) -> Problem:
    word = _letters(draw, 2 + level)
    return Problem(f"Write these letters in reverse order: {' '.join(word)}", " ".join(word[::-1]))


def count_letter(draw: Random, level: int) -> Problem:
    letter = draw.choice("abest")
    word = [draw.choice(letter + "abcdest") for _ in range(3 + 2 * level)]
    return Problem(f"How often does {letter} occur in: {' '.join(word)}?", str(word.count(letter)))


def last_letter(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, level)
    return Problem(f"Write the last letter of each word: {' '.join(words)}", " ".join(w[-1] for w in words))


def letter_at(draw: Random, level: int) -> Problem:
    names = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
    word = _letters(draw, 2 + level)
    place = draw.randrange(len(word))
    return Problem(f"What is the {names[place]} of these letters: {' '.join(word)}?", word[place])


def sort_letters(draw: Random, level: int) -> Problem:
    word = draw.sample("abcdefghijklmnopqrstuvwxyz", 2 + level)
    return Problem(f"Sort these letters alphabetically: {' '.join(word)}", " ".join(sorted(word)))


def first_in_alphabet(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 1 + level)
    return Problem(f"Which word comes first in the alphabet: {', '.join(words)}?", min(words))


def word_at(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 2 + level)
    place = draw.randrange(len(words))
    return Problem(f"What is word number {place + 1} of: {' '.join(words)}?", words[place])


def reverse_words(draw: Random, level: int) -> Problem:
    words = draw.sample(WORDS, 1 + level)
    return Problem(f"Write these words in reverse order: {' '.join(words)}", " ".join(reversed(words)))


def next_letter(draw: Random, level: int) -> Problem:
    step = draw.randrange(1, level + 1)
    place = draw.randrange(26 - step)
    unit = "letter" if step == 1 else "letters"
    return Problem(f"Which letter is {step} {unit} after {chr(97 + place)} in the alphabet?", chr(97 + place + step))
