"""Model folders and training runs gone wrong: each is one clear error, never a hang and never silent noise."""

import asyncio
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import make_model, make_tokenizer
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from strop.build import check_teachable
from strop.cli.export import export_model
from strop.config.schema import EngineConfig, LearnerConfig, LoraConfig
from strop.core.errors import ConfigError, DataError, DivergedError, EngineError
from strop.core.types import SamplingParams, TrainingSample
from strop.engines.loading import load_engine
from strop.engines.renderer import ChatRenderer
from strop.learner.policy import load_policy


def weights(change):
    def spoil(folder):
        tensors = load_file(folder / "model.safetensors")
        save_file(change(tensors), folder / "model.safetensors", {"format": "pt"})

    return spoil


def config(**changes):
    def spoil(folder):
        content = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(content | changes))

    return spoil


def text(name, content):
    return lambda folder: (folder / name).write_text(content)


SPOILT = {
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "no file named"),
    "empty weights": (text("model.safetensors", ""), "header"),
    "weights cut short": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:5000]),
        "not fully covered",
    ),
    "a layer without weights": (config(num_hidden_layers=3), "has no weights for model.layers.2"),
    "another width": (config(hidden_size=64), "not a causal language model"),
    "not finite": (weights(lambda t: {k: v * torch.nan if "norm" in k else v for k, v in t.items()}), "not finite"),
    "no model type": (text("config.json", "{}"), "(?i)model_type|tokenizer"),
    "config cut short": (text("config.json", "{"), "not a valid JSON"),
    "tokenizer cut short": (text("tokenizer.json", "{"), "no tokenizer that transformers loads"),
    "tokenizer of nothing": (text("tokenizer.json", "{}"), "no tokenizer that transformers loads"),
    "generation config cut short": (text("generation_config.json", "{"), "generation_config.json: cannot be read"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_spoilt_model_folder_is_one_error(case, tiny_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    spoil, said = SPOILT[case]
    spoil(folder)
    with pytest.raises(DataError, match=said):
        load_engine(folder, EngineConfig(device="cpu"), ChatRenderer.load(folder))


@pytest.mark.parametrize(
    "template", ["constant", "{{ 1 / 0 }}", "{{ nothing() }}", "{% if", "{{ messages[7].content }}"]
)
def test_a_chat_template_that_cannot_serve_is_one_error(template, tiny_model):
    with pytest.raises(DataError, match="chat template"):
        ChatRenderer.load(tiny_model, template)


def test_a_model_without_a_longest_context_asks_for_one(tmp_path):
    from transformers import BloomConfig, BloomForCausalLM

    tokenizer = make_tokenizer()
    BloomForCausalLM(BloomConfig(vocab_size=len(tokenizer), hidden_size=32, n_layer=1, n_head=4)).save_pretrained(
        tmp_path
    )
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"set model\.max_context"):
        load_engine(tmp_path, EngineConfig(device="cpu"), ChatRenderer.load(tmp_path))


async def ask(engine, ids, calls=1):
    asked = [engine.sample(np.array(ids, np.int32), SamplingParams(max_tokens=2, seed=n)) for n in range(calls)]
    return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)


async def test_a_tokenizer_of_another_model_is_named(tmp_path):
    folder = make_model(tmp_path, vocab_size=200, eos_token_id=1, pad_token_id=1)
    async with load_engine(folder, EngineConfig(device="cpu"), ChatRenderer.load(folder)) as engine:
        (found,) = await ask(engine, [3, 257])
        assert isinstance(found, DataError) and "token 257" in str(found)
        (fine,) = await ask(engine, [3, 199])
        assert len(fine.token_ids)


async def test_an_engine_that_stops_answers_every_call(tiny_model):
    settings = EngineConfig(device="cpu", max_rows=10**9)  # more memory than there is
    async with load_engine(tiny_model, settings, ChatRenderer.load(tiny_model)) as engine:
        found = await ask(engine, [1, 2, 3], calls=5)
        assert all(isinstance(error, EngineError) and "max_rows" in str(error) for error in found)
        with pytest.raises(EngineError):
            await engine.pause("wait")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_weights_that_diverged_end_the_sampling(tiny_model, temperature):
    async with load_engine(tiny_model, EngineConfig(device="cpu"), ChatRenderer.load(tiny_model)) as engine:
        await engine.pause("wait")
        await engine.load(1, [(name, tensor * torch.nan) for name, tensor in engine.model.named_parameters()])
        await engine.resume()
        with pytest.raises(DivergedError, match="learning_rate"):
            await engine.sample(np.array([1, 2], np.int32), SamplingParams(max_tokens=2, temperature=temperature))


def test_the_models_own_dropout_is_off_and_that_of_lora_is_kept(tmp_path):
    GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=32, n_layer=1, n_head=4, n_positions=64)).save_pretrained(tmp_path)
    policy = load_policy(tmp_path, LearnerConfig(device="cpu"))
    assert {module.p for module in policy.modules() if isinstance(module, nn.Dropout)} == {0.0}
    adapted = load_policy(tmp_path, LearnerConfig(device="cpu", lora=LoraConfig(rank=2, dropout=0.25)))
    assert {module.p for module in adapted.modules() if isinstance(module, nn.Dropout)} == {0.0, 0.25}


def test_a_conversation_longer_than_the_context_is_not_taught():
    sample = TrainingSample(token_ids=range(9), loss_mask=[False] + [True] * 8, versions=[-1] * 9)
    check_teachable([sample], SimpleNamespace(max_context=9))
    with pytest.raises(DataError, match="conversation 1 to teach has 9 tokens and the context 8"):
        check_teachable([sample], SimpleNamespace(max_context=8))


def test_the_last_stage_is_exported_however_many_there_are(tmp_path):
    for number in range(1, 12):
        folder = tmp_path / "run" / f"{number}-rl" / "model"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(str(number))
    assert (export_model(tmp_path / "run", tmp_path / "out") / "config.json").read_text() == "11"
