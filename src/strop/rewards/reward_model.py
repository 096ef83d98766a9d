"""The score of a trained reward model as a reward."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from transformers import AutoTokenizer

from strop.core.batch import split_rollout
from strop.core.errors import ConfigError, DataError
from strop.core.types import IntArray, Rollout, Score, Task
from strop.rewards.scoring_process import ScorerSettings, ScoringProcess

SCALE_FILE = "reward_model.json"
LEAST_SPREAD = 0.1  # of a group, as a share of the usual: answers the model hardly tells apart must not be far apart


class RewardModels:
    """The reward models of one run: where its stages leave theirs, and one process for each that is asked.

    `policy` is the folder of the model that samples, whose token ids a reward model must share.
    """

    def __init__(self, run_folder: Path | None = None, policy: Path | None = None) -> None:
        self.run_folder = run_folder
        self.policy = policy
        self._processes: dict[ScorerSettings, ScoringProcess] = {}

    def find(self, path: str, stage: str) -> Path | None:
        """The folder of a model; None where a stage of this run has not left it yet.

        DataError when `path` is neither a reward model nor a run with such a stage.
        """
        if path:
            return _in_folder(Path(path), stage)
        return None if self.run_folder is None else _of_stage(self.run_folder, stage)

    def process(self, settings: ScorerSettings) -> ScoringProcess:
        if settings not in self._processes:
            self._processes[settings] = ScoringProcess(settings)
        return self._processes[settings]

    def check_tokens(self, folder: Path) -> None:
        """ConfigError when the model in `folder` would read other tokens than the policy writes."""
        if self.policy is not None and _vocabulary(folder) != _vocabulary(self.policy):
            raise ConfigError(
                f"the reward model in {folder} has another tokenizer than the policy in {self.policy}; train one from "
                "a model with the policy's"
            )

    def close(self) -> None:
        for process in self._processes.values():
            process.close()


@dataclass(frozen=True)
class RewardModelReward:
    """What a reward model says of the whole conversation, at its last token.

    The model is that of `stage` of this run, which does not apply before the stage is done; or lies in `path`: a
    model folder, or the folder of another run with its `stage`. A score is known up to a constant. With `per = "group"`
    it is normalised within the group, (s - mean) / spread, where the spread is at least a tenth of the usual one; else,
    and for a group of one, by mean and spread over the held-out pairs of the stage that trained it (as it is, where
    the folder does not hold these). `sigmoid` maps the result into (0, 1), as a gated reward needs.
    """

    stage: str = ""
    path: str = ""
    sigmoid: bool = False
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int | None = None
    max_batch_tokens: int = 8192
    reward_models: RewardModels = field(default_factory=RewardModels, repr=False, compare=False)
    reads_tokens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.stage and not self.path:
            raise ConfigError("a reward_model reward needs `stage`, or the `path` of a model")
        if self.max_batch_tokens < 1:
            raise ValueError(f"max_batch_tokens must be at least 1, got {self.max_batch_tokens}")
        if self.path:
            self.reward_models.check_tokens(_in_folder(Path(self.path), self.stage))

    async def __call__(self, scored: Rollout | Sequence[Rollout], task: Task) -> Score | list[Score]:
        if isinstance(scored, Rollout):
            return (await self._scores([scored]))[0]
        return await self._scores(scored)

    async def _scores(self, rollouts: Sequence[Rollout]) -> list[Score]:
        folder = self.reward_models.find(self.path, self.stage)
        if folder is None:
            return [_not_applicable(f"stage {self.stage!r} has left no reward model yet")] * len(rollouts)
        asked = [rollout for rollout in rollouts if rollout.num_tokens]
        raw = await self._process(folder).score([_token_ids(rollout) for rollout in asked]) if asked else []
        values = iter(zip(raw, self._normalised(raw, *_scale(folder)), strict=True))
        return [
            _score(*next(values)) if rollout.num_tokens else _not_applicable("nothing was said") for rollout in rollouts
        ]

    def _process(self, folder: Path) -> ScoringProcess:
        settings = ScorerSettings(
            folder=str(folder),
            device=self.device,
            dtype=self.dtype,
            threads=self.threads,
            max_batch_tokens=self.max_batch_tokens,
        )
        return self.reward_models.process(settings)

    def _normalised(self, raw: Sequence[float], mean: float, usual: float) -> list[float]:
        spread = usual
        if len(raw) > 1:
            mean, spread = statistics.fmean(raw), max(statistics.pstdev(raw), LEAST_SPREAD * usual)
        values = [(value - mean) / spread for value in raw]
        return [_sigmoid(value) for value in values] if self.sigmoid else values


def _in_folder(path: Path, stage: str) -> Path:
    if stage:
        found = _of_stage(path, stage)
        if found is None:
            raise DataError(f"{path}: no run with the reward model of a stage {stage!r}; check the path and the stage")
        return found
    if not (path / "config.json").is_file():
        raise DataError(f"{path}: holds no model; give a reward model's folder, or a run's with `stage`")
    return path


def _of_stage(run_folder: Path, stage: str) -> Path | None:
    for place in sorted(run_folder.glob("[0-9]*-*/reward_model")):
        if place.parent.name.partition("-")[2] == stage:
            return place
    return None


def _vocabulary(folder: Path) -> dict[str, int]:
    try:
        vocabulary: dict[str, int] = AutoTokenizer.from_pretrained(folder).get_vocab()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: no tokenizer that transformers loads: {error}") from error
    return vocabulary


def _token_ids(rollout: Rollout) -> IntArray:
    """Of the last conversation the policy saw, with what it said; sampled ids are never tokenized again."""
    return split_rollout(rollout, 0, "")[-1].token_ids


def _scale(folder: Path) -> tuple[float, float]:
    """Mean and spread of the scores of held-out answers."""
    file = folder / SCALE_FILE
    if not file.is_file():
        return 0.0, 1.0
    content = json.loads(file.read_text())
    return content["score_mean"], content["score_std"] or 1.0


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, value))))


def _score(raw: float, value: float) -> Score:
    return Score(value=value, detail=f"score {raw:.4f}", raw=raw)


def _not_applicable(reason: str) -> Score:
    return Score(value=None, outcome="not_applicable", detail=reason)
