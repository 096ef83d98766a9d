"""One optimizer step on everything the mission names: programs, mathematics, open-ended answers and summaries."""

import asyncio
from collections import Counter
from contextlib import closing
from functools import partial

import pytest
from conftest import make_model

import strop
from strop import build
from strop.config.load import parse_config
from strop.rewards.reward_model import RewardModels
from strop.tasks.memory import InMemory
from strop.testing import ByteRenderer, ScriptedSampler
from strop.train import train

OPEN = tuple({"prompt": f"Say something kind about walk {number}."} for number in range(40))
KIND = ("How lovely that is.", "I do not care.")
PAIRS = [{"prompt": row["prompt"], "chosen": KIND[0], "rejected": KIND[1]} for row in OPEN]


def domain(name, tasks, reward, **keys):
    return {"name": name, "tasks": tasks, "rewards": [{"name": "accuracy", **reward}], **keys}


def recipe(model, scorer):
    liked = {"use": "reward_model", "params": {"path": str(scorer), "stage": "reward_model"}}
    code = {"use": "generated_code", "params": {"generator": "complete_function", "size": 12}}
    return {
        "name": "joint",
        "model": {"path": str(model)},
        "sampling": {"max_tokens": 1000},
        "domains": [
            domain("code", code, {"use": "code"}, optional=True),
            domain("math", {"use": "generated", "params": {"generator": "sum", "size": 12}}, {"use": "math"}),
            domain("open", {"use": partial(InMemory, rows=OPEN)}, liked),
            domain("summary", {"use": "summaries", "params": {"size": 12}}, {"use": "summary"}),
        ],
        "stages": [
            {"stage": "rl", "steps": 1, "groups_per_step": 4, "group_size": 4, "algorithm": {"keep": "all"}},
        ],
    }


def answers(domains):
    """A sampler that answers each task right and wrong in turns; the open-ended ones kindly and not."""
    right = {}
    for known in domains:
        for number in range(len(known.tasks)):
            task = known.tasks[number]
            said = {"open": KIND[0], "math": f"\\boxed{{{task.reference}}}"}.get(known.name)
            right[task.prompt[-1].content] = said or task.data["response"]
    asked = Counter()

    def script(prompt_ids, params):
        text = bytes(i for i in prompt_ids.tolist() if i > 2).decode()
        prompt = next(prompt for prompt in right if prompt in text)
        asked[prompt] += 1
        return right[prompt] if asked[prompt] % 2 else KIND[1]

    return ScriptedSampler(script)


async def one_step(config):
    recorded = []
    stage = config.stages[0]

    async def nothing_due(run, step):
        pass

    async with build.open_sandbox_for(config) as (usable, sandbox_of):
        if len(usable.domains) < len(config.domains):
            pytest.skip("programs cannot be confined here")
        with closing(RewardModels(None, build.model_folder(usable))) as reward_models:
            domains = build.build_domains(usable, stage, sandbox_of=sandbox_of, reward_models=reward_models)
            algorithm = build.build_algorithm(stage, domains)
            learner = build.build_learner(usable, stage, build.model_folder(usable), algorithm, start_version=0)
            run = build.build_run(
                usable,
                stage,
                domains=domains,
                algorithm=algorithm,
                learner=learner,
                engine=answers(domains),
                renderer=ByteRenderer(),
                progress=build.Progress(),
                record=lambda run, step, batch, metrics: recorded.append((batch, metrics)),
                due=nothing_due,
            )
            await asyncio.wait_for(train(run), 120)
            assert learner.version == 1
    return recorded


def test_code_math_open_ended_and_summaries_move_one_policy_together(tmp_path):
    model = make_model(tmp_path / "model", max_position_embeddings=4096)
    scorer = strop.reward_model(
        model=str(model), pairs=PAIRS, steps=1, stage={"batch_size": 2}, output=str(tmp_path), quiet=True
    )
    ((batch, metrics),) = asyncio.run(one_step(parse_config(recipe(model, scorer.folder), "test")))
    assert {sample.domain for sample in batch.samples} == {"code", "math", "open", "summary"}
    shares = {name: metrics[f"domain/{name}/gradient_share"] for name in ("code", "math", "open", "summary")}
    assert min(shares.values()) > 0.01 and sum(shares.values()) == pytest.approx(1.0)
    for name in ("code", "math", "summary"):
        assert metrics[f"domain/{name}/pass_rate"] == 0.5
    assert metrics["grad_norm"] > 0
