"""Whether a policy paid by a reward model gains what it was to gain, and whether the alarm tells when it does not.

    python bench/rlhf.py --out FOLDER --json FILE [--seeds 0 1 2] [--wrong-seed 0]

Per seed: `recipes/rlhf` as it is, then the rule as the reward, from the same SFT model, for as many steps. Then once a
reward model from the same pairs with better and worse exchanged, and RL against it: the alarm must fire. Held-out
accuracy by the rule, greedy, paired intervals (bootstrap over tasks within domains).
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import dataclasses
import json
import logging
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strop.config.load import parse_config
from strop.core.pairs import PreferencePair
from strop.evaluation.compare import mean_difference
from strop.observability.over_optimisation import OverOptimisation
from strop.stages import RunResult, start_run
from strop.storage.records import MetricsLog
from strop.tasks.graded_rollouts import graded_rollouts

RECIPE = Path(__file__).parents[1] / "recipes" / "rlhf" / "run.toml"


def exchanged_pairs(split: Any = "train", run: str = "") -> Sequence[PreferencePair]:
    """The pairs of a run with the worse answer as the chosen one."""
    pairs = graded_rollouts(run=run, split=split, score="accuracy", stage="collect", max_per_task=4)
    return tuple(dataclasses.replace(pair, chosen=pair.rejected, rejected=pair.chosen) for pair in pairs)


def recipe(name: str, seed: int, out: Path) -> dict[str, Any]:
    given = tomllib.loads(RECIPE.read_text())
    return {**given, "name": f"{name}-{seed}", "seed": seed, "output": str(out)}


def run(config: dict[str, Any], where: Path) -> RunResult:
    """A new run, or what a run of this name has left before."""
    folder = where / config["name"]
    resume = folder if folder.exists() else None
    return asyncio.run(start_run(parse_config(config, str(RECIPE)), resume=resume))


def from_sft(config: dict[str, Any], sft: Path) -> dict[str, Any]:
    """The last stage alone, from the model of another run's SFT."""
    return {**copy.deepcopy(config), "model": {"path": str(sft)}, "stages": [copy.deepcopy(config["stages"][-1])]}


def paid_by_rule(config: dict[str, Any], sft: Path) -> dict[str, Any]:
    changed = from_sft(config, sft)
    changed["rewards"] = [{"name": "accuracy", "use": "exact"}]
    return changed


def paid_for_wrong(config: dict[str, Any], sft: Path, pairs_of: Path) -> dict[str, Any]:
    changed = from_sft(config, sft)
    scorer = copy.deepcopy(config["stages"][2])
    scorer["data"] = {"use": "rlhf:exchanged_pairs", "params": {"run": str(pairs_of)}}
    changed["stages"][0]["algorithm"]["kl_coef"] = 0.0
    changed["stages"].insert(0, scorer)
    return changed


def gain(result: RunResult, start: str, end: str) -> dict[str, float]:
    found = mean_difference(result.reports[start], result.reports[end])
    assert found is not None
    return {"points": 100 * found.value, "low": 100 * found.low, "high": 100 * found.high}


def alarms(stage: Path) -> list[int]:
    """The steps at which the alarm fires, from the metrics that the stage left."""
    watch = OverOptimisation(gold=("accuracy",))
    return [row["step"] for row in MetricsLog(stage / "metrics.jsonl").read() if watch.observe(row["step"], row)]


def measure_seed(seed: int, out: Path) -> dict[str, Any]:
    learned = run(recipe("rlhf", seed, out), out)
    sft = (learned.folder / "1-sft" / "model").resolve()
    ruled = run(paid_by_rule(recipe("rule", seed, out), sft), out)
    pairs = learned.pairs["reward_model"]
    leads = {name: dataclasses.asdict(pairs.lead(name)) for name in ("length_only", "format_only")}
    by_model, by_rule = gain(learned, "sft", "rlhf"), gain(ruled, "base", "rlhf")
    return {
        "seed": seed,
        "pair_accuracy": dataclasses.asdict(pairs.accuracy()),
        "leads": leads,
        "gain_by_model": by_model,
        "gain_by_rule": by_rule,
        "share_of_rule": by_model["points"] / by_rule["points"],
        "alarms": alarms(learned.folder / "4-rlhf"),
    }


def measure_wrong(seed: int, out: Path) -> dict[str, Any]:
    learned = out / f"rlhf-{seed}"
    sft = (learned / "1-sft" / "model").resolve()
    result = run(paid_for_wrong(recipe("wrong", seed, out), sft, learned.resolve()), out)
    return {"seed": seed, "gain": gain(result, "base", "rlhf"), "alarms": alarms(result.folder / "2-rlhf")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--wrong-seed", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    found: dict[str, Any] = {"seeds": []}
    for seed in given.seeds:
        found["seeds"].append(measure_seed(seed, given.out))
        given.json.write_text(json.dumps(found, indent=1))
    found["wrong"] = measure_wrong(given.wrong_seed, given.out)
    given.json.write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
