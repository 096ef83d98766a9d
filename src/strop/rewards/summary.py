"""The reward of summaries: facts of the document that are told, less what it does not say, within a length.

What is copied does not count, nor does a list of keywords: see `SummaryReward`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from strop.core.types import Rollout, Score, Task
from strop.rewards.extract import visible

RUN = 8  # words in a row that the document has too are copied
MIN_GRAMMAR = 0.25  # of the words of a sentence; running English has a third and more
MAX_CHARACTERS = 20_000  # of an answer; longer ones are not read
MONTHS = "january february march april may june july august september october november december".split()
SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
GRAMMAR = frozenset(
    "a an the this that these those it its he him his she her they them their we our you your i my who whom whose "
    "which what when where while after before since until as at by for from in into of off on onto out over per than "
    "through to under up with within without about against between during among and or but nor so if because although "
    "though not no is are was were be been being am has have had do does did will would can could may might must shall "
    "should there here also all both each every some any more most only very then still just such own".split()
)
SHORT_MONTHS = [month[:3] for month in MONTHS]
_MONTH = "|".join(("sept", *MONTHS, *SHORT_MONTHS))
_YEAR = r"(?:,?\s+(\d{4}))?"
DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b\.?{_YEAR}", re.I)
MONTH_FIRST = re.compile(rf"\b({_MONTH})\b\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!,\d{{3}}){_YEAR}", re.I)
ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
NUMBER = re.compile(r"\d+(?:[,\s](?=\d{3}(?!\d))\d{3})*(?:\.\d+)?")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
NAME = re.compile(r"[^\W\d_][\w'’-]*")


class Day(NamedTuple):
    year: int | None
    month: int
    day: int

    def matches(self, other: Day) -> bool:
        years = (self.year, other.year)
        return self[1:] == other[1:] and (None in years or years[0] == years[1])


@dataclass(frozen=True)
class SummaryReward:
    """(facts told - claims that the document lacks) / facts, at least 0, times the share of words not copied.

    A fact is told by a sentence that holds its value, whatever the spelling of a number or date, and one of its cues
    where it has some. Sentences with too few small words, such as lists of keywords, tell nothing. Numbers, dates and
    names (capitals within a sentence) that are not in the document are claims that it lacks. Eight words in a row as
    in the document are copied. An answer of more than `max_words` scores 0.

    The reference has `facts` (each a `value` and `cues`) and `max_words`; the document is `data["document"]`.
    """

    def __call__(self, rollout: Rollout, task: Task) -> Score:
        wanted, document = task.reference, task.data.get("document")
        if not isinstance(wanted, Mapping) or not wanted.get("facts") or not isinstance(document, str):
            return Score(value=None, outcome="not_applicable", detail="the task has no document or no facts of it")
        return score(visible(rollout.text).strip(), document, wanted)


def score(text: str, document: str, wanted: Mapping[str, Any]) -> Score:
    """What `text` earns as a summary of `document`."""
    count = len(text.split())
    if count > wanted["max_words"] or len(text) > MAX_CHARACTERS:
        return Score(value=0.0, detail=f"{count} words, {wanted['max_words']} at most")
    sentences = [sentence for sentence in SENTENCE_END.split(text) if is_prose(sentence)]
    told = [fact for fact in wanted["facts"] if any(tells(s, fact["value"], fact["cues"]) for s in sentences)]
    strange = unsupported(text, document)
    copied = copied_share(text, document)
    value = max(0.0, (len(told) - len(strange)) / len(wanted["facts"])) * (1 - copied)
    said = f"{len(told)} of {len(wanted['facts'])} facts"
    said += f", not in the document: {', '.join(strange[:5])}" if strange else ""
    return Score(value=value, detail=said + (f", {100 * copied:.0f}% copied" if copied else ""))


def is_prose(sentence: str) -> bool:
    """Whether enough of its words, numbers aside, are small words of grammar."""
    words = [word for word in re.findall(r"[^\W\d_]+", sentence.casefold()) if word not in MONTHS]
    return bool(words) and sum(word in GRAMMAR for word in words) >= MIN_GRAMMAR * len(words)


def tells(sentence: str, value: str, cues: Sequence[str]) -> bool:
    """Whether `sentence` holds `value`, in any spelling, and a word that begins with one of `cues`."""
    words = re.findall(r"\w+", sentence.casefold())
    if cues and not any(_goes_with(word, cue.casefold()) for word in words for cue in cues):
        return False
    wanted_days, rest = days_of(value)
    if wanted_days:
        return any(wanted_days[0].matches(day) and day.year is not None for day in days_of(sentence)[0])
    number = NUMBER.fullmatch(rest.strip())
    if number is not None:
        return _number(number[0]) in numbers_of(days_of(sentence)[1], words=True)
    name = " ".join(value.casefold().split())
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", " ".join(sentence.casefold().split())) is not None


def _goes_with(word: str, cue: str) -> bool:
    """Short cues are whole words, or `in` would go with `inside`."""
    return word == cue if len(cue) < 3 else word.startswith(cue)


def unsupported(text: str, document: str) -> list[str]:
    """Numbers, dates and names of `text` that `document` does not have, each once."""
    days, rest = days_of(text)
    known_days, known_rest = days_of(document)
    known = numbers_of(known_rest, words=True)
    known |= {Decimal(part) for day in known_days for part in day if part is not None}
    words = {word.casefold() for word in re.findall(r"\w+", document)}
    found = ["-".join(map(str, day)) for day in days if not any(day.matches(other) for other in known_days)]
    found += [f"{number:f}" for number in sorted(numbers_of(rest, words=False)) if number not in known]
    found += [name for name in _names(rest) if name.casefold() not in words]
    return list(dict.fromkeys(found))


def _names(text: str) -> list[str]:
    """Words with a capital that does not come from standing first in a sentence."""
    found = []
    for sentence in SENTENCE_END.split(text):
        for word in list(NAME.finditer(sentence))[1:]:
            plain = re.split(r"['’]", word[0])[0]
            if plain[:1].isupper() and plain.casefold() not in GRAMMAR:
                found += re.findall(r"\w+", plain)
    return found


def days_of(text: str) -> tuple[list[Day], str]:
    """Dates with a day in any common spelling, and the text without them."""
    found: list[Day] = []
    for pattern, order in ((ISO, (1, 2, 3)), (DAY_FIRST, (3, 2, 1)), (MONTH_FIRST, (3, 1, 2))):
        for match in pattern.finditer(text):
            year, month, day = (match[place] for place in order)
            number = int(month) if month.isdigit() else 1 + SHORT_MONTHS.index(month[:3].lower())
            found.append(Day(int(year) if year else None, number, int(day)))
        text = pattern.sub(" ", text)
    return found, text


def numbers_of(text: str, *, words: bool) -> set[Decimal]:
    """Numbers in digits, and with `words` small ones in words."""
    found = {_number(match[0]) for match in NUMBER.finditer(text)}
    if words:
        found |= {Decimal(SMALL.index(word)) for word in re.findall(r"[a-z]+", text.casefold()) if word in SMALL}
    return found


def _number(text: str) -> Decimal:
    return Decimal(re.sub(r"[,\s]", "", text)).normalize()


def copied_share(text: str, document: str) -> float:
    """The share of words that stand in runs of eight or more which the document has too."""
    words, source = (re.findall(r"\w+", part.casefold()) for part in (text, document))
    runs = {tuple(source[i : i + RUN]) for i in range(len(source) - RUN + 1)}
    copied = [False] * len(words)
    for i in range(len(words) - RUN + 1):
        if tuple(words[i : i + RUN]) in runs:
            copied[i : i + RUN] = [True] * RUN
    return sum(copied) / len(words) if words else 0.0
