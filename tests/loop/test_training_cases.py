"""Field cases of training that need the whole loop or the learner."""

import json
import logging

import numpy as np
import pytest
import torch
from conftest import make_model, make_tokenizer
from test_tiny_run import recipe, run
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from strop.algorithms.loss import PpoClip
from strop.config.schema import LearnerConfig
from strop.core.batch import Batch
from strop.core.errors import DataError
from strop.core.types import TrainingSample
from strop.learner.learner import load_learner
from strop.storage.records import read_rollouts


def metrics(folder, stage="1-rl"):
    return [json.loads(line) for line in (folder / stage / "metrics.jsonl").read_text().splitlines()]


def always_right(rollout, task):
    return 1.0


def rl(steps=1, **algorithm):
    return {"stage": "rl", "steps": steps, "groups_per_step": 2, "group_size": 4, "algorithm": algorithm}


def same_weights(a, b):
    pairs = zip(*(AutoModelForCausalLM.from_pretrained(f).parameters() for f in (a, b)), strict=True)
    return all(p.equal(q) for p, q in pairs)


@pytest.mark.parametrize("preset", ["strop", "grpo", "rloo", "reinforce_plus_plus", "gdpo"])
def test_equal_rewards_move_nothing_and_say_so(tiny_model, tmp_path, preset):
    """Field case 8."""
    content = recipe(tiny_model, tmp_path, stages=[rl(preset=preset, keep="all")], evaluation={"num_tasks": 1})
    content["rewards"] = [{"name": "accuracy", "use": always_right}]
    folder = run(content)
    (line,) = metrics(folder)
    assert (line["grad_norm"], line["loss"], line["signal_rate"], line["reward"]) == (0.0, 0.0, 0.0, 1.0)
    assert same_weights(tiny_model, folder / "1-rl" / "model")


@pytest.mark.parametrize(
    ("choices", "changes"),
    [
        ({"preset": "strop"}, {}),
        ({"preset": "gdpo", "kl_coef": 0.1, "kl_estimator": "k1"}, {}),
        ({"preset": "ppo"}, {}),
        ({"preset": "dapo"}, {"max_staleness": 2}),
    ],
)
def test_a_step_of_cut_off_rollouts_alone_is_an_update_by_nothing(tiny_model, tmp_path, choices, changes):
    """Field cases 21 and 23: they leave every mask, and their lengths are still reported."""
    stage = {**rl(steps=2, mask_truncated=True, keep="all", **choices), **changes}
    content = recipe(tiny_model, tmp_path, stages=[stage], evaluation={"num_tasks": 1}, sampling={"max_tokens": 1})
    folder = run(content)
    for line in metrics(folder):
        assert (line["truncated_share"], line["completion_tokens"]) == (1.0, 1.0)
        assert (line["loss"], line["grad_norm"], line.get("num_tokens", 0.0)) == (0.0, 0.0, 0.0)
    assert same_weights(tiny_model, folder / "1-rl" / "model")


def test_a_model_without_a_pad_token_is_not_given_an_end_to_pad_with(tmp_path):
    """Field case 26."""
    start = make_model(tmp_path / "start", pad_token_id=None)
    tokenizer = make_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(start)
    content = recipe(start, tmp_path, evaluation={"num_tasks": 1}, stages=[{"stage": "sft", "steps": 1}])
    model = run(content) / "1-sft" / "model"
    assert AutoTokenizer.from_pretrained(model).pad_token is None
    assert GenerationConfig.from_pretrained(model).pad_token_id is None
    loaded = AutoModelForCausalLM.from_pretrained(model)
    drawn = loaded.generate(torch.tensor([[70, 71, 72]]), max_new_tokens=8, do_sample=False)
    assert drawn.shape[1] > 4


def sample(ids, mask, index=0):
    mask = np.array(mask, bool)
    return TrainingSample(
        token_ids=ids,
        loss_mask=mask,
        versions=np.where(mask, 0, -1),
        sampled_logprobs=np.where(mask, -3.0, 0.0),
        index=index,
    )


async def test_what_a_tool_says_is_attended_to_and_not_trained_on(tiny_model):
    """Field case 109: a call, a tool result of 20 tokens, a final answer."""
    learner = load_learner(tiny_model, LearnerConfig(), loss=PpoClip(), total_updates=1)
    call, answer = [70, 71, 72, 73], [90, 91, 92]
    mask = [0] * 2 + [1] * 2 + [0] * 20 + [1] * 3
    said = [sample([*call, *tool, *answer], mask) for tool in (list(range(60, 80)), list(range(61, 81)))]
    plain, other = [(await learner.forward([s], ("old",)))["old"][0].logprobs for s in said]
    assert (plain[:2] == 0).all() and (plain[4:24] == 0).all() and (plain[2:4] < 0).all()
    assert plain[2:4] == pytest.approx(other[2:4], abs=1e-6)
    assert np.abs(plain[24:] - other[24:]).max() > 1e-3


@pytest.mark.parametrize("budget", [4096, 64])
async def test_balancing_by_length_keeps_advantages_with_their_samples(tiny_model, budget):
    """Field case 14: lengths 10, 500, 20 and 400 with advantages 0, 1, 2, 3."""
    seen = {}

    def loss(inputs):
        count = int(inputs.mask.sum())
        seen[count] = {round(float(a), 6) for a in inputs.advantages[inputs.mask]}
        return inputs.logprobs * 0, {}

    config = LearnerConfig(micro_batch_tokens=budget)
    learner = load_learner(tiny_model, config, loss=loss, total_updates=1)
    samples = [sample([70, 71, *([80 + n] * n_sampled)], [0, 0, *[1] * n_sampled], n)
               for n, n_sampled in enumerate((10, 500, 20, 400))]  # fmt: skip
    given = tuple(s.loss_mask * np.float32(n) for n, s in enumerate(samples))
    await learner.update(Batch(samples=tuple(samples), advantages=given, weights=given))
    assert seen == {10: {0.0}, 500: {1.0}, 20: {2.0}, 400: {3.0}}


def test_a_filter_that_drops_everything_stops_at_its_limit(tiny_model, tmp_path, caplog):
    """Field case 94."""
    stage = {**rl(), "max_replacements": 4}
    content = recipe(tiny_model, tmp_path, stages=[stage], evaluation={"num_tasks": 1})
    content["rewards"] = [{"name": "accuracy", "use": always_right}]
    with caplog.at_level(logging.WARNING):
        folder = run(content)
    assert len({row["ticket"] for row in read_rollouts(folder / "1-rl" / "rollouts")}) == 2 + 4
    assert "6 of 6 groups dropped: no signal: every accuracy is 1.0" in caplog.text


@pytest.mark.parametrize("split", ["tasks", "held_out"])
def test_a_prompt_that_fits_only_without_its_tools_is_refused_before_training(tiny_model, tmp_path, split):
    """Field case 114."""
    template = (
        "{% for t in tools or [] %}{{ t.function.description }}{% endfor %}"
        "{% for m in messages %}{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
    )
    content = recipe(tiny_model, tmp_path, stages=[rl()], evaluation={"num_tasks": 1})
    content["model"] = {"path": str(tiny_model), "chat_template": template, "max_context": 60}
    content["sampling"] = {"max_tokens": 4}
    sources = {"tasks": {"use": TWO_WITHOUT_TOOLS}, "held_out": {"use": TWO_WITHOUT_TOOLS}}
    content["domains"] = [{"name": "d", **sources}]
    run(content)
    content["domains"] = [{"name": "d", **sources, split: {"use": TWO_WITH_TOOLS}}]
    with pytest.raises(DataError, match=r"domain d, task \w+-1: the prompt has \d+ tokens and the context 60"):
        run(content)
    assert not list(tmp_path.glob("tiny-2/*/metrics.jsonl"))


TWO_WITHOUT_TOOLS = "test_training_cases:two_plain"
TWO_WITH_TOOLS = "test_training_cases:two_with_tools"


def two_plain(split, description=""):
    from strop.core.types import Message, Task, Tool

    tools = (Tool(name="f", description=description, parameters={}),) if description else ()
    prompt = (Message(role="user", content="hi"),)
    return [
        Task(id=f"{split}{len(description)}-{n}", domain="d", prompt=prompt, tools=tools if n else (), reference="1")
        for n in range(2)
    ]


def two_with_tools(split):
    return two_plain(split, "a long story " * 5)
