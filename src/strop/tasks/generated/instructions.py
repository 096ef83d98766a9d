"""Instructions that a rule can check: how many words, in which form, with or without what.

The reference of each says what rewards/instruction.py checks. Contents are words of a given list (or a text that is
wholly given), so that no filler can pass. From level 4 on, lists carry a second condition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

from strop.core.types import JSON
from strop.tasks.generated.logic import NAMES
from strop.tasks.generated.problem import PromptProblem
from strop.tasks.generated.relations import CITIES, THINGS
from strop.tasks.generated.strings import WORDS

SIGNS = (";", "/", "|", "+", "-", ">")
BRACKETS = (("[", "]"), ("(", ")"), ("<", ">"), ("*", "*"), ('"', '"'), ("{", "}"))
TAGS = ("b", "i", "code", "name", "item", "word")
ENDINGS = ("That is all.", "End of list.", "Nothing more.", "Done.", "Over and out.", "I hope this helps.")
FIELDS = {
    "name": NAMES,
    "city": CITIES,
    "thing": THINGS,
    "word": WORDS[:20],
    "colour": ("red", "blue", "green", "white"),
}


def _words(draw: Random, level: int) -> list[str]:
    return draw.sample(WORDS, 3 + level)


def _list(
    draw: Random, level: int, form: str, said: str, extra: Mapping[str, JSON] | None = None
) -> tuple[list[str], dict[str, JSON], str]:
    """Words chosen of those given, what is checked, and the question: so many of them, in a form."""
    words = _words(draw, level)
    count = draw.randrange(1 if level == 1 else 2, 1 + min(len(words) - 1, 2 + level // 2))
    wanted: dict[str, JSON] = {"form": form, "words": tuple(words), "count": count, **(extra or {})}
    chosen, more = draw.sample(words, count), ""
    if level >= 4:
        wanted["first"] = chosen[0]
        more = f", the first {chosen[0]}"
    number = f"{count} of these words" if count > 1 else "1 of these words"
    return chosen, wanted, f"Write {number}{said}{more}: {' '.join(words)}"


def exact_words(draw: Random, level: int) -> PromptProblem:
    chosen, wanted, question = _list(draw, level, "blanks", " and nothing else")
    return PromptProblem(question, " ".join(chosen), wanted)


def bullet_points(draw: Random, level: int) -> PromptProblem:
    chosen, wanted, question = _list(draw, level, "bullets", " as bullet points that begin with -")
    return PromptProblem(question, "\n".join(f"- {word}" for word in chosen), wanted)


def numbered_list(draw: Random, level: int) -> PromptProblem:
    chosen, wanted, question = _list(draw, level, "numbers", " as a numbered list (1. and so on)")
    return PromptProblem(question, "\n".join(f"{i}. {word}" for i, word in enumerate(chosen, 1)), wanted)


def own_lines(draw: Random, level: int) -> PromptProblem:
    chosen, wanted, question = _list(draw, level, "lines", ", each on a line of its own")
    return PromptProblem(question, "\n".join(chosen), wanted)


def json_list(draw: Random, level: int) -> PromptProblem:
    chosen, wanted, question = _list(draw, level, "json", " as a JSON list")
    return PromptProblem(question, json.dumps(chosen), wanted)


def separated(draw: Random, level: int) -> PromptProblem:
    sign = draw.choice(SIGNS)
    chosen, wanted, question = _list(draw, level, "separated", f" with {sign} between them", {"sign": sign})
    if len(chosen) < 2:
        return separated(draw, level)
    return PromptProblem(question, f" {sign} ".join(chosen), wanted)


def bracketed(draw: Random, level: int) -> PromptProblem:
    left, right = draw.choice(BRACKETS)
    said = f", each between {left} and {right}"
    chosen, wanted, question = _list(draw, level, "bracketed", said, {"left": left, "right": right})
    return PromptProblem(question, " ".join(f"{left}{word}{right}" for word in chosen), wanted)


def tagged(draw: Random, level: int) -> PromptProblem:
    tag = draw.choice(TAGS)
    said, sides = f", each in a tag <{tag}>", {"left": f"<{tag}>", "right": f"</{tag}>"}
    chosen, wanted, question = _list(draw, level, "bracketed", said, sides)
    return PromptProblem(question, " ".join(f"<{tag}>{word}</{tag}>" for word in chosen), wanted)


def without_letter(draw: Random, level: int) -> PromptProblem:
    words = _words(draw, level)
    letter = draw.choice("aeiort")
    allowed = [word for word in words if letter not in word]
    if not 0 < len(allowed) < len(words):
        return without_letter(draw, level)
    count = draw.randrange(1, 1 + min(len(allowed), level))
    question = f"Write {count} of these words, without the letter {letter}: {' '.join(words)}"
    wanted: dict[str, JSON] = {"form": "blanks", "words": tuple(words), "count": count, "without": letter}
    return PromptProblem(question, " ".join(allowed[:count]), wanted)


def with_letter(draw: Random, level: int) -> PromptProblem:
    words = _words(draw, level)
    letter = draw.choice("aeiortlnd")
    allowed = [word for word in words if letter in word]
    if not 0 < len(allowed) < len(words):
        return with_letter(draw, level)
    count = draw.randrange(1, 1 + min(len(allowed), level))
    question = f"Write {count} of these words, each with the letter {letter}: {' '.join(words)}"
    wanted: dict[str, JSON] = {"form": "blanks", "words": tuple(words), "count": count, "with": letter}
    return PromptProblem(question, " ".join(allowed[:count]), wanted)


def leave_out(draw: Random, level: int) -> PromptProblem:
    words = draw.sample(WORDS, 2 + level)
    gone = draw.sample(words, 1 if level < 3 else 2)
    kept = [word for word in words if word not in gone]
    question = f"Write all of these words in any order, but never {' or '.join(gone)}: {' '.join(words)}"
    return PromptProblem(question, " ".join(kept), {"form": "blanks", "words": tuple(kept), "count": len(kept)})


def start_and_end(draw: Random, level: int) -> PromptProblem:
    words = draw.sample(WORDS, 4 + level)
    count = draw.randrange(2, 4 + level // 2)
    chosen = draw.sample(words, count)
    said = f"Write {count} of these words. Start with {chosen[0]} and end with {chosen[-1]}"
    wanted: dict[str, JSON] = {"form": "blanks", "words": tuple(words), "count": count}
    wanted |= {"first": chosen[0], "last": chosen[-1]}
    return PromptProblem(f"{said}: {' '.join(words)}", " ".join(chosen), wanted)


def closing_line(draw: Random, level: int) -> PromptProblem:
    words = draw.sample(WORDS, 1 + level)
    ending = draw.choice(ENDINGS)
    question = f'Repeat these words, then end with "{ending}": {" ".join(words)}'
    return PromptProblem(question, f"{' '.join(words)} {ending}", {"text": f"{' '.join(words)} {ending}"})


def _any_case(draw: Random, word: str) -> str:
    return draw.choice((word.upper(), word.title(), word, word[:-1] + word[-1].upper()))


def lower_case(draw: Random, level: int) -> PromptProblem:
    words = [_any_case(draw, word) for word in draw.sample(WORDS, level)]
    shown = " ".join(words)
    if shown == shown.lower():
        return lower_case(draw, level)
    return PromptProblem(f"Write this all in lower case: {shown}", shown.lower(), {"text": shown.lower()})


def upper_case(draw: Random, level: int) -> PromptProblem:
    shown = " ".join(draw.sample(WORDS, level))
    return PromptProblem(f"Write this all in capital letters: {shown}", shown.upper(), {"text": shown.upper()})


def capitals_first(draw: Random, level: int) -> PromptProblem:
    shown = " ".join(draw.sample(WORDS, 1 + level))
    return PromptProblem(f"Give each word a capital first letter: {shown}", shown.title(), {"text": shown.title()})


def repeat_word(draw: Random, level: int) -> PromptProblem:
    word, count = draw.choice(WORDS), draw.randrange(2, 4 + 2 * level)
    return PromptProblem(
        f"Write {word} exactly {count} times.", " ".join([word] * count), {"text": " ".join([word] * count)}
    )


def _fields(draw: Random, level: int) -> dict[str, str]:
    keys = draw.sample(list(FIELDS), min(1 + level, len(FIELDS)))
    return {key: draw.choice(FIELDS[key]) for key in keys}


def _told(fields: Mapping[str, str]) -> str:
    return ", ".join(f"the {key} is {value}" for key, value in fields.items())


def json_object(draw: Random, level: int) -> PromptProblem:
    fields = _fields(draw, level)
    question = f"Write as JSON with the keys {', '.join(fields)}: {_told(fields)}."
    return PromptProblem(question, json.dumps(fields), {"form": "json", "fields": fields})


def key_value_lines(draw: Random, level: int) -> PromptProblem:
    fields = _fields(draw, level)
    question = f"Write a line such as key: value for each: {_told(fields)}."
    answer = "\n".join(f"{key}: {value}" for key, value in fields.items())
    return PromptProblem(question, answer, {"form": "lines", "fields": fields})


def markdown_table(draw: Random, level: int) -> PromptProblem:
    fields = _fields(draw, level)
    question = f"Write a Markdown table of one row with the columns {', '.join(fields)}: {_told(fields)}."
    rows = (fields, ["---"] * len(fields), fields.values())
    answer = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return PromptProblem(question, answer, {"form": "table", "fields": fields})


def full_sentence(draw: Random, level: int) -> PromptProblem:
    words = draw.sample(WORDS, 1 + (level + 1) // 2)
    most = len(words) + 6
    mark = draw.choice((".", "!", "?"))
    said = f"Write one sentence of at most {most} words with {' and '.join(words)}, ending with {mark}"
    rest = " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else f"the {words[0]}"
    return PromptProblem(said, f"I see {rest}{mark}", {"sentence": tuple(words), "max_words": most, "mark": mark})
