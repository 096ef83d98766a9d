"""Documents of known facts, to be summed up. The level sets how many facts and how much beside them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from strop.tasks.generated.logic import NAMES
from strop.tasks.generated.times import MONTHS

SUBJECTS = ("bridge", "mill", "tower", "school", "museum", "library", "theatre", "market hall", "station", "lighthouse")
SYLLABLES = ("ar", "bel", "cor", "dan", "el", "fen", "gar", "hol", "is", "jor", "kel", "lun", "mar", "nor", "os", "pel")
ENDS = ("ford", "ham", "ton", "wick", "by", "stad", "ville", "mouth")
SURNAMES = ("son", "sen", "man", "er", "ley", "berg")
SPARE_WORDS = 6  # that a summary may have beyond the worked one
# what a sentence of the document says, what a summary may say, and beginnings of words that go with the value
FACTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("price", "After a long debate the council agreed to spend no less than {v} crowns on the whole of it.",
     "In all the {s} cost {v} crowns.", ("cost", "spen", "crown", "paid", "pric")),
    ("date", "It was on {v} that the doors were opened to everybody who had been waiting outside.",
     "It opened on {v}.", ("open", "start", "began", "inaug")),
    ("person", "The plans for the {s} had been drawn by {v}, who had never built anything of that size before.",
     "It was designed by {v}.", ("design", "plan", "drew", "drawn", "archit", "built")),
    ("length", "Those who took the trouble to measure the {s} found that it was {v} metres from end to end.",
     "It is {v} metres long.", ("metre", "meter", "long", "length", "measure")),
    ("count", "In the very first year no fewer than {v} people came along to see it with their own eyes.",
     "In the first year {v} people came.", ("people", "visit", "came", "guest")),
    ("town", "Everybody who lives in {v} still likes to talk about the old {s} by the river.",
     "The {s} is in {v}.", ("is", "stand", "stood", "town", "lies", "of", "in")),
    ("weeks", "A storm once broke a part of the roof, and it took {v} weeks of work to mend it.",
     "It took {v} weeks to repair it.", ("repair", "week", "mend", "storm")),
    ("owner", "Since those days it has belonged to {v}, a merchant who keeps all of it in good order.",
     "It belongs to {v}.", ("belong", "own", "merchant")),
)  # fmt: skip
FILLERS = (
    "Nobody can say any more who had the idea first, and perhaps it does not matter.",
    "There were many who thought that it would never be finished, and they were wrong.",
    "On quiet evenings one can hear the wind in the trees that stand around it.",
    "The winters in that part of the country are long, and the roads are often bad.",
    "Old people like to tell their grandchildren how different everything used to be.",
    "A good deal has been written about this, and not all of it is true.",
    "It is said that the cats of the street have always liked to sleep there.",
    "The weather was fine, there was music, and the children had a day off.",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """`value` as the document has it; `cues` are beginnings of words, one of which says what the value is of."""

    value: str
    cues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its facts and a summary that holds all of them."""

    text: str
    facts: tuple[Fact, ...]
    summary: str

    @property
    def question(self) -> str:
        return f"Sum up in at most {self.max_words} words: {self.text}"

    @property
    def key(self) -> str:
        return self.text

    @property
    def max_words(self) -> int:
        return len(self.summary.split()) + SPARE_WORDS


def document(draw: Random, level: int) -> Document:
    subject = draw.choice(SUBJECTS)
    values = _values(draw)
    chosen = draw.sample(FACTS, 1 + level)
    sentences = [told.format(v=values[name], s=subject) for name, told, _, _ in chosen]
    sentences += draw.sample(FILLERS, level)
    draw.shuffle(sentences)
    return Document(
        text=" ".join(sentences),
        facts=tuple(Fact(values[name], cues) for name, _, _, cues in chosen),
        summary=" ".join(short.format(v=values[name], s=subject) for name, _, short, _ in chosen),
    )


def _values(draw: Random) -> dict[str, str]:
    return {
        "price": f"{draw.randrange(1100, 99000):,}",
        "date": f"{draw.randrange(1, 29)} {draw.choice(MONTHS)} {draw.randrange(1700, 2000)}",
        "person": f"{draw.choice(NAMES[:6])} {_name(draw, SURNAMES)}",
        "length": str(draw.randrange(30, 900)),
        "count": f"{draw.randrange(1100, 99000):,}",
        "town": _name(draw, ENDS),
        "weeks": str(draw.randrange(2, 30)),
        "owner": f"{draw.choice(NAMES[6:])} {_name(draw, SURNAMES)}",
    }


def _name(draw: Random, ends: tuple[str, ...]) -> str:
    return "".join((*draw.sample(SYLLABLES, 2), draw.choice(ends))).capitalize()
