"""Stages on preference pairs, reward_model and preference: pairs to batches, updates, and a report."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from strop import build
from strop.algorithms.pair_loss import BradleyTerry, Dpo
from strop.config.resolve import PAIRS, locate, make, parameters_of
from strop.config.schema import DomainConfig, RewardConfig, RunConfig, StageConfig
from strop.core.batch import Batch, Pair
from strop.core.errors import ConfigError, DataError
from strop.core.pairs import Answer, PreferencePair
from strop.core.seeds import shuffled_places
from strop.core.types import FloatArray, TrainingSample
from strop.engines.renderer import ChatRenderer
from strop.evaluation.pairs import PairReport, PairResult, Seen, baseline_margins
from strop.fit import BatchAt, fit
from strop.learner.learner import TorchLearner, load_learner
from strop.learner.score_export import check_scorable, export_scorer
from strop.storage.checkpoints import CheckpointFolder
from strop.storage.records import MetricsLog, write_whole
from strop.workshop import Workshop, saving, skipped

log_to = logging.getLogger(__name__)
CHUNK = 64  # pairs of one forward pass outside of training: between two of them progress is shown
SCALE_FILE = "reward_model.json"  # beside an exported reward model
REPORT_FILE = "pairs.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class RenderedPair:
    """A pair as tokens, and what the baselines see of its answers."""

    prompt: str
    chosen: TrainingSample
    rejected: TrainingSample
    margin: float
    seen: tuple[Seen, Seen]


Gains = list[tuple[float, float]]  # of each pair, what the model gives the chosen answer and the rejected one
Reference = Mapping[int, tuple[FloatArray, FloatArray]]  # by number of the pair, logprobs of its two samples


def load_pairs(stage: StageConfig, folder: Path | None) -> tuple[Sequence[PreferencePair], Sequence[PreferencePair]]:
    """The pairs to train on and those held out. `folder` is the run's own, from whose rollouts pairs may be made."""
    where = f"stage {stage.title!r}"
    if stage.data is None:
        raise ConfigError(f"{where} needs pairs: give it data")
    train, held_out = (make(stage.data, PAIRS, where, split=split, folder=folder) for split in ("train", "held_out"))
    for pairs, split, remedy in (
        (train, "to train on", "lower its margin or add data"),
        (held_out, "held out", "raise held_out_share or add data"),
    ):
        if not len(pairs):
            raise DataError(f"{where}: its data has no pair {split}; {remedy}")
        if not isinstance(pairs[0], PreferencePair):
            raise ConfigError(f"{where}: its data must hold strop PreferencePairs, got {type(pairs[0]).__name__}")
    return train, held_out


def check_pairs(config: RunConfig) -> None:
    """ConfigError or DataError, before any work, for pairs that cannot be used and rewards that no stage makes.

    Pairs that the run itself makes come later.
    """
    for domain in config.domains:
        for reward in domain.rewards or config.rewards:
            _check_reward(reward, domain, config)
    for stage in config.stages:
        if stage.stage not in ("reward_model", "preference") or stage.data is None:
            continue
        own_run = "folder" in parameters_of(locate(stage.data.use, PAIRS, f"stage {stage.title!r}"))
        if not own_run or stage.data.params.get("run"):
            load_pairs(stage, None)


def _check_reward(reward: RewardConfig, domain: DomainConfig, config: RunConfig) -> None:
    title = reward.params.get("stage")
    if reward.use != "reward_model" or reward.params.get("path") or not isinstance(title, str):
        return
    where = f"domain {domain.name!r}, reward {reward.name!r}"
    known = [stage.title for stage in config.stages if stage.stage == "reward_model"]
    if title not in known:
        near = f"there is {', '.join(known)}" if known else "add one"
        raise ConfigError(f"{where}: stage = {title!r} is no reward_model stage of this run; {near}")
    if domain.signal == reward.name:
        raise ConfigError(
            f"{where}: is the signal, which says right or wrong before stage {title!r} is run too; name another "
            "reward as signal, or take a reward model that exists with path"
        )


def render_pairs(
    pairs: Sequence[PreferencePair], renderer: ChatRenderer, max_context: int, where: str
) -> list[RenderedPair]:
    """DataError names the pair that the chat template refuses, or that is longer than `max_context` tokens."""
    _check_tokens(pairs[:CHUNK], renderer, where)
    rendered = []
    for number, pair in enumerate(pairs, start=1):
        try:
            chosen, rejected = (_sample(pair, answer, renderer) for answer in (pair.chosen, pair.rejected))
        except DataError as error:
            raise DataError(f"{where}, pair {number}: {error}") from error
        longest = max(len(chosen), len(rejected))
        if longest > max_context:
            raise DataError(
                f"{where}, pair {number}: has {longest} tokens and the context {max_context}: shorten it, leave it "
                "out, or raise model.max_context if the model allows it"
            )
        seen = (_seen(pair.chosen, chosen, renderer), _seen(pair.rejected, rejected, renderer))
        rendered.append(RenderedPair(prompt=pair.id, chosen=chosen, rejected=rejected, margin=pair.margin, seen=seen))
    return rendered


def _sample(pair: PreferencePair, answer: Answer, renderer: ChatRenderer) -> TrainingSample:
    """Prompt and answer; the mask is on what the assistant says in the answer, not on its turns in the prompt."""
    if answer.sample is not None:
        return answer.sample
    sample = renderer.teach([*pair.prompt, *answer.messages], pair.tools)
    starts = np.flatnonzero(np.diff(sample.loss_mask.astype(np.int8), prepend=0) == 1)
    turns = sum(message.role == "assistant" for message in answer.messages)
    own = np.arange(len(sample)) >= starts[max(0, len(starts) - turns)]
    return replace(sample, loss_mask=sample.loss_mask & own)


def _check_tokens(pairs: Sequence[PreferencePair], renderer: ChatRenderer, where: str) -> None:
    """DataError where tokens that were sampled do not say what they said: they are another tokenizer's."""
    answers = [answer for pair in pairs for answer in (pair.chosen, pair.rejected)]
    known = [answer for answer in answers if answer.sample is not None and answer.text.strip()]
    if known and not any(_says_its_text(answer, renderer) for answer in known):
        raise DataError(f"{where}: its rollouts were sampled with another tokenizer; take a run of this model's family")


def _says_its_text(answer: Answer, renderer: ChatRenderer) -> bool:
    """Of the first turn alone, which the text begins with; one that calls a tool says something else."""
    if answer.sample is None:
        return True
    mask = answer.sample.loss_mask
    first = int(mask.argmax())
    length = int((~mask[first:]).argmax()) or len(mask) - first
    said = renderer.decode(answer.sample.token_ids[first : first + length].tolist()).strip()
    return "<tool_call>" in said or (said != "" and answer.text.strip().startswith(said))


def _seen(answer: Answer, sample: TrainingSample, renderer: ChatRenderer) -> Seen:
    finished = int(sample.token_ids[-1]) in renderer.end_ids
    return Seen(text=answer.text, num_tokens=int(sample.loss_mask.sum()), finished=finished)


def pair_batches(
    pairs: Sequence[RenderedPair], *, batch_size: int, seed: int, kind: str, reference: Reference | None = None
) -> BatchAt:
    """Batches of pairs, a pure function of the step: every epoch is a new shuffle of all pairs.

    The loss is the mean over the pairs of the batch. A pair is a ticket of its own, so its prompt is computed once.
    """

    def batch_at(step: int) -> Batch:
        places = shuffled_places(len(pairs), (step - 1) * batch_size, batch_size, seed, kind)
        samples = _samples([pairs[place] for place in places])
        zeros = tuple(np.zeros(len(sample), np.float32) for sample in samples)
        known = None if reference is None else tuple(part for place in places for part in reference[place])
        return Batch(
            samples=samples,
            advantages=zeros,
            weights=zeros,
            ref_logprobs=known,
            pairs=tuple(
                Pair(chosen=2 * n, rejected=2 * n + 1, weight=1 / batch_size, margin=pairs[place].margin)
                for n, place in enumerate(places)
            ),
        )

    return batch_at


def _samples(pairs: Sequence[RenderedPair]) -> tuple[TrainingSample, ...]:
    return tuple(
        replace(sample, ticket=ticket, index=index)
        for ticket, pair in enumerate(pairs)
        for index, sample in enumerate((pair.chosen, pair.rejected))
    )


async def train_on_pairs(
    shop: Workshop,
    stage: StageConfig,
    model: Path,
    place: Path,
    checkpoints: CheckpointFolder,
    log: MetricsLog,
    keep_costs: Callable[[], None],
) -> tuple[TorchLearner, Callable[[Path], None] | None]:
    """Train from `model`, or go on, and write the report on held-out pairs.

    Returns the learner, and of a reward model what exports it, since it is no policy.
    """
    where = f"stage {stage.title!r}"
    train, held_out = (
        render_pairs(pairs, shop.renderer, shop.engine.max_context, where)
        for pairs in load_pairs(stage, None if shop.folder is None else shop.folder.path)
    )
    learner = _learner(shop, stage, model)
    reference = held_out_reference = None
    if stage.stage == "preference":  # before a checkpoint is loaded: the reference is where training starts
        used = {*shuffled_places(len(train), 0, stage.steps * stage.batch_size, shop.config.seed, stage.stage)}
        show = partial(shop.sinks.step, f"{stage.title} reference", metrics={})
        store = ReferenceStore(learner, place, lambda done, total: show(step=done, num_steps=total))
        reference = await store.logprobs("train", train, sorted(used))
        held_out_reference = await store.logprobs("held-out", held_out, range(len(held_out)))
    saved = checkpoints.latest()
    if saved is not None:
        learner.load(saved.path)

    def record(step: int, metrics: Mapping[str, float]) -> None:
        log.append(step, metrics)
        keep_costs()
        shop.sinks.step(stage.title, step, stage.steps, metrics)
        for remark in skipped(step, metrics):
            log_to.warning(remark)

    await fit(
        learner,
        pair_batches(train, batch_size=stage.batch_size, seed=shop.config.seed, kind=stage.stage, reference=reference),
        record,
        saving(stage, learner, checkpoints),
        num_steps=stage.steps,
        first_step=saved.step + 1 if saved is not None else 1,
    )
    gains = await _gains(learner, held_out, stage, held_out_reference)
    report = pair_report(stage.title, train, held_out, gains)
    write_whole(place / REPORT_FILE, report.to_json().encode())
    if stage.stage == "preference":
        return learner, None
    export = partial(_export_scorer, learner=learner, ends=shop.renderer.end_ids, gains=gains, report=report)
    return learner, export


def _learner(shop: Workshop, stage: StageConfig, model: Path) -> TorchLearner:
    settings = build.learner_config(shop.config, stage)
    if stage.stage == "preference":
        dpo = Dpo(**stage.preference.model_dump())
        version = shop.engine.version + 1
        return load_learner(model, settings, loss=dpo, total_updates=stage.steps, start_version=version)
    loss = BradleyTerry(**stage.reward_model.model_dump())
    learner = load_learner(model, settings, loss=loss, total_updates=stage.steps, needs=("score",))
    check_scorable(learner.policy)
    return learner


@dataclass(frozen=True)
class ReferenceStore:
    """Logprobs of the policy before its first update, computed once for a stage and kept in its folder."""

    learner: TorchLearner
    folder: Path
    progress: Callable[[int, int], None]

    async def logprobs(self, name: str, pairs: Sequence[RenderedPair], numbers: Sequence[int]) -> Reference:
        """Of the pairs with these numbers, by number."""
        samples = _samples([pairs[number] for number in numbers])
        file = self.folder / f"reference-{name}.npz"
        key = hashlib.sha256(b"".join(sample.token_ids.tobytes() for sample in samples)).hexdigest()
        flat = _read_reference(file, key)
        if flat is None:
            flat = np.concatenate(await self._compute(samples))
            content = io.BytesIO()
            np.savez(content, key=np.array(key), logprobs=flat)
            write_whole(file, content.getvalue())
        parts = np.split(flat, np.cumsum([len(sample) for sample in samples])[:-1])
        return {number: (parts[2 * n], parts[2 * n + 1]) for n, number in enumerate(numbers)}

    async def _compute(self, samples: Sequence[TrainingSample]) -> list[FloatArray]:
        found: list[FloatArray] = []
        for start in range(0, len(samples), 2 * CHUNK):
            outputs = await self.learner.forward(samples[start : start + 2 * CHUNK], ("old",))
            found += [output.logprobs for output in outputs["old"]]
            self.progress(len(found) // 2, len(samples) // 2)
        return found


def _read_reference(file: Path, key: str) -> FloatArray | None:
    if not file.is_file():
        return None
    with np.load(file) as content:
        return content["logprobs"] if str(content["key"]) == key else None


async def _gains(
    learner: TorchLearner, pairs: Sequence[RenderedPair], stage: StageConfig, reference: Reference | None
) -> Gains:
    """Scores, or under DPO the implicit rewards beta (log pi - log ref)."""
    need = "score" if stage.stage == "reward_model" else "old"
    values: list[float] = []
    for start in range(0, len(pairs), CHUNK):
        samples = _samples(pairs[start : start + CHUNK])
        outputs = (await learner.forward(samples, (need,)))[need]
        for n, (sample, output) in enumerate(zip(samples, outputs, strict=True)):
            if output.values is not None:
                values.append(float(output.values[-1]))
            elif reference is not None:
                change = (output.logprobs - reference[start + n // 2][n % 2])[sample.loss_mask]
                values.append(
                    stage.preference.beta * float(change.mean() if stage.preference.length_normalised else change.sum())
                )
    return list(zip(values[::2], values[1::2], strict=True))


def pair_report(name: str, train: Sequence[RenderedPair], held_out: Sequence[RenderedPair], gains: Gains) -> PairReport:
    baselines = baseline_margins([pair.seen for pair in train], [pair.seen for pair in held_out])
    return PairReport(
        model=name,
        results=tuple(
            PairResult(prompt=pair.prompt, margin=chosen - rejected, length_only=by_length, format_only=by_format)
            for pair, (chosen, rejected), by_length, by_format in zip(
                held_out, gains, baselines["length_only"], baselines["format_only"], strict=True
            )
        ),
    )


def _export_scorer(
    folder: Path, *, learner: TorchLearner, ends: frozenset[int], gains: Gains, report: PairReport
) -> None:
    """The classifier, and what its scores are like on held-out answers, by which the reward scales them."""
    export_scorer(learner.policy, folder, ends=ends)
    accuracy = report.accuracy().value
    scale = {"score_mean": float(np.mean(gains)), "score_std": float(np.std(gains)), "pair_accuracy": accuracy}
    write_whole(folder / SCALE_FILE, json.dumps(scale, indent=1).encode())
