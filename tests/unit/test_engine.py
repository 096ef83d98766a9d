"""The engine on tiny real models: batching, seeds, logprobs, prefixes, cancellation, weights."""

import asyncio

import numpy as np
import pytest
import torch
from conftest import make_model, make_tokenizer
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from strop.config.schema import EngineConfig
from strop.core.errors import DataError
from strop.core.types import Message, SamplingParams
from strop.engines.loading import load_engine
from strop.engines.renderer import ChatRenderer
from strop.engines.torch_engine import TorchEngine
from strop.testing import check_renderer, check_sampler, check_weight_receiver

PROMPTS = [np.array(ids, np.int32) for ids in ([70, 71, 72], [80] * 9, [90, 91], [70, 71, 72, 73, 74])]
NO_END = frozenset({-1})  # tests that count tokens must not stop by chance


@pytest.fixture(params=["rotary", "learned"])
def folder(request, tiny_model, tmp_path):
    if request.param == "rotary":
        return tiny_model
    torch.manual_seed(0)
    size = len(make_tokenizer())
    config = GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def engine_of(folder, *, end_ids=NO_END, max_context=64, **config):
    model = AutoModelForCausalLM.from_pretrained(folder)
    decode = make_tokenizer().decode
    return TorchEngine(model, end_ids=end_ids, decode=decode, config=EngineConfig(**config), max_context=max_context)


def params(**changes):
    return SamplingParams(**{"max_tokens": 6, **changes})


async def test_alone_and_together_draw_the_same_tokens(folder):
    async with engine_of(folder) as engine:
        for temperature in (0.0, 1.0):
            wanted = [params(temperature=temperature, seed=n) for n in range(len(PROMPTS))]
            alone = [await engine.sample(p, w) for p, w in zip(PROMPTS, wanted, strict=True)]
            calls = [engine.sample(p, w) for p, w in zip(PROMPTS, wanted, strict=True)]
            together = await asyncio.gather(*calls)
            for a, b in zip(alone, together, strict=True):
                assert a.token_ids.tolist() == b.token_ids.tolist()
                assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)


async def test_more_calls_than_rows_are_all_answered(folder):
    async with engine_of(folder, max_rows=3) as engine:
        found = await asyncio.gather(
            *(engine.sample(PROMPTS[n % 4], params(seed=n, max_tokens=1 + n % 6)) for n in range(40))
        )
        again = [await engine.sample(PROMPTS[n % 4], params(seed=n, max_tokens=1 + n % 6)) for n in range(40)]
        assert [f.token_ids.tolist() for f in found] == [a.token_ids.tolist() for a in again]


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.7, "top_p": 0.9}, {"top_k": 5}, {"temperature": 1.3}])
async def test_logprobs_are_of_the_distribution_sampled(folder, changes):
    plain = AutoModelForCausalLM.from_pretrained(folder)
    async with engine_of(folder) as engine:
        for seed in range(3):
            done = await engine.sample(PROMPTS[0], params(seed=seed, max_tokens=12, **changes))
            ids = torch.tensor([*PROMPTS[0].tolist(), *done.token_ids.tolist()])
            with torch.no_grad():
                logits = plain(ids[None]).logits[0] / changes.get("temperature", 1.0)
            for t, (token, logprob) in enumerate(zip(done.token_ids, done.logprobs, strict=True)):
                row = logits[len(PROMPTS[0]) - 1 + t]
                if done.support is not None:
                    kept = torch.from_numpy(done.support[t].astype(np.int64))
                    assert token in kept and 1 <= len(kept) <= (changes.get("top_k") or len(row))
                    normaliser = row[kept].logsumexp(0)
                    if "top_p" in changes:
                        mass = row.softmax(0)[kept]
                        assert mass.sum() >= 0.9 - 1e-5 > mass.sum() - mass.min() - 1e-4
                else:
                    normaliser = row.logsumexp(0)
                assert float(row[token] - normaliser) == pytest.approx(logprob, abs=1e-5)


async def test_draws_follow_the_distribution(tiny_model):
    plain = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        expected = plain(torch.tensor([[70, 71, 72]])).logits[0, -1].softmax(0).numpy()
    async with engine_of(tiny_model, max_rows=256) as engine:
        draws = await asyncio.gather(*(engine.sample(PROMPTS[0], params(seed=n, max_tokens=1)) for n in range(2000)))
    counts = np.bincount([int(d.token_ids[0]) for d in draws], minlength=len(expected))
    likely = expected * 2000 > 20
    z = (counts - expected * 2000)[likely] / np.sqrt(2000 * expected * (1 - expected))[likely]
    assert abs(z).max() < 4.5


async def test_a_prompt_of_a_group_is_computed_once(tiny_model):
    async with engine_of(tiny_model) as engine:
        await asyncio.gather(*(engine.sample(PROMPTS[1], params(seed=n)) for n in range(8)))
        assert engine.statistics["prefill_tokens"] == len(PROMPTS[1])
        await engine.sample(PROMPTS[1], params(seed=99))
        assert engine.statistics["prefill_tokens"] == len(PROMPTS[1])


async def test_a_later_turn_computes_only_what_is_new(tiny_model):
    async with engine_of(tiny_model) as engine:
        first = await engine.sample(PROMPTS[1], params(seed=1, max_tokens=8))
        before = engine.statistics["prefill_tokens"]
        prompt = np.concatenate([PROMPTS[1], first.token_ids, [60, 61]]).astype(np.int32)
        shared = await engine.sample(prompt, params(seed=2))
        assert engine.statistics["prefill_tokens"] - before == 3  # the last sampled token and two new ones
    async with engine_of(tiny_model) as fresh:
        assert (await fresh.sample(prompt, params(seed=2))).token_ids.tolist() == shared.token_ids.tolist()


async def test_cancelling_frees_the_row(tiny_model):
    async with engine_of(tiny_model, max_rows=1, max_context=500) as engine:
        endless = asyncio.ensure_future(engine.sample(PROMPTS[0], params(max_tokens=490)))
        await asyncio.sleep(0.02)
        endless.cancel()
        done = await asyncio.wait_for(engine.sample(PROMPTS[2], params(max_tokens=1)), 5)
        assert len(done.token_ids) == 1 and engine.num_running == 0


async def test_stop_strings_end_tokens_budget_and_context(tiny_model):
    async with engine_of(tiny_model) as engine:
        free = await engine.sample(PROMPTS[0], params(max_tokens=20, seed=5))
        assert (len(free.token_ids), free.finish_reason) == (20, "length")
        text = make_tokenizer().decode(free.token_ids[4:5])
        stopped = await engine.sample(PROMPTS[0], params(max_tokens=20, seed=5, stop=(text,)))
        assert stopped.finish_reason == "stop" and len(stopped.token_ids) <= 5
        assert stopped.token_ids.tolist() == free.token_ids[: len(stopped.token_ids)].tolist()
        full = await engine.sample(PROMPTS[0], params(max_tokens=900))
        assert (len(full.token_ids), full.finish_reason) == (64 - len(PROMPTS[0]), "length")
        with pytest.raises(DataError, match="64 tokens and the context 64"):
            await engine.sample(np.full(64, 70, np.int32), params())
    end = int(free.token_ids[2])
    async with engine_of(tiny_model, end_ids=frozenset({end})) as engine:
        ended = await engine.sample(PROMPTS[0], params(max_tokens=20, seed=5))
        assert ended.finish_reason == "stop" and ended.token_ids[-1] == end


async def test_new_weights_change_the_answers_and_forget_prefixes(tiny_model, tmp_path):
    other = AutoModelForCausalLM.from_pretrained(make_model(tmp_path / "other"))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    async with engine_of(tiny_model) as engine:
        await check_weight_receiver(engine, other.named_parameters, PROMPTS[0], version=3)
        before = engine.statistics["prefill_tokens"]
        moved = await engine.sample(PROMPTS[1], params(temperature=0.0))
        assert engine.statistics["prefill_tokens"] - before == len(PROMPTS[1])
    other.save_pretrained(tmp_path / "moved")
    async with engine_of(tmp_path / "moved") as fresh:
        assert (await fresh.sample(PROMPTS[1], params(temperature=0.0))).token_ids.tolist() == moved.token_ids.tolist()


@pytest.mark.parametrize("mode", ["keep_kv", "recompute"])
async def test_a_swap_in_mid_sequence_is_recorded_and_nothing_is_lost(tiny_model, mode):
    weights = AutoModelForCausalLM.from_pretrained(tiny_model)
    async with engine_of(tiny_model, max_context=400) as engine:
        running = [asyncio.ensure_future(engine.sample(p, params(max_tokens=200, seed=1))) for p in PROMPTS]
        await asyncio.sleep(0.05)
        await engine.pause(mode)
        await engine.load(7, weights.named_parameters())
        await engine.resume()
        found = await asyncio.gather(*running)
    for done in found:
        assert len(done.token_ids) == 200
        assert set(done.versions.tolist()) <= {0, 7} and (np.diff(done.versions) >= 0).all()
    async with engine_of(tiny_model, max_context=400) as engine:  # the weights were the same: so are the tokens
        again = [await engine.sample(p, params(max_tokens=200, seed=1)) for p in PROMPTS]
    assert [f.token_ids.tolist() for f in found] == [a.token_ids.tolist() for a in again]


async def test_bfloat16_samples_and_reports_float32_logprobs(tiny_model):
    renderer = ChatRenderer.load(tiny_model)
    async with load_engine(tiny_model, EngineConfig(dtype="bfloat16"), renderer) as engine:
        done = await engine.sample(PROMPTS[0], params())
        assert done.logprobs.dtype == np.float32 and (done.logprobs <= 0).all()


async def test_the_engine_and_renderer_keep_their_promises(tiny_model):
    renderer = ChatRenderer.load(tiny_model)
    async with load_engine(tiny_model, EngineConfig(), renderer) as engine:
        await check_sampler(engine, PROMPTS[0])
        await check_renderer(renderer, engine, [Message(role="user", content="hi")])


HISTORY = [
    Message(role="system", content="Be brief."),
    Message(role="user", content="one two"),
    Message(role="assistant", content="two"),
    Message(role="user", content="three"),
    Message(role="assistant", content="two three"),
]


def test_turn_by_turn_gives_the_ids_of_one_rendering(tiny_model):
    renderer = ChatRenderer.load(tiny_model)
    ids = renderer.start(HISTORY[:2])
    for at in (2, 4):
        said = renderer.tokenizer(HISTORY[at].content + "<|im_end|>", add_special_tokens=False)["input_ids"]
        ids = np.concatenate([ids, said])
        added, continues = renderer.extend(HISTORY[: at + 1], (), ids, [Message(role="user", content="go on")])
        assert continues
        whole = renderer.start([*HISTORY[: at + 1], Message(role="user", content="go on")])
        assert np.concatenate([ids, added]).tolist() == whole.tolist()
        if at == 2:
            ids = renderer.start(HISTORY[:4])


def test_a_turn_that_was_cut_off_is_closed_before_the_next(tiny_model):
    renderer = ChatRenderer.load(tiny_model)
    start = renderer.start(HISTORY[:2])
    ids = np.concatenate([start, renderer.tokenizer("two", add_special_tokens=False)["input_ids"]])
    added, continues = renderer.extend(HISTORY[:3], (), ids, HISTORY[3:4])
    assert continues and np.concatenate([ids, added]).tolist() == renderer.start(HISTORY[:4]).tolist()


def test_a_template_that_rewrites_history_starts_anew(tiny_model):
    template = (
        "{% for m in messages %}[{{ m.role }}]{% if m.role != 'assistant' or loop.last %}{{ m.content }}{% endif %}"
        "<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    renderer = ChatRenderer.load(tiny_model, template)
    ids = np.concatenate([renderer.start(HISTORY[:2]), [renderer.tokenizer.eos_token_id]])
    whole, continues = renderer.extend(HISTORY[:3], (), ids, HISTORY[3:4])
    assert not continues and whole.tolist() == renderer.start(HISTORY[:4]).tolist()


def test_teaching_masks_what_the_assistant_says_and_nothing_else(tiny_model):
    renderer = ChatRenderer.load(tiny_model)
    sample = renderer.teach(HISTORY)
    taught = sample.token_ids[sample.loss_mask].tolist()
    assert renderer.tokenizer.decode(taught) == "two<|im_end|>two three<|im_end|>"
    assert renderer.decode(sample.token_ids[~sample.loss_mask].tolist()).count("two") == 1  # the user's own
    with pytest.raises(DataError, match="assistant message"):
        renderer.teach(HISTORY[:2])


def test_tool_calls_are_parsed_and_broken_ones_stay_text(tiny_model):
    from making import completion

    renderer = ChatRenderer.load(tiny_model)

    def parse(text):
        return renderer.parse(completion(renderer.tokenizer(text, add_special_tokens=False)["input_ids"]))

    good = parse('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
    assert (good.tool_calls[0].name, dict(good.tool_calls[0].arguments)) == ("add", {"a": 1})
    for broken in ("<tool_call>{oops}</tool_call>", '<tool_call>{"name": 3}</tool_call>', "<tool_call>[]</tool_call>"):
        assert parse(broken).tool_calls == () and parse(broken).content == broken
