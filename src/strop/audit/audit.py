"""Auditing one domain: golds, junk, repeats and times, as far as a time budget goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from random import Random

from strop.audit.answers import Form, Gold, Junk, Pool, gold_candidates, junk_answers
from strop.audit.findings import (
    NEAR,
    DomainAudit,
    Finding,
    GoldScore,
    JunkScores,
    brief,
    gold_findings,
    junk_findings,
    junk_rows,
    repeat_findings,
    times_ms,
)
from strop.audit.probe import Probed, Prober
from strop.core.protocols import Domain, TaskSource
from strop.core.seeds import derive_seed
from strop.core.types import Task

POOL_TASKS = 500  # whose golds are listed, counted and swapped
BLOCK = 4  # tasks that junk is given to together: fewer that are all paid could be by chance; their golds come first
FIRST_BLOCK = 4  # times the budget may be overrun for the first block, in which all answers are scored twice
MAX_ERRORS = 3  # after which a domain is given up


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried: `bound` for junk, tasks, seconds of a domain, and the longest wait for one score."""

    bound: float
    num_tasks: int
    seconds: float
    max_wait_s: float


@dataclass(frozen=True, slots=True)
class _Paid:
    """What the best paid text of one kind of junk earned on one task; `gained` is over the gold's total."""

    value: float
    gained: float | None
    junk: Junk


@dataclass(kw_only=True)
class _Tally:
    """What was seen of a domain so far."""

    golds: dict[str, tuple[Gold | None, GoldScore]] = field(default_factory=dict)
    junk: dict[str, dict[str, _Paid]] = field(default_factory=dict)  # by kind and task
    pairs: list[tuple[float | None, float | None, str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    errors: list[tuple[str, str, str]] = field(default_factory=list)  # task, answer, what went wrong
    tasks: set[str] = field(default_factory=set)
    form: Form | None = None

    @property
    def given_up(self) -> bool:
        return len(self.errors) >= MAX_ERRORS


async def audit_domain(domain: Domain, effort: Effort, source: TaskSource | None = None) -> DomainAudit:
    """Everything that needs no model, on tasks drawn from the domain's training tasks (or `source`).

    Rewards that read the policy's tokens, of which there are none here, are left out.
    """
    source = domain.tasks if source is None else source
    domain = without_token_readers(domain)
    pool = Pool.of(drawn(source, POOL_TASKS))
    if domain.signal not in {reward.name for reward in domain.rewards}:
        text = f"the signal {domain.signal!r} is a model's score of the policy's own tokens, so no answer was tried"
        unread = Finding(check="applies", verdict="warn", text=text)
        return replace(_judged(domain, _Tally(), pool, effort), findings=(unread,))
    chosen = drawn(source, effort.num_tasks)
    waits = tuple(replace(r, timeout_s=min(r.timeout_s, effort.max_wait_s)) for r in domain.rewards)
    prober = Prober(replace(domain, rewards=waits))
    started_s = time.monotonic()
    tally = _Tally()
    for task in chosen[:BLOCK]:
        await _try_gold(prober, task, tally, repeat=True)
    for start in range(0, len(chosen), BLOCK):
        block = chosen[start : start + BLOCK]
        ends_s = started_s + effort.seconds * (1 if start else FIRST_BLOCK)
        if tally.given_up or time.monotonic() > ends_s:
            break
        for task in block:
            if task.id not in tally.golds:
                await _try_gold(prober, task, tally, repeat=False)
        await _try_junk(prober, block, tally, pool, ends_s, repeat=start == 0)
    return _judged(domain, tally, pool, effort)


def without_token_readers(domain: Domain) -> Domain:
    """The domain with the rewards that read texts alone, and those that none of the others gates.

    A reward has `reads_tokens` where it asks for the sampled ids, as a model that scores them does.
    """
    left_out = {reward.name for reward in domain.rewards if getattr(reward.fn, "reads_tokens", False)}
    while more := {r.name for r in domain.rewards if r.gate in left_out} - left_out:
        left_out |= more
    return replace(domain, rewards=tuple(r for r in domain.rewards if r.name not in left_out))


def drawn(source: TaskSource, count: int) -> list[Task]:
    """Tasks from all over the source: files are often sorted by kind or difficulty."""
    places = Random(derive_seed(0, "audit", len(source))).sample(range(len(source)), min(count, len(source)))
    return [source[place] for place in places]


async def _try_gold(prober: Prober, task: Task, tally: _Tally, *, repeat: bool) -> None:
    """Score what ought to be right until one does: the worked response first, then the reference in each form."""
    if tally.given_up:
        return
    best: tuple[Gold, Probed] | None = None
    worked: float | None = None
    candidates = gold_candidates(task, tally.form)
    for gold in candidates:
        probed = await _score(prober, task, gold.text, tally, repeat=repeat)
        if gold is candidates[0] and gold.text == task.data.get("response"):
            worked = probed.value
        if probed.error is None and (best is None or (probed.value or 0.0) > (best[1].value or 0.0)):
            best = (gold, probed)
        if probed.error is not None or (probed.value is not None and probed.value >= 1 - NEAR):
            break
    if best is None:
        return
    gold, probed = best
    right = probed.value is not None and probed.value >= 1 - NEAR
    tally.form = gold.form if right else tally.form
    score = GoldScore(
        task_id=task.id,
        text=gold.text,
        value=probed.value,
        total=probed.total,
        worked=worked if right and worked is not None and worked < 1 - NEAR else None,
    )
    tally.golds[task.id] = (gold if right else None, score)


async def _try_junk(
    prober: Prober, block: Sequence[Task], tally: _Tally, pool: Pool, ends_s: float, *, repeat: bool
) -> None:
    """Each piece of junk to all tasks of the block, before the next: what is seen at all is seen often enough."""
    said = []
    for task in block:
        gold, score = tally.golds.get(task.id, (None, None))
        candidates = gold_candidates(task, tally.form)
        likely = gold or (candidates[0] if candidates else None)
        said.append([(task, junk, gold, score) for junk in junk_answers(task, likely, pool)])
    for task, junk, gold, score in (one for row in zip_longest(*said) for one in row if one is not None):
        if tally.given_up or time.monotonic() > ends_s:
            return
        probed = await _score(prober, task, junk.text, tally, repeat=repeat)
        if probed.value is None:
            continue
        known = score is not None and score.total is not None and probed.total is not None
        paid = _Paid(probed.value, probed.total - score.total if known else None, junk)
        by_task = tally.junk.setdefault(_row(junk, gold), {})
        if task.id not in by_task or by_task[task.id].value < paid.value:  # a task counts once, however many texts
            by_task[task.id] = paid


def _row(junk: Junk, gold: Gold | None) -> str:
    """The report's row: junk in the form of an answer stands apart from the same said bare."""
    shaped = gold is not None and gold.form.before.strip() and junk.text.startswith(gold.form.before)
    return f"{junk.kind}, formed" if shaped else junk.kind


async def _score(prober: Prober, task: Task, text: str, tally: _Tally, *, repeat: bool) -> Probed:
    probed = await prober(task, text)
    tally.tasks.add(task.id)
    tally.seconds.append(probed.seconds)
    if probed.error is not None:
        tally.errors.append((task.id, text, probed.error))
    elif repeat:
        again = await prober(task, text)
        for first, second in zip(probed.scores, again.scores, strict=False):
            tally.pairs.append((first, second, text))
        if again.error is not None:
            tally.errors.append((task.id, text, again.error))
    return probed


def _judged(domain: Domain, tally: _Tally, pool: Pool, effort: Effort) -> DomainAudit:
    golds = [score for _, score in tally.golds.values()]
    junk = [
        JunkScores(
            kind=kind,
            guess=any(paid.junk.guess for paid in by_task.values()),
            values=tuple(paid.value for paid in by_task.values()),
            gained=tuple(paid.gained for paid in by_task.values() if paid.gained is not None),
            example=max(by_task.values(), key=lambda paid: paid.value).junk.text,
        )
        for kind, by_task in tally.junk.items()
    ]
    rows = junk_rows(junk, effort.bound, pool.majority[1])
    findings = [*_error_findings(domain, tally, effort), *gold_findings(golds)]
    findings += [*junk_findings(junk, rows, bool(golds)), *repeat_findings(tally.pairs)]
    known = [gold.value for gold in golds if gold.value is not None]
    p50_ms, max_ms = times_ms(tally.seconds)
    return DomainAudit(
        domain=domain.name,
        num_tasks=len(tally.tasks),
        num_scores=len(tally.seconds),
        num_golds=len(golds),
        gold_mean=sum(known) / len(known) if known else None,
        majority=pool.majority,
        junk=tuple(rows),
        repeated=len(tally.pairs),
        p50_ms=p50_ms,
        max_ms=max_ms,
        spread=None,
        findings=tuple(findings),
    )


def _error_findings(domain: Domain, tally: _Tally, effort: Effort) -> list[Finding]:
    """Answers that could not be scored. One that outlasted only the audit's own wait is slow, not wrong."""
    if not tally.errors:
        return []
    task_id, text, said = tally.errors[0]
    shortened = {r.name for r in domain.rewards if r.timeout_s > effort.max_wait_s}
    late = f"no answer in {effort.max_wait_s} s"
    slow = bool(shortened) and all(late in error for _, _, error in tally.errors)
    given = f"the answer {brief(text)}" if text.strip() else "an empty answer"
    line = f"{len(tally.errors)} of {len(tally.seconds)} answers have no score, first task {task_id}, {given}: {said}"
    return [Finding(check="time" if slow else "error", verdict="warn" if slow else "fail", text=line)]


def names_of(audits: Sequence[DomainAudit]) -> list[str]:
    """Domains that fail."""
    return [audit.domain for audit in audits if audit.verdict == "fail"]
