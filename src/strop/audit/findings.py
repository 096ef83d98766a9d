"""From what answers earned to a verdict on a domain. Pure.

A mean counts as above a limit when chance would rarely make it so of tasks that earn the limit: once in 500 for a
failure, since some fifty kinds of junk are tried, and once in 100 for a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, floor, fsum, lgamma, log, sqrt
from statistics import fmean, median, stdev
from typing import Any, Literal

Check = Literal["gold", "junk", "total", "error", "repeatable", "applies", "time", "spread"]
Verdict = Literal["pass", "warn", "fail"]
FAIL_CHANCE, WARN_CHANCE = 0.002, 0.01
BISECTIONS = 30
ERRORS = 3.0  # standard errors, of a difference to the gold
MISSED_SHARE = 0.05  # of golds; fewer are faults of single tasks
NOISE = 0.1  # between two scores of one answer, beyond which no answer has a reward
NEAR = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """`text` is one line that says what was found."""

    check: Check
    verdict: Literal["warn", "fail"]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldScore:
    """The best that a right answer of one task earned, and the answer; None where the reward does not apply."""

    task_id: str
    text: str
    value: float | None
    total: float | None
    worked: float | None = None  # what the task's worked response earned, where another form of the gold earned more


@dataclass(frozen=True, kw_only=True, slots=True)
class JunkScores:
    """What one kind of junk earned, over tasks; `gained` is its total minus the gold's total of the same task."""

    kind: str
    guess: bool
    values: tuple[float, ...]
    gained: tuple[float, ...]
    example: str

    @property
    def mean(self) -> float:
        return fmean(self.values)


@dataclass(frozen=True, kw_only=True, slots=True)
class JunkRow:
    """One kind of junk in the report. `limit` is what it may earn, `low` the lower end of the mean's interval."""

    kind: str
    mean: float
    low: float
    limit: float
    num_tasks: int
    example: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Scores of the model's own samples, where nothing is known to be right. `constant` groups teach nothing."""

    num_tasks: int
    num_samples: int
    mean: float
    deviation: float
    constant_share: float
    best: tuple[tuple[float, str], ...]
    worst: tuple[tuple[float, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainAudit:
    """All that was found out about one domain. Shares and scores are of the domain's signal."""

    domain: str
    num_tasks: int
    num_scores: int
    num_golds: int
    gold_mean: float | None
    majority: tuple[str, float]
    junk: tuple[JunkRow, ...]
    repeated: int
    p50_ms: float
    max_ms: float
    spread: Spread | None
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        found = {finding.verdict for finding in self.findings}
        return "fail" if "fail" in found else "warn" if "warn" in found else "pass"

    @property
    def worst(self) -> JunkRow | None:
        """The junk that is most above its limit, or nearest below."""
        return self.junk[0] if self.junk else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def lower_end(values: Sequence[float], chance: float) -> float:
    """The lower end of the interval of a mean of scores from 0 to 1: the largest mean under which a sum of theirs is
    rarer than `chance` (Clopper and Pearson 1934; scores between 0 and 1 count as the whole ones in their sum, which
    is on the safe side).
    """
    total = floor(sum(min(1.0, max(0.0, value)) for value in values) + NEAR)
    if total == 0:
        return 0.0
    low, high = 0.0, total / len(values)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(total, len(values), middle) < chance else (low, middle)
    return low


def _tail(least: int, count: int, share: float) -> float:
    """The probability of at least `least` of `count` where each happens with probability `share`, above 0."""
    if share >= 1.0:
        return 1.0
    terms = (
        lgamma(count + 1) - lgamma(k + 1) - lgamma(count - k + 1) + k * log(share) + (count - k) * log(1 - share)
        for k in range(least, count + 1)
    )
    return fsum(map(exp, terms))


def gold_findings(golds: Sequence[GoldScore]) -> list[Finding]:
    """Every right answer must score 1 or more; the first that does not is shown."""
    known = [gold for gold in golds if gold.value is not None]
    if golds and not known:
        text = f"the signal applies to none of {len(golds)} tasks; check that they have what it compares with"
        return [Finding(check="applies", verdict="fail", text=text)]
    found = []
    missed = [gold for gold in known if gold.value is not None and gold.value < 1 - NEAR]
    if missed:
        many = len(missed) == len(known) or len(missed) >= max(2.0, MISSED_SHARE * len(known))
        first = missed[0]
        text = (
            f"{len(missed)} of {len(known)} gold answers score below 1, first task {first.task_id}: "
            f"{brief(first.text)} scores {first.value:.3g}"
        )
        found.append(Finding(check="gold", verdict="fail" if many else "warn", text=text))
    lesser = [gold for gold in known if gold.worked is not None]
    if lesser:
        text = f"{len(lesser)} of {len(known)} worked responses score below 1 where the reference as an answer scores 1"
        found.append(Finding(check="gold", verdict="warn", text=f"{text}, first task {lesser[0].task_id}"))
    return found


def junk_rows(junk: Sequence[JunkScores], bound: float, majority: float) -> list[JunkRow]:
    """Worst first. An answer of some task may earn what the most frequent answer does, other junk the bound."""
    rows = [
        JunkRow(
            kind=scores.kind,
            mean=scores.mean,
            low=lower_end(scores.values, FAIL_CHANCE),
            limit=max(bound, majority) if scores.guess else bound,
            num_tasks=len(scores.values),
            example=scores.example,
        )
        for scores in junk
        if scores.values
    ]
    return sorted(rows, key=lambda row: (row.low <= row.limit, row.limit - row.mean))


def junk_findings(junk: Sequence[JunkScores], rows: Sequence[JunkRow], has_gold: bool) -> list[Finding]:
    """One finding for all junk that earns too much; without golds the scale is unknown, so that it only warns."""
    over = [row for row in rows if row.low > row.limit]
    values = {scores.kind: scores.values for scores in junk}
    near = [row for row in rows if row not in over and lower_end(values[row.kind], WARN_CHANCE) > row.limit]
    found = []
    if over:
        verdict: Literal["warn", "fail"] = "fail" if has_gold else "warn"
        found.append(Finding(check="junk", verdict=verdict, text=_earns(over)))
    if near:
        found.append(Finding(check="junk", verdict="warn", text=_earns(near)))
    better = [scores for scores in junk if _lower_mean(scores.gained) > NEAR]
    if better:
        first = better[0]
        text = f"{first.kind} earns {fmean(first.gained):.3g} more than the gold in the weighted sum of the rewards"
        found.append(Finding(check="total", verdict="fail", text=text))
    return found


def _earns(rows: Sequence[JunkRow]) -> str:
    first = rows[0]
    others = f", and {len(rows) - 1} other kinds of junk" if len(rows) > 1 else ""
    shown = f" ({brief(first.example)})" if first.example.strip() else ""
    return (
        f"{first.kind}{shown} scores {first.mean:.2f} on {first.num_tasks} tasks, at most {first.limit:.2f} is what "
        f"it may{others}"
    )


def _lower_mean(differences: Sequence[float]) -> float:
    """The lower end of a mean difference at three standard errors; below 0 for one task alone."""
    if len(differences) < 2:
        return -1.0
    return fmean(differences) - ERRORS * stdev(differences) / sqrt(len(differences))


def repeat_findings(pairs: Sequence[tuple[float | None, float | None, str]]) -> list[Finding]:
    """Pairs are two scores of one answer, with the answer."""
    changed = [(a, b, text) for a, b, text in pairs if a != b]
    if not changed:
        return []
    a, b, text = max(changed, key=lambda pair: abs((pair[0] or 0.0) - (pair[1] or 0.0)))
    lost = any((a is None) != (b is None) for a, b, _ in changed)
    large = lost or abs((a or 0.0) - (b or 0.0)) > NOISE * max(1.0, abs(a or 0.0))
    said = f"{len(changed)} of {len(pairs)} answers scored otherwise the second time, {brief(text)} {a} and then {b}"
    return [Finding(check="repeatable", verdict="fail" if large else "warn", text=said)]


def times_ms(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and largest time of one score."""
    return (1e3 * median(seconds), 1e3 * max(seconds)) if seconds else (0.0, 0.0)


def brief(text: str, limit: int = 60) -> str:
    said = " ".join(text.split())
    return repr(said if len(said) <= limit else said[: limit - 3] + "...")
