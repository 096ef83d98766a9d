"""The engine over model families that attend in their own ways, and what it does where it cannot run."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_tokenizer
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GenerationConfig,
    GPTNeoXConfig,
    MambaConfig,
    MistralConfig,
    OlmoConfig,
    Qwen3Config,
    Qwen3MoeConfig,
)

from strop.config.schema import EngineConfig
from strop.core.errors import DataError
from strop.core.types import Completion, Message, SamplingParams, ToolCall
from strop.engines import sampling
from strop.engines.loading import load_engine
from strop.engines.renderer import ChatRenderer
from strop.engines.tool_calls import TOOL_CALL

SIZES = {
    "vocab_size": 258,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 96,
    "initializer_range": 0.3,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": 256,
}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 8}
FAMILIES = {
    "mistral, window of 8": MistralConfig(**GROUPED, sliding_window=8),
    "gemma2, window and capped scores": Gemma2Config(
        **GROUPED, sliding_window=8, attn_logit_softcapping=2.0, query_pre_attn_scalar=8
    ),
    "qwen3": Qwen3Config(**GROUPED),
    "qwen3 mixture of experts": Qwen3MoeConfig(
        **GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
    ),
    "gpt-neox": GPTNeoXConfig(**SIZES),
    "olmo": OlmoConfig(**SIZES),
}


def write(config, folder: Path) -> Path:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def prompt_of(length: int, first: int = 60) -> np.ndarray:
    return (first + np.arange(length) * 7 % 90).astype(np.int32)


@pytest.mark.parametrize("family", FAMILIES)
async def test_logprobs_are_those_of_transformers(family, tmp_path):
    folder = write(FAMILIES[family], tmp_path / "model")
    plain = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    prompts = [prompt_of(4), prompt_of(21), prompt_of(12, first=75)]
    async with load_engine(folder, EngineConfig(), ChatRenderer.load(folder)) as engine:
        found = await asyncio.gather(*(engine.sample(p, SamplingParams(max_tokens=12, seed=1)) for p in prompts))
        later = np.concatenate([prompts[1], found[1].token_ids, prompt_of(3)]).astype(np.int32)
        found.append(await engine.sample(later, SamplingParams(max_tokens=12, seed=2)))
    for prompt, done in zip([*prompts, later], found, strict=True):
        ids = torch.tensor([*prompt.tolist(), *done.token_ids.tolist()])
        with torch.no_grad():
            logprobs = plain(ids[None]).logits[0].float().log_softmax(-1)
        expected = logprobs[len(prompt) - 1 : -1].gather(1, ids[len(prompt) :, None]).squeeze(1).numpy()
        assert np.abs(expected - done.logprobs).max() < 1e-4


def test_a_model_that_does_not_fit_is_refused_in_one_line(tmp_path):
    config = MambaConfig(vocab_size=258, hidden_size=32, state_size=4, num_hidden_layers=2, eos_token_id=256)
    config.max_position_embeddings = 96
    folder = write(config, tmp_path / "mamba")
    with pytest.raises(DataError, match="use another model") as caught:
        load_engine(folder, EngineConfig(), ChatRenderer.load(folder))
    assert "\n" not in str(caught.value)


async def test_later_turns_of_different_lengths_are_computed_together(tiny_model):
    async with load_engine(tiny_model, EngineConfig(), ChatRenderer.load(tiny_model)) as engine:
        prompts = [prompt_of(5 + 9 * n, first=60 + n) for n in range(4)]
        first = await asyncio.gather(
            *(engine.sample(p, SamplingParams(max_tokens=5 + n)) for n, p in enumerate(prompts))
        )
        turns = [
            np.concatenate([p, done.token_ids, prompt_of(1 + 4 * n)]).astype(np.int32)
            for n, (p, done) in enumerate(zip(prompts, first, strict=True))
        ]
        before = engine.statistics["prefill_tokens"]
        greedy = SamplingParams(max_tokens=8, temperature=0.0)
        together = await asyncio.gather(*(engine.sample(turn, greedy) for turn in turns))
        assert engine.statistics["prefill_tokens"] - before == sum(2 + 4 * n for n in range(4))
    async with load_engine(tiny_model, EngineConfig(), ChatRenderer.load(tiny_model)) as engine:
        alone = [await engine.sample(turn, greedy) for turn in turns]
    assert [t.token_ids.tolist() for t in together] == [a.token_ids.tolist() for a in alone]


async def test_prompts_beyond_one_pass_are_computed_in_parts(tmp_path):
    config = MistralConfig(**{**GROUPED, "max_position_embeddings": 6000}, sliding_window=None)
    folder = write(config, tmp_path / "long")
    prompt = prompt_of(4500)
    async with load_engine(folder, EngineConfig(), ChatRenderer.load(folder)) as engine:
        done = await engine.sample(prompt, SamplingParams(max_tokens=2, temperature=0.0))
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(folder)(torch.from_numpy(prompt).long()[None]).logits[0, -1]
    assert done.token_ids[0] == int(logits.argmax())


async def test_deterministic_runs_are_bitwise_equal_whatever_the_batch(tiny_model):
    params = [SamplingParams(max_tokens=8, seed=n) for n in range(5)]
    found = []
    for together in (True, False):
        config = EngineConfig(deterministic=True)
        async with load_engine(tiny_model, config, ChatRenderer.load(tiny_model)) as engine:
            calls = [engine.sample(prompt_of(6), p) for p in params]
            done = await asyncio.gather(*calls) if together else [await call for call in calls]
            found.append([(d.token_ids.tobytes(), d.logprobs.tobytes()) for d in done])
    assert found[0] == found[1]


async def test_calls_before_within_and_after_the_close_do_not_hang(tiny_model):
    engine = load_engine(tiny_model, EngineConfig(), ChatRenderer.load(tiny_model))
    for call in (engine.sample(prompt_of(4), SamplingParams(max_tokens=2)), engine.pause("wait")):
        with pytest.raises(RuntimeError, match="enter the engine first"):
            await asyncio.wait_for(call, 5)
    async with engine:
        running = asyncio.ensure_future(engine.sample(prompt_of(4), SamplingParams(max_tokens=400, seed=2)))
        await asyncio.sleep(0.01)
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.wait_for(running, 5)
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.wait_for(engine.sample(prompt_of(4), SamplingParams(max_tokens=2)), 5)
    async with engine:
        assert len((await engine.sample(prompt_of(4), SamplingParams(max_tokens=1))).token_ids) == 1


@pytest.mark.parametrize("chunk", [("model.nothing", torch.zeros(3)), ("model.norm.weight", torch.zeros(1))])
async def test_weights_of_another_model_are_refused(tiny_model, chunk):
    async with load_engine(tiny_model, EngineConfig(), ChatRenderer.load(tiny_model)) as engine:
        await engine.pause("wait")
        with pytest.raises(DataError, match=f"no parameter {chunk[0]}"):
            await engine.load(1, [chunk])


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 700}, {"top_k": 700, "top_p": 0.9}, {"top_p": 1e-9}])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_kept_ids_are_those_of_a_full_sort(cut, spread):
    logits = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * spread
    ids = logits.argsort(descending=True)[: cut.get("top_k", 5000)]
    probabilities = logits[ids].double().softmax(0)
    before = probabilities.cumsum(0) - probabilities
    expected = ids[before < cut.get("top_p", 1.0)]
    kept = sampling.kept_ids(logits, SamplingParams(max_tokens=1, **cut))
    assert abs(len(kept) - len(expected)) <= 1  # float32 may put the border one token off
    assert len(set(kept.tolist()) ^ set(expected.tolist())) <= 1


def test_a_draw_at_the_very_end_takes_a_possible_token():
    logits = torch.full((1, 100), float("-inf"))
    logits[0, [3, 40]] = torch.tensor([0.3, -0.2])
    highest = 1.0 - 2.0**-52
    normaliser = logits.logsumexp(-1)
    assert sampling._invert(logits, normaliser, [highest]).tolist() == [40]
    assert sampling._invert(logits, normaliser, [0.0]).tolist() == [3]


def test_the_end_token_of_the_template_ends_turns_too(tiny_model, tmp_path):
    tokenizer = make_tokenizer()
    tokenizer.eos_token = "<|endoftext|>"
    AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    renderer = ChatRenderer.load(tmp_path)
    names = {renderer.tokenizer.convert_ids_to_tokens(i) for i in renderer.end_ids}
    assert names == {"<|endoftext|>", "<|im_end|>"}


def test_every_end_id_of_the_generation_config_ends_a_turn(tiny_model, tmp_path):
    """Field case 19: the tokenizer names one end id, the model's generation ends at others too."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    GenerationConfig(eos_token_id=[2, 7]).save_pretrained(tmp_path)
    assert ChatRenderer.load(tmp_path).end_ids == {2, 7, tokenizer.eos_token_id}


@pytest.mark.parametrize("said", ["two", "two \n", "two\n\n"])
def test_a_template_without_end_tokens_keeps_what_was_said(tiny_model, said):
    template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{{ ' ' }}{% endif %}"
    )
    renderer = ChatRenderer.load(tiny_model, template)
    history = [Message(role="user", content="one"), Message(role="assistant", content=said)]
    replies = [Message(role="user", content="more")]
    spoken = renderer.tokenizer(said, add_special_tokens=False)["input_ids"]
    ids = np.concatenate([renderer.start(history[:1]), spoken])
    added, continues = renderer.extend(history, (), ids, replies)
    assert continues
    assert np.concatenate([ids, added]).tolist() == renderer.start([*history, *replies]).tolist()


def test_exactly_one_start_token_where_the_template_prints_it(tiny_model, tmp_path):
    from tokenizers.processors import TemplateProcessing

    tokenizer = make_tokenizer()
    number = tokenizer.convert_tokens_to_ids("<|im_start|>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", number)]
    )
    tokenizer.save_pretrained(tmp_path)
    template = "{{ '<|im_start|>' }}{% for m in messages %}[{{ m.content }}]{% endfor %}"
    renderer = ChatRenderer.load(tmp_path, template)
    assert tokenizer("a")["input_ids"][0] == number  # the tokenizer does add one
    asked = [Message(role="user", content="a")]
    assert renderer.start(asked).tolist().count(number) == 1
    taught = renderer.teach([*asked, Message(role="assistant", content="b")])
    assert taught.token_ids.tolist().count(number) == 1 and taught.token_ids[0] == number
    added, continues = renderer.extend(
        [*asked, Message(role="assistant", content="b")], (), taught.token_ids, [Message(role="user", content="c")]
    )
    assert continues and number not in added


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize("arguments", [DEEP, '{"n": ' + "9" * 5000 + "}", "null", "[" * 50_000])
def test_a_tool_call_that_cannot_be_read_stays_text(tiny_model, arguments):
    renderer = ChatRenderer.load(tiny_model)
    text = f'<tool_call>{{"name": "add", "arguments": {arguments}}}</tool_call>'
    ids = renderer.tokenizer(text, add_special_tokens=False)["input_ids"]
    count = np.zeros(len(ids))
    done = Completion(token_ids=ids, logprobs=count, versions=count, finish_reason="stop")
    assert renderer.parse(done).tool_calls == () and renderer.parse(done).content == text


@pytest.mark.parametrize("piece", ["<tool_call>", "<tool_call>{", "<tool_call>{} ", "<tool_call> {}} \n"])
def test_tool_calls_are_found_in_linear_time(piece):
    started = time.perf_counter()
    assert not TOOL_CALL.findall(piece * 20_000)
    assert time.perf_counter() - started < 2.0


def test_arguments_reach_the_template_as_a_map(tiny_model):
    """Field case 112."""
    template = (
        "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}"
        "{% for k, v in c.function.arguments.items() %}|{{ k }}={{ v + 1 }}{% endfor %}{% endfor %}\n{% endfor %}"
    )
    renderer = ChatRenderer.load(tiny_model, template)
    call = ToolCall(id="call_0", name="add", arguments={"a": 1, "b": 2})
    said = [Message(role="user", content="q"), Message(role="assistant", content="", tool_calls=(call,))]
    assert "add|a=2|b=3" in renderer.decode(renderer.start(said).tolist())


def test_the_engine_serves_an_adapter_folder_as_the_merged_model(tiny_model, tmp_path):
    plain = AutoModelForCausalLM.from_pretrained(tiny_model)
    torch.manual_seed(0)
    adapted = get_peft_model(plain, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    adapted.save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    engine = load_engine(tmp_path, EngineConfig(device="cpu"), ChatRenderer.load(tmp_path, None))
    served = dict(engine.model.named_parameters())
    merged = dict(adapted.merge_and_unload().named_parameters())
    assert served.keys() == merged.keys()
    assert all(torch.allclose(served[name], merged[name], atol=1e-6) for name in merged)
