"""The whole loop on a tiny real model: staleness, determinism, resume, export, and the Python API."""

import asyncio
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import strop
import strop.rewards
from strop.cli.export import export_model
from strop.config.load import parse_config
from strop.core.errors import ConfigError
from strop.observability.sinks import Sinks
from strop.stages import name_of, run_recipe
from strop.storage.records import RunFolder, read_rollouts

TIMES = ("time/",)
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def even(rollout, task):
    """A reward that a random model gets half of the time."""
    return float(rollout.turns[-1].completion.token_ids[0] % 2 == 0)


def recipe(model: Path, output: Path, **changes) -> dict:
    content = {
        "name": "tiny",
        "output": str(output),
        "model": {"path": str(model)},
        "engine": {"deterministic": True},
        "learner": {"learning_rate": 1e-3},
        "sampling": {"max_tokens": 6},
        "evaluation": {"num_tasks": 3},
        "rewards": [{"name": "accuracy", "use": even}],
        "domains": [
            {"name": "sum", "tasks": {"use": "generated", "params": {"generator": "sum", "size": 20}}},
            {"name": "largest", "tasks": {"use": "generated", "params": {"generator": "largest", "size": 20}}},
        ],
        "stages": [
            {"stage": "sft", "steps": 2, "batch_size": 4},
            {"stage": "rl", "steps": 4, "groups_per_step": 2, "group_size": 4, "save": {"every_steps": 1, "keep": 9}},
        ],
    }
    return {**content, **changes}


def run(content: dict, folder: Path | None = None) -> Path:
    config = parse_config(content, "test")
    dumped = config.model_dump(mode="json", fallback=name_of)
    place = RunFolder.open(folder, dumped) if folder else RunFolder.create(Path(config.output), config.name, dumped)
    asyncio.run(asyncio.wait_for(run_recipe(config, place, Sinks()), 120))
    return place.path


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "2-rl" / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith(TIMES)} for line in lines]


@pytest.fixture(scope="module")
def unbroken(tiny_model, tmp_path_factory):
    return run(recipe(tiny_model, tmp_path_factory.mktemp("runs")))


def test_two_runs_of_one_seed_are_equal(tiny_model, tmp_path, unbroken):
    assert metrics(run(recipe(tiny_model, tmp_path))) == metrics(unbroken)
    assert [line["step"] for line in metrics(unbroken)] == [1, 2, 3, 4]


def test_another_seed_is_another_run(tiny_model, tmp_path, unbroken):
    assert metrics(run(recipe(tiny_model, tmp_path, seed=1))) != metrics(unbroken)


def test_a_stopped_and_resumed_run_gives_the_metrics_of_the_unbroken_one(tiny_model, tmp_path, unbroken):
    content = recipe(tiny_model, tmp_path)
    folder = run(content)
    for step in (3, 4):  # as if the process had died in step 3, after its metrics were written
        for found in (folder / "2-rl" / "checkpoints").glob(f"step-*{step}"):
            shutil.rmtree(found)
    shutil.rmtree(folder / "2-rl" / "model")
    (folder / "evaluations" / "rl.json").unlink()
    assert run(content, folder) == folder
    assert metrics(folder) == metrics(unbroken)
    attempts = {row["step"]: row["attempt"] for row in read_rollouts(folder / "2-rl" / "rollouts")}
    assert attempts == {1: 0, 2: 0, 3: 1, 4: 1}


def test_staleness_two_runs_and_records_what_it_was(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path, engine={})
    content["stages"] = [
        {"stage": "rl", "steps": 5, "groups_per_step": 2, "group_size": 4, "max_staleness": 2},
    ]
    folder = run(content)
    lines = [json.loads(line) for line in (folder / "1-rl" / "metrics.jsonl").read_text().splitlines()]
    assert max(line["staleness"] for line in lines) <= 2
    for row in read_rollouts(folder / "1-rl" / "rollouts"):
        sampled = [v for versions in row["versions"] for v in versions if v >= 0]
        assert min(sampled) >= row["step"] - 2


def test_versions_only_rise_over_all_stages_of_a_run(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path, evaluation={"num_tasks": 1})
    rl = {"stage": "rl", "groups_per_step": 1, "group_size": 2, "algorithm": {"keep": "all"}}
    content["stages"] = [
        {**rl, "name": "first", "steps": 4},
        {"stage": "sft", "steps": 1, "batch_size": 2},
        {**rl, "name": "last", "steps": 2},
    ]
    folder = run(content)
    versions = [
        {v for row in read_rollouts(folder / place / "rollouts") for part in row["versions"] for v in part if v >= 0}
        for place in ("1-first", "3-last")
    ]
    assert len(versions[0]) == 4 and len(versions[1]) == 2 and max(versions[0]) < min(versions[1])


def test_the_result_loads_in_transformers_and_generates(unbroken):
    model = AutoModelForCausalLM.from_pretrained(unbroken / "2-rl" / "model")
    tokenizer = AutoTokenizer.from_pretrained(unbroken / "2-rl" / "model")
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    generated = model.generate(**ids, max_new_tokens=8, do_sample=False)
    assert generated.shape[1] > ids["input_ids"].shape[1]


def test_every_rollout_is_recorded_with_its_tokens(unbroken):
    rows = read_rollouts(unbroken / "2-rl" / "rollouts")
    assert len(rows) >= 4 * 2 * 4
    for row in rows:
        lengths = [[len(part) for part in row[name]] for name in ("token_ids", "loss_mask", "sampled_logprobs")]
        assert lengths[0] == lengths[1] == lengths[2]
        assert sum(sum(part) for part in row["loss_mask"]) == row["num_tokens"]
        assert row["scores"]["accuracy"]["value"] in (0.0, 1.0)


def test_another_configuration_may_not_go_on_in_the_folder(tiny_model, unbroken):
    with pytest.raises(ConfigError, match="another"):
        run(recipe(tiny_model, unbroken.parent, seed=5), unbroken)


@pytest.mark.parametrize(
    "algorithm", ["grpo", "dr_grpo", "dapo", "rloo", "reinforce_plus_plus", "gspo", "cispo", "gdpo"]
)
def test_every_preset_trains(tiny_model, tmp_path, algorithm):
    content = recipe(tiny_model, tmp_path)
    choices = {"preset": algorithm, "kl_coef": 0.01, "keep": "all"}
    content["stages"] = [
        {"stage": "rl", "steps": 1, "groups_per_step": 2, "group_size": 4, "algorithm": choices},
    ]
    content["evaluation"] = {"num_tasks": 1}
    folder = run(content)
    assert json.loads((folder / "1-rl" / "metrics.jsonl").read_text())["grad_norm"] > 0


def test_ppo_with_a_value_head_trains_at_group_size_one(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path)
    content["stages"] = [
        {"stage": "rl", "steps": 2, "groups_per_step": 4, "group_size": 1, "algorithm": {"preset": "ppo"}},
    ]
    folder = run(content)
    lines = [json.loads(line) for line in (folder / "1-rl" / "metrics.jsonl").read_text().splitlines()]
    assert all(line["value_error"] > 0 for line in lines)


def test_a_game_of_several_turns_trains(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path)
    content["rewards"] = [{"name": "accuracy", "use": "found_number"}]
    content["domains"] = [
        {
            "name": "guess",
            "tasks": {"use": "guess_number", "params": {"size": 20}},
            "environment": {"use": "guess_number", "params": {"max_guesses": 3}},
            "max_turns": 3,
        }
    ]
    stop = {"max_tokens": 4, "stop": ["a", "e", "0"]}
    stage = {"stage": "rl", "steps": 1, "groups_per_step": 2, "group_size": 4, "algorithm": {"keep": "all"}}
    content["stages"], content["sampling"] = [stage], stop
    rows = read_rollouts(run(content) / "1-rl" / "rollouts")
    turns = [sum(a < b for a, b in pairwise(m)) for row in rows for m in row["loss_mask"]]
    assert max(turns) > 1


def test_lora_exports_an_adapter_and_merges(tiny_model, tmp_path):
    content = recipe(tiny_model, tmp_path)
    content["learner"] = {"learning_rate": 1e-2, "lora": {"rank": 2}}
    content["stages"] = [
        {"stage": "rl", "steps": 2, "groups_per_step": 2, "group_size": 4, "algorithm": {"keep": "all"}},
    ]
    folder = run(content)
    assert (folder / "1-rl" / "model" / "adapter_config.json").is_file()
    merged = export_model(folder, tmp_path / "merged", merge=True)
    plain, base = (AutoModelForCausalLM.from_pretrained(p) for p in (merged, tiny_model))
    changed = [n for (n, a), b in zip(plain.named_parameters(), base.parameters(), strict=True) if not a.equal(b)]
    assert changed


def test_the_python_api_takes_functions_and_rows(tiny_model, tmp_path):
    rows = [{"prompt": f"Say {word}", "answer": word} for word in WORDS]
    result = strop.train(
        model=str(tiny_model),
        domains={"mine": rows},
        rewards=[even],
        algorithm={"preset": "grpo", "keep": "all"},
        steps=1,
        stage={"groups_per_step": 2, "group_size": 2},
        sampling={"max_tokens": 4},
        evaluation={"num_tasks": 1},
        output=str(tmp_path),
        quiet=True,
    )
    assert set(result.reports) == {"base", "rl"}
    assert (result.model / "config.json").is_file()


def test_a_trl_reward_is_used_as_it_is(tiny_model, tmp_path):
    def long_enough(prompts, completions, answer, **kwargs):
        assert prompts[0][0]["role"] == "user"
        return [
            float(len(c[0]["content"]) > 2) if a != "skip" else None for c, a in zip(completions, answer, strict=True)
        ]

    result = strop.train(
        model=str(tiny_model),
        domains={"mine": [{"prompt": f"Say {n}", "answer": str(n)} for n in range(12)]},
        rewards=[strop.rewards.from_trl(long_enough)],
        algorithm={"keep": "all"},
        steps=1,
        stage={"groups_per_step": 1, "group_size": 2},
        sampling={"max_tokens": 4},
        evaluation={"num_tasks": 1},
        output=str(tmp_path),
        quiet=True,
    )
    rows = read_rollouts(result.folder / "1-rl" / "rollouts")
    assert {row["scores"]["long_enough"]["value"] for row in rows} <= {0.0, 1.0}


def test_what_a_user_must_hear_is_said_at_once(tiny_model, tmp_path, caplog):
    content = recipe(tiny_model, tmp_path)
    content["rewards"] = [{"name": "accuracy", "use": never}]
    content["evaluation"] = {"num_tasks": 1, "every_steps": 1}
    content["stages"] = [
        {"stage": "rl", "steps": 2, "groups_per_step": 2, "group_size": 2, "max_replacements": 3},
    ]
    folder = run(content)
    assert "were cut off; raise sampling.max_tokens" in caplog.text
    assert "step 1: nothing to train on, 5 of 5 groups dropped: no signal" in caplog.text
    assert sorted(f.stem for f in (folder / "evaluations").glob("*.json")) == ["base", "rl", "rl-step-1"]


def never(rollout, task):
    return 0.0
