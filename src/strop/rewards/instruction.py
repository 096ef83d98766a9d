"""The reward of instructions that a rule can check, such as "three of these words as bullet points"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.types import Rollout, Score, Task
from strop.rewards.extract import visible

MAX_CHARACTERS = 10_000  # of an answer; longer ones are not read
NUMBERED = re.compile(r"(\d+)[.)] +(\S.*)")
SENTENCE = re.compile(r"[A-Z][^.!?\n]*[.!?]")


@dataclass(frozen=True)
class FollowsInstruction:
    """1 when the answer keeps everything that the task's reference asks for, else 0. Blanks around it do not matter.

    The reference is one of
    - `text`: the answer is this text, capital letters included;
    - `form` with `words` and `count`: so many different ones of these words laid out in the form (`blanks`, `lines`,
      `bullets`, `numbers`, `json`, `separated` by `sign`, `bracketed` between `left` and `right`), with `first`,
      `last`, and `with` or `without` a letter where given;
    - `form` with `fields`: these keys with these values as `json`, `lines` of `key: value`, or a Markdown `table`;
    - `sentence`: one sentence that holds these words, has at most `max_words` and ends with `mark`.
    """

    def __call__(self, rollout: Rollout, task: Task) -> Score:
        wanted = task.reference
        if not isinstance(wanted, Mapping):
            return Score(value=None, outcome="not_applicable", detail="the task's reference is no instruction")
        text = visible(rollout.text).strip()
        breach = "too long to read" if len(text) > MAX_CHARACTERS else breach_of(text, wanted)
        return Score(value=float(breach is None), detail=breach or "keeps it")


def breach_of(text: str, wanted: Mapping[str, Any]) -> str | None:
    """What `text` does otherwise than `wanted`; None where it keeps all of it. ValueError where nothing is wanted."""
    if "text" in wanted:
        same = " ".join(text.split()) == " ".join(str(wanted["text"]).split())
        return None if same else "another text"
    if "fields" in wanted:
        found = _fields(text, wanted["form"], len(wanted["fields"]))
        return None if found == dict(wanted["fields"]) else "other keys or values, or another form"
    if "sentence" in wanted:
        return _sentence_breach(text, wanted)
    if "words" in wanted:
        items = _items(text, wanted)
        return "another form" if items is None else _items_breach(items, wanted)
    raise ValueError(f"an instruction needs text, fields, sentence or words; there are {', '.join(wanted) or 'none'}")


def _items_breach(items: Sequence[str], wanted: Mapping[str, Any]) -> str | None:
    if len(items) != wanted["count"]:
        return f"{len(items)} items, {wanted['count']} are wanted"
    if len(set(items)) < len(items):
        return "an item occurs twice"
    strange = [item for item in items if item not in wanted["words"]]
    if strange:
        return f"{strange[0][:40]!r} was not given"
    if items[0] != wanted.get("first", items[0]) or items[-1] != wanted.get("last", items[-1]):
        return "starts or ends with another word"
    if any(wanted.get("without", "\n") in item for item in items):
        return f"has the letter {wanted['without']}"
    if any(wanted.get("with", "") not in item for item in items):
        return f"lacks the letter {wanted['with']}"
    return None


def _items(text: str, wanted: Mapping[str, Any]) -> list[str] | None:
    """The items of a text that is laid out as wanted; None where it is not."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    match wanted["form"]:
        case "blanks":
            return text.split()
        case "lines":
            return lines
        case "bullets":
            return [line[2:].strip() for line in lines] if all(line[:2] == "- " for line in lines) else None
        case "numbers":
            found = [NUMBERED.fullmatch(line) for line in lines]
            numbered = [match for match in found if match is not None]
            in_order = [int(match[1][:9]) for match in numbered] == list(range(1, len(lines) + 1))
            return [match[2].strip() for match in numbered] if in_order else None
        case "json":
            value = _json(text)
            return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None
        case "separated":
            return [part.strip() for part in text.split(wanted["sign"])]
        case "bracketed":
            left, right = wanted["left"], wanted["right"]
            parts = text.split()
            marked = all(p.startswith(left) and p.endswith(right) and len(p) > len(left + right) for p in parts)
            return [part[len(left) : -len(right)] for part in parts] if marked else None
    raise ValueError(f"no form is called {wanted['form']!r}")


def _fields(text: str, form: str, count: int) -> dict[str, Any] | None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if form == "json":
        value = _json(text)
        return value if isinstance(value, dict) else None
    if form == "lines":
        pairs = [line.partition(":") for line in lines]
        return {key.strip(): value.strip() for key, _, value in pairs} if len(pairs) == count else None
    if form == "table":
        return _table(lines)
    raise ValueError(f"no form of fields is called {form!r}")


def _table(lines: Sequence[str]) -> dict[str, str] | None:
    """The one row of a Markdown table, by column."""
    if len(lines) != 3 or not all(len(line) > 1 and line[0] == line[-1] == "|" for line in lines):
        return None
    head, rule, row = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    ruled = all(len(cell) >= 3 and not cell.strip(":").strip("-") for cell in rule)
    if not ruled or not len(head) == len(rule) == len(row) == len(set(head)):
        return None
    return dict(zip(head, row, strict=True))


def _json(text: str) -> Any:
    """The text as JSON, also in a fence; None where it is none, or has a key twice."""
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*)\n```", text, re.DOTALL)
    try:
        return json.loads(fenced[1] if fenced else text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _sentence_breach(text: str, wanted: Mapping[str, Any]) -> str | None:
    words = re.findall(r"\w+", text.lower())
    if SENTENCE.fullmatch(text) is None or not text.endswith(wanted["mark"]):
        return f"not one sentence that ends with {wanted['mark']}"
    if len(words) > wanted["max_words"]:
        return f"{len(words)} words, {wanted['max_words']} at most"
    if len(words) < len(wanted["sentence"]) + 2 or len(set(words)) < len(words) - 2:
        return "a list of words, not a sentence"
    missing = [word for word in wanted["sentence"] if word not in words]
    return f"lacks {missing[0]!r}" if missing else None
