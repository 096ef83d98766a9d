"""Which samples hold text of an evaluation set: by the share of its word n-grams that a sample repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strop.core.errors import DataError
from strop.tasks.files import read_rows
from strop.tasks.humaneval import INSTRUCTION, HumanEval
from strop.tasks.near_duplicates import run_hash, words_of
from strop.tasks.rows import PROMPTS, messages_of

BUILTIN = "builtin"
SHARED = 0.1  # an n-gram that more of the evaluation texts share is their form, such as how to answer; it says nothing
MIN_SHARED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationText:
    """One question of an evaluation set and where it stands."""

    where: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Sample `index` repeats `share` of the n-grams of the evaluation text at `where`, `words` among them."""

    index: int
    where: str
    share: float
    words: str


def overlaps(
    samples: Sequence[str], evaluation: Sequence[EvaluationText], *, ngram: int = 8, share: float = 0.5
) -> list[Overlap]:
    """The samples that repeat at least `share` of the `ngram`-word runs of an evaluation text, the worst match of each.

    Runs that more than a tenth of the evaluation texts share are their form and do not count. A text of fewer words
    counts where it is a whole sample or a whole line of one. Case and punctuation do not count.
    """
    index = _Index.of(evaluation, ngram)
    found = []
    for number, text in enumerate(samples):
        overlap = index.worst(number, text)
        if overlap is not None and overlap.share >= share:
            found.append(overlap)
    return found


@dataclass(frozen=True, slots=True)
class _Index:
    evaluation: Sequence[EvaluationText]
    ngram: int
    holders: dict[int, tuple[int, ...]]  # hash of an n-gram -> the evaluation texts that hold it
    totals: Mapping[int, int]  # how many such n-grams each evaluation text has
    short: dict[str, int]  # texts of fewer words

    @classmethod
    def of(cls, evaluation: Sequence[EvaluationText], ngram: int) -> _Index:
        held: dict[int, list[int]] = {}
        short: dict[str, int] = {}
        for number, entry in enumerate(evaluation):
            words = words_of(entry.text)
            if 0 < len(words) < ngram:
                short.setdefault(" ".join(words), number)
            for gram in _grams(words, ngram):
                held.setdefault(gram, []).append(number)
        many = max(MIN_SHARED, SHARED * len(evaluation))
        holders = {gram: tuple(numbers) for gram, numbers in held.items() if len(numbers) <= many}
        totals = Counter(number for numbers in holders.values() for number in numbers)
        return cls(evaluation, ngram, holders, totals, short)

    def worst(self, number: int, text: str) -> Overlap | None:
        for line in {text, *text.splitlines()}:
            whole = " ".join(words_of(line))
            if whole in self.short:
                return Overlap(index=number, where=self.evaluation[self.short[whole]].where, share=1.0, words=whole)
        grams = _grams(words_of(text), self.ngram)
        counts = Counter(holder for gram in grams for holder in self.holders.get(gram, ()))
        if not counts:
            return None
        worst = max(counts, key=lambda holder: (counts[holder] / self.totals[holder], -holder))
        said = next(words for gram, words in grams.items() if worst in self.holders.get(gram, ()))
        where = self.evaluation[worst].where
        return Overlap(index=number, where=where, share=counts[worst] / self.totals[worst], words=said)


def _grams(words: Sequence[str], size: int) -> dict[int, str]:
    """The distinct runs of `size` words by their hash; none where there are fewer words."""
    runs = (words[n : n + size] for n in range(len(words) - size + 1))
    return {run_hash(run): " ".join(run) for run in runs}


def evaluation_texts(against: str, column: str = "") -> list[EvaluationText]:
    """The questions of a JSONL or Parquet file, in `column` or the recognised one; of `builtin`, those of HumanEval.

    DataError names the line that has no question.
    """
    if against == BUILTIN:
        tasks = HumanEval(BUILTIN)
        asked = [tasks[n].prompt[0].content.removeprefix(INSTRUCTION) for n in range(len(tasks))]
        return [EvaluationText(where=tasks[n].id, text=text) for n, text in enumerate(asked)]
    found = []
    for where, row in read_rows(against):
        name = column or next((name for name in (*PROMPTS, "messages") if row.get(name) is not None), "")
        if row.get(name) is None:
            asked_for = f"column {name!r}" if name else f"column messages or one of {', '.join(PROMPTS)}"
            raise DataError(f"{where}: no {asked_for}; name the column of the questions with --column")
        messages = messages_of(row[name], f"{where}, column {name}")
        said = "\n".join(m.content for m in messages if m.role == "user")
        found.append(EvaluationText(where=where, text=said))
    if not found:
        raise DataError(f"{against}: holds no row")
    return found
