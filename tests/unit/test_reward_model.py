"""A reward model as others load it, and as it serves: scores, batches, normalisation, deaths, bad folders."""

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_model, make_tokenizer
from making import completion
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    Mamba2Config,
    Mamba2ForCausalLM,
    RobertaConfig,
    RobertaForCausalLM,
)

from strop.algorithms.pair_loss import BradleyTerry
from strop.config.resolve import REWARDS, make_callable
from strop.config.schema import LearnerConfig, LoraConfig, RewardConfig
from strop.core.errors import ConfigError, DataError, InfraError, RewardError
from strop.core.protocols import Domain, NamedReward
from strop.core.types import NOT_SAMPLED, Message, Rollout, RolloutGroup, SamplingParams, Task, TrainingSample, Turn
from strop.learner.learner import load_learner
from strop.learner.policy import Policy
from strop.learner.score_export import check_scorable, export_scorer
from strop.rewards.reward_model import LEAST_SPREAD, RewardModelReward, RewardModels
from strop.rewards.scoring_process import MAX_STARTS, ScorerSettings, ScoringProcess
from strop.rewards.scoring_worker import load_scorer, score, serve
from strop.scoring.score import Scorer

TASK = Task(id="t", domain="d", prompt=(Message(role="user", content="q"),))


def reward_learner(folder, **config):
    settings = LearnerConfig(**{"device": "cpu", **config})
    learner = load_learner(folder, settings, loss=BradleyTerry(), total_updates=1, needs=("score",))
    with torch.no_grad():
        learner.policy.value_head.weight.copy_(torch.linspace(-0.2, 0.2, learner.policy.value_head.in_features))
    return learner


@pytest.fixture(scope="module")
def exported(tiny_model, tmp_path_factory):
    """A reward model whose answers end with the token that the policy pads with."""
    tokenizer = make_tokenizer()
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
    folder = tmp_path_factory.mktemp("scorer") / "reward_model"
    export_scorer(reward_learner(tiny_model).policy, folder, ends={tokenizer.eos_token_id})
    (folder / "reward_model.json").write_text(json.dumps({"score_mean": 0.5, "score_std": 2.0}))
    return folder


def texts():
    end = make_tokenizer().eos_token
    return [f"what is {n}?" + " well" * n + end for n in range(5)]


def encoded():
    return [np.array(make_tokenizer()(text)["input_ids"], np.int32) for text in texts()]


async def learner_scores(learner, sequences):
    samples = [
        TrainingSample(
            token_ids=ids,
            loss_mask=np.arange(len(ids)) > 0,
            versions=np.full(len(ids), NOT_SAMPLED),
            ticket=number,
        )
        for number, ids in enumerate(sequences)
    ]
    return [float(o.values[-1]) for o in (await learner.forward(samples, ("score",)))["score"]]


async def test_transformers_gives_the_scores_of_the_learner_alone_and_padded(tiny_model, exported):
    wanted = await learner_scores(reward_learner(tiny_model), encoded())
    assert statistics.pstdev(wanted) > 1e-2
    model = AutoModelForSequenceClassification.from_pretrained(exported).eval()
    tokenizer = AutoTokenizer.from_pretrained(exported)
    assert model.config.num_labels == 1 and tokenizer.pad_token_id == model.config.pad_token_id
    with torch.no_grad():
        alone = [float(model(**tokenizer(text, return_tensors="pt")).logits) for text in texts()]
        padded = model(**tokenizer(texts(), return_tensors="pt", padding=True)).logits.squeeze(-1).tolist()
    assert alone == pytest.approx(wanted, abs=1e-4)
    assert padded == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("kind", ["lora", "gpt2"])
async def test_adapters_are_merged_and_other_families_are_exported(tiny_model, tmp_path, kind):
    if kind == "gpt2":
        torch.manual_seed(0)
        tokenizer = make_tokenizer()
        sizes = {"vocab_size": len(tokenizer), "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
        GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.3)).save_pretrained(tmp_path / "base")
        tokenizer.save_pretrained(tmp_path / "base")
        learner = reward_learner(tmp_path / "base")
    else:
        learner = reward_learner(tiny_model, lora=LoraConfig(rank=2))
        for name, parameter in learner.policy.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.3)
    check_scorable(learner.policy)
    export_scorer(learner.policy, tmp_path / "out", ends={make_tokenizer().eos_token_id})
    model = load_scorer(tmp_path / "out", "cpu", "float32")
    assert score(model, encoded(), 4096) == pytest.approx(await learner_scores(learner, encoded()), abs=1e-4)


def test_families_that_transformers_cannot_score_are_refused_before_training():
    state = Mamba2Config(vocab_size=40, hidden_size=32, num_hidden_layers=1, num_heads=4, head_dim=16, n_groups=1)
    with pytest.raises(ConfigError, match="can classify sequences with, which 'mamba2' is not; start from another"):
        check_scorable(Policy(Mamba2ForCausalLM(state), None, None, False, True))
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    dense = RobertaConfig(**sizes, intermediate_size=32, is_decoder=True)
    with pytest.raises(ConfigError, match=r"by more than a row of weights .*; start from another model"):
        check_scorable(Policy(RobertaForCausalLM(dense), None, None, False, True))


@pytest.mark.parametrize("bound", [1, 40, 4096])
def test_how_sequences_are_batched_changes_no_score(exported, bound):
    model = load_scorer(exported, "cpu", "float32")
    sequences = [*encoded(), encoded()[2][:-1], encoded()[0]]
    alone = [score(model, [ids], 4096)[0] for ids in sequences]
    assert score(model, sequences, bound) == pytest.approx(alone, abs=1e-5)


def test_waiting_requests_are_computed_together_and_a_bad_one_spoils_none(exported):
    model = load_scorer(exported, "cpu", "float32")
    sizes = []
    model.register_forward_pre_hook(lambda _, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True)
    ours, theirs = Pipe()
    sequences = encoded()
    too_long = np.zeros(model.config.max_position_embeddings + 1, np.int32)
    for number, asked in enumerate([sequences[:2], sequences[2:3], sequences[3:]]):
        ours.send((number, asked))
    worker = threading.Thread(target=serve, args=(theirs, model, 4096), daemon=True)
    worker.start()
    answers = dict(ours.recv() for _ in range(3))
    assert sizes == [5]
    assert [value for n in range(3) for value in answers[n]] == pytest.approx(score(model, sequences, 4096), abs=1e-5)
    for number, asked in enumerate([[too_long], sequences[:1], [np.array([10**6], np.int32)]]):
        ours.send((number, asked))
    answers = dict(ours.recv() for _ in range(3))
    assert answers[0][0] == "reward" and "lower sampling.max_tokens" in answers[0][1]
    assert answers[1] == pytest.approx(score(model, sequences[:1], 4096), abs=1e-5)
    assert answers[2][0] == "infra"
    ours.close()
    worker.join(30)
    assert not worker.is_alive()


def rollout(index, text="hello", given=(65, 66)):
    ids = make_tokenizer()(text)["input_ids"]
    turns = ()
    if text:
        message = Message(role="assistant", content=text)
        turns = (Turn(input_ids=np.array(given), continues=False, completion=completion(ids), message=message),)
    return Rollout(task_id="t", index=index, turns=turns, status="ok")


def settings(folder, **changes):
    wanted = {"device": "cpu", "dtype": "float32", "threads": 1, "max_batch_tokens": 4096}
    return ScorerSettings(folder=str(folder), **{**wanted, **changes})


class Fixed(RewardModels):
    """Reward models that answer what they are told to: the arithmetic of the reward needs no process."""

    def __init__(self, folder, scores):
        super().__init__()
        self.folder, self.scores = folder, scores

    def find(self, path, stage):
        return self.folder

    def process(self, settings):
        return self

    async def score(self, sequences):
        return self.scores[: len(sequences)]


async def test_scores_are_normalised_within_the_group_else_by_held_out_pairs(exported):
    reward = RewardModelReward(stage="s", reward_models=Fixed(exported, [3.0, 1.0, 5.0, 7.0]))
    group = [rollout(n) for n in range(4)]
    values = [s.value for s in await reward(group, TASK)]
    assert values == pytest.approx([-1 / 5**0.5, -3 / 5**0.5, 1 / 5**0.5, 3 / 5**0.5])
    alone = await reward(group[0], TASK)
    assert alone.value == pytest.approx((3.0 - 0.5) / 2.0) and alone.detail == "score 3.0000"
    assert [s.value for s in await reward(group[:1], TASK)] == pytest.approx([1.25])
    close = RewardModelReward(stage="s", reward_models=Fixed(exported, [1.0, 1.002]))
    assert [s.value for s in await close(group[:2], TASK)] == pytest.approx([-0.001 / (LEAST_SPREAD * 2), 0.005])
    shift = RewardModelReward(stage="s", reward_models=Fixed(exported, [103.0, 101.0, 105.0, 107.0]))
    assert [s.value for s in await shift(group, TASK)] == pytest.approx(values)
    bounded = replace(reward, sigmoid=True)
    assert [s.value for s in await bounded(group, TASK)] == pytest.approx([1 / (1 + np.exp(-v)) for v in values])


async def test_a_rollout_that_says_nothing_and_a_stage_to_come_do_not_apply(exported, tmp_path):
    reward = RewardModelReward(stage="s", reward_models=Fixed(exported, [3.0, 1.0]))
    values = await reward([rollout(0), rollout(1, ""), rollout(2)], TASK)
    assert [s.outcome for s in values] == ["scored", "not_applicable", "scored"]
    assert values[0].value == pytest.approx(1.0) and values[2].value == pytest.approx(-1.0)
    early = RewardModelReward(stage="later", reward_models=RewardModels(tmp_path))
    assert [s.outcome for s in await early([rollout(0)], TASK)] == ["not_applicable"]
    assert "'later' has left no reward model yet" in (await early(rollout(0), TASK)).detail


async def test_it_serves_beside_the_loop_and_is_started_again_once(exported):
    """One process for all of it: each start loads libraries."""
    models = RewardModels()
    reward = RewardModelReward(path=str(exported), device="cpu", threads=1, reward_models=models)
    process = models.process(settings(exported, max_batch_tokens=reward.max_batch_tokens))
    assert process.num_starts == 0  # building it costs nothing
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    answers = [f"answer {n}" for n in range(6)]
    single = await asyncio.gather(*(reward(rollout(n, text), TASK) for n, text in enumerate(answers)))
    assert ticks > 5
    ticking.cancel()
    model = load_scorer(exported, "cpu", "float32")
    raw = score(model, [np.array([65, 66, *make_tokenizer()(text)["input_ids"]], np.int32) for text in answers], 4096)
    assert [s.value for s in single] == pytest.approx([(value - 0.5) / 2.0 for value in raw], abs=1e-4)
    assert models.process(process.settings) is process and process.num_starts == 1

    named = NamedReward(name="rm", fn=reward, per="group", timeout_s=900.0)
    domain = Domain(
        name="d", tasks=(), held_out=(), environment=None, rewards=(named,), sampling=SamplingParams(max_tokens=1)
    )
    group = RolloutGroup(ticket=0, attempt=0, task=TASK, rollouts=tuple(rollout(n, t) for n, t in enumerate(answers)))
    os.kill(process.pid, signal.SIGKILL)
    scored = await Scorer().group(group, domain)  # a death is retried, and the second life serves
    assert [r.reward.scores["rm"].outcome for r in scored.rollouts] == [
        "scored"
    ] * 6 and process.num_starts == MAX_STARTS
    assert statistics.fmean(r.total for r in scored.rollouts) == pytest.approx(0.0, abs=1e-6)

    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(InfraError):
        while True:  # until the death is known
            await process.score(encoded())
    with pytest.raises(InfraError, match="ended 2 times: exit code -9"):
        await process.score(encoded())
    scored = await Scorer().group(group, domain)
    assert {r.reward.scores["rm"].outcome for r in scored.rollouts} == {"infra"}
    assert all(r.total is None for r in scored.rollouts)
    models.close()


PARENT = """
import asyncio, sys, time
from strop.rewards.scoring_process import ScorerSettings, ScoringProcess
process = ScoringProcess(
    ScorerSettings(folder=sys.argv[1], device="cpu", dtype="float32", threads=1, max_batch_tokens=64)
)
asyncio.run(process.score([[1, 2, 3]]))
print(process.pid, flush=True)
time.sleep(600)
"""


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:4]
    except FileNotFoundError:
        return False


def test_the_process_dies_with_a_parent_that_is_killed_and_needs_no_guarded_script(exported, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(exported)], stdout=subprocess.PIPE, text=True)
    with parent:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(pid)


async def test_a_model_that_cannot_be_served_ends_the_run_with_its_reason(tiny_model, exported, tmp_path):
    process = ScoringProcess(settings(tiny_model))
    for _ in range(2):  # no retry can mend it
        with pytest.raises(RewardError, match=r"reward model: .*has no weights for score.weight, so it is no reward"):
            await process.score(encoded())
    assert process.num_starts == 1
    process.close()


def broken(folder, exported, kind):
    if kind == "empty":
        folder.mkdir()
    else:
        shutil.copytree(exported, folder)
        config = json.loads((folder / "config.json").read_text())
        if kind == "labels":
            two = AutoModelForSequenceClassification.from_pretrained(
                exported, num_labels=2, ignore_mismatched_sizes=True
            )
            two.save_pretrained(folder)
        if kind == "config":
            (folder / "config.json").write_text("{")
        if kind == "weights":
            (folder / "model.safetensors").write_bytes(b"none")
        if kind == "type":
            (folder / "config.json").write_text(json.dumps({**config, "model_type": "nothing"}))
    return folder


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("empty", "not a sequence classifier"),
        ("labels", "has 2 labels; a reward model has one"),
        ("config", "not a sequence classifier"),
        ("weights", "not a sequence classifier"),
        ("type", "not a sequence classifier"),
    ],
)
def test_folders_that_hold_no_reward_model(exported, tmp_path, kind, message):
    with pytest.raises(DataError, match=message):
        load_scorer(broken(tmp_path / "folder", exported, kind), "cpu", "float32")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({}, ConfigError, "needs `stage`, or the `path`"),
        (
            {"path": "nowhere"},
            DataError,
            "nowhere: holds no model; give a reward model's folder, or a run's with `stage`",
        ),
        ({"path": "nowhere", "stage": "rm"}, DataError, "no run with the reward model of a stage 'rm'"),
        ({"stage": "rm", "max_batch_tokens": 0}, ConfigError, "max_batch_tokens must be at least 1"),
        ({"stage": "rm", "dtype": "int8"}, ConfigError, "dtype must be"),
        ({"stag": "rm"}, ConfigError, "unknown parameter 'stag'; did you mean 'stage'"),
    ],
)
def test_bad_parameters_are_one_line(params, error, message):
    config = RewardConfig(name="rm", use="reward_model", params=params)
    with pytest.raises(error, match=message):
        make_callable(config, REWARDS, "domain 'd', reward 'rm'")


def test_the_model_of_a_run_is_found_by_its_stage_and_must_read_the_policys_tokens(exported, tiny_model, tmp_path):
    place = tmp_path / "run" / "2-my-rm" / "reward_model"
    shutil.copytree(exported, place)
    models = RewardModels(policy=tiny_model)
    assert RewardModelReward(path=str(tmp_path / "run"), stage="my-rm", reward_models=models)
    assert models.find(str(tmp_path / "run"), "my-rm") == place
    assert RewardModels(tmp_path / "run").find("", "my-rm") == place
    assert RewardModels(tmp_path / "run").find("", "rm") is None
    other = make_model(tmp_path / "other")
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["another"])
    tokenizer.save_pretrained(other)
    with pytest.raises(ConfigError, match="has another tokenizer than the policy"):
        RewardModelReward(path=str(exported), reward_models=RewardModels(policy=other))
