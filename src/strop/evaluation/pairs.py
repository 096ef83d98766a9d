"""How well something tells the better of two answers, beside what length alone and form alone would tell.

Shapes: N pairs, F features.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from strop.core.pairs import form_of
from strop.evaluation.intervals import Estimate, mean_score, paired_mean

RIDGE = 1e-2  # keeps the weights finite where one feature decides every pair
STEPS = 25
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the baselines see of an answer. `finished` says that it ended by itself."""

    text: str
    num_tokens: int
    finished: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PairResult:
    """One held-out pair of a prompt: by how much the model, and each baseline, prefers the chosen answer."""

    prompt: str
    margin: float
    length_only: float
    format_only: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PairReport:
    """A model on held-out pairs. A tie is half right; prompts weigh the same, however many pairs they have."""

    model: str
    results: tuple[PairResult, ...]

    def accuracy(self, of: str = "margin") -> Estimate:
        """Of the model, or of the baseline `length_only` or `format_only`, with its interval over prompts."""
        return mean_score(self._by_prompt(lambda result: _right(getattr(result, of))))

    def lead(self, over: str) -> Estimate:
        """Accuracy of the model less that of the baseline `over`, paired."""
        return paired_mean(self._by_prompt(lambda r: _right(r.margin) - _right(getattr(r, over))))

    def mean_margin(self) -> float:
        return float(np.mean([result.margin for result in self.results]))

    def to_json(self) -> str:
        """All results, and a summary for readers, which `from_json` computes anew."""
        summary = {
            "num_pairs": len(self.results),
            "accuracy": dataclasses.asdict(self.accuracy()),
            "margin": self.mean_margin(),
            **{
                name: {"accuracy": dataclasses.asdict(self.accuracy(name)), "lead": dataclasses.asdict(self.lead(name))}
                for name in ("length_only", "format_only")
            },
        }
        return json.dumps({**dataclasses.asdict(self), "summary": summary}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> PairReport:
        """KeyError, TypeError or ValueError when `text` is no report."""
        content = json.loads(text)
        return cls(model=content["model"], results=tuple(PairResult(**result) for result in content["results"]))

    def _by_prompt(self, value: Callable[[PairResult], float]) -> list[float]:
        prompts: dict[str, list[float]] = {}
        for result in self.results:
            prompts.setdefault(result.prompt, []).append(value(result))
        return [float(np.mean(values)) for values in prompts.values()]


def _right(margin: float) -> float:
    return (float(np.sign(margin)) + 1) / 2


def baseline_margins(
    train: Sequence[tuple[Seen, Seen]], held_out: Sequence[tuple[Seen, Seen]]
) -> dict[str, list[float]]:
    """What the two baselines, fitted on `train`, say of each pair in `held_out`, chosen first in all.

    Each is a logistic regression on the difference of features: `length_only` of the length in tokens and its
    logarithm, `format_only` of marks, lines and whether the answer ended by itself.
    """
    found = {}
    for name, features in (("length_only", _length), ("format_only", _format)):
        given, asked = _differences(train, features), _differences(held_out, features)
        spread = given.std(axis=0) + np.abs(given.mean(axis=0))
        scale = np.where(spread > 0, spread, 1.0)
        weights = _preference(given / scale)
        found[name] = [float(value) for value in np.round(asked / scale @ weights, 9)]  # ties stay ties
    return found


def _differences(pairs: Sequence[tuple[Seen, Seen]], features: Callable[[Seen], list[float]]) -> Array:
    """[N, F]"""
    return np.array([np.subtract(features(chosen), features(rejected)) for chosen, rejected in pairs], np.float64)


def _length(answer: Seen) -> list[float]:
    return [float(answer.num_tokens), float(np.log1p(answer.num_tokens))]


def _format(answer: Seen) -> list[float]:
    return [float(answer.finished), float(np.log1p(answer.text.count("\n"))), *map(float, form_of(answer.text))]


def _preference(differences: Array) -> Array:
    """The w [F] that maximises mean log sigma(d w) - RIDGE |w|^2 / 2, by Newton's method."""
    weights = np.zeros(differences.shape[1])
    for _ in range(STEPS):
        wrong = 1 / (1 + np.exp(np.clip(differences @ weights, -50, 50)))
        slope = differences.T @ wrong / len(differences) - RIDGE * weights
        curve = (differences * (wrong * (1 - wrong))[:, None]).T @ differences / len(differences)
        weights = weights + np.linalg.solve(curve + RIDGE * np.eye(len(weights)), slope)
    return weights


def pair_table(reports: Sequence[PairReport]) -> Table:
    """Held-out pair accuracy in percent with intervals, and the lead over each baseline in points."""
    table = Table(box=box.SIMPLE_HEAD, title="held-out preference pairs")
    for heading in ("stage", "pairs", "accuracy", "length only", "format only", "lead over both"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for report in reports:
        leads = [report.lead(name) for name in ("length_only", "format_only")]
        table.add_row(
            report.model,
            str(len(report.results)),
            *(_percent(report.accuracy(name)) for name in ("margin", "length_only", "format_only")),
            _percent(min(leads, key=lambda lead: lead.value), "+.1f"),
        )
    return table


def _percent(estimate: Estimate, form: str = ".1f") -> str:
    value, low, high = (f"{100 * number:{form}}" for number in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"
