"""How right and how fast answers of mathematics are compared, against plain math-verify and TRL's accuracy reward.

    python bench/verify.py --cases CASES.jsonl [--gsm8k example_model_solutions.jsonl] [--json FILE] [--pairs N]

CASES holds gold, prediction, equivalent (and scored, false for rows that do not count) a line; the GSM8K file is the
one that its authors publish with solutions of four models and whether each is right. Every contestant gets the same
rows in the same run, in one process of its own, its time taken as CPU seconds of that process; an overdue pair is
killed after `--deadline` seconds, counts as that many, and as not equivalent. `strop, two workers` is
wall time of what `strop verify math` does. Compare ratios, never times of different runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from strop.rewards.math import MathReward, answers, judge
from strop.rewards.math.symbolic import decide
from strop.scoring.math_workers import open_math_workers

Row = tuple[str, str, bool]
MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


@dataclass
class Result:
    contestant: str
    rows: int
    right: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    overdue: int = 0
    raised: int = 0
    seconds: float = 0.0

    @property
    def line(self) -> str:
        return (
            f"{self.contestant:24} {self.right:6d} of {self.rows} right ({self.right / self.rows:7.2%}), "
            f"{self.false_positives} false positives, {self.overdue} overdue, {self.raised} raised, "
            f"{self.rows / self.seconds:8.0f} pairs/s"
        )


def strop_alone(gold: str, text: str) -> bool:
    found = judge(gold, text)
    return decide(gold, answers(text)) if found is None else found


def math_verify(gold: str, text: str) -> bool:
    from math_verify import parse, verify

    sides = [parse(side, parsing_timeout=None) for side in (f"${gold}$", text)]
    return bool(verify(*sides, timeout_seconds=None))


def trl_accuracy(gold: str, text: str) -> bool:
    """What TRL's accuracy reward configures: LaTeX alone, boxes first, no answer without an anchor."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    wanted = parse(f"${gold}$", parsing_timeout=None)
    latex = LatexExtractionConfig(
        normalization_config=NormalizationConfig(units=True),
        boxed_match_priority=0,
        try_extract_without_anchor=False,
    )
    found = parse(text, extraction_config=[latex], extraction_mode="first_match", parsing_timeout=None)
    return bool(wanted) and bool(verify(wanted, found, timeout_seconds=None))


def _serve(name: str, pipe: Connection) -> None:
    """The inside of a contestant's process: pairs in, the answer (None: it raised) and its CPU seconds out."""
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    compare = CONTESTANTS[name]
    compare("1", "\\boxed{1}")  # the imports are no part of it
    pipe.send(None)
    while True:
        gold, text = pipe.recv()
        started = time.process_time()
        try:
            said: bool | None = compare(gold, text)
        except Exception:  # counted: a contestant's failure is a result
            said = None
        pipe.send((said, time.process_time() - started))


def _start(name: str) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(name, theirs), daemon=True)
    process.start()
    ours.recv()
    return process, ours


def measure(name: str, rows: list[Row], deadline_s: float) -> Result:
    """Each pair in turn, in a process that is killed where a pair overruns: some never return, nor heed a signal."""
    result = Result(name, len(rows))
    process, pipe = _start(name)
    for gold, text, equivalent in rows:
        pipe.send((gold, text))
        said: bool | None = False
        if pipe.poll(deadline_s):
            said, seconds = pipe.recv()
            result.raised += said is None
        else:
            result.overdue += 1
            seconds = deadline_s
            process.kill()
            process, pipe = _start(name)
        result.seconds += seconds
        _count(result, bool(said), equivalent)
    process.kill()
    return result


CONTESTANTS: dict[str, Callable[[str, str], bool]] = {
    "strop": strop_alone,
    "math-verify": math_verify,
    "TRL accuracy": trl_accuracy,
}


def _count(result: Result, said: bool, equivalent: bool) -> None:
    result.right += said == equivalent
    result.false_positives += said and not equivalent
    result.false_negatives += equivalent and not said


def measure_workers(rows: list[Row], deadline_s: float) -> Result:
    """The reward with its worker processes, as a run uses it."""
    result = Result("strop, two workers", len(rows))

    async def all_of() -> None:
        pool = open_math_workers(workers=2, deadline_s=deadline_s)
        reward = MathReward(math_workers=pool.call)
        await pool.call("1", ["1"])
        started = time.perf_counter()
        scores = await asyncio.gather(*(reward.score(text, [gold]) for gold, text, _ in rows))
        result.seconds = time.perf_counter() - started
        pool.close()
        for score, (_, _, equivalent) in zip(scores, rows, strict=True):
            result.overdue += score.outcome == "timeout"
            result.raised += score.outcome in ("crash", "infra")
            _count(result, score.value == 1.0, equivalent)

    asyncio.run(all_of())
    return result


def cases(file: Path) -> list[Row]:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [(r["gold"], r["prediction"], r["equivalent"]) for r in rows if r.get("scored", True)]


def gsm8k(file: Path) -> list[Row]:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        (row["ground_truth"].rpartition("A:")[2].strip(), row[model]["solution"], row[model]["is_correct"])
        for row in rows
        for model in MODELS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--gsm8k", type=Path)
    parser.add_argument("--pairs", type=int, default=0, help="of GSM8K, the first N; 0: all")
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    sets = {"cases": cases(given.cases)}
    if given.gsm8k:
        sets["gsm8k"] = gsm8k(given.gsm8k)[: given.pairs or None]
    report: dict[str, list[dict[str, Any]]] = {}
    for title, rows in sets.items():
        print(f"{title}: {len(rows)} pairs")
        results = []
        for name in CONTESTANTS:
            results.append(measure(name, rows, given.deadline))
            print("  " + results[-1].line, flush=True)
        results.append(measure_workers(rows, given.deadline))
        print("  " + results[-1].line, flush=True)
        report[title] = [asdict(result) for result in results]
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
