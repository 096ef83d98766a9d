"""Reading verdicts strictly, settings that cannot be used, versions, waits, pairings and the cache on disk."""

import json
import pickle
import re
import tomllib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_answers import asked, said

from strop.build import build_domains
from strop.config.load import load_recipe
from strop.core.errors import ConfigError, RewardError
from strop.rewards.judge import JudgeReward, PairwiseJudge, agreed, pairs_of, rubric_items
from strop.rewards.judge_cache import VerdictCache
from strop.rewards.judge_client import MAX_BACKOFF_S, delay_s, retry_after_s
from strop.rewards.judge_forms import (
    GarbledVerdict,
    PairForm,
    RubricForm,
    Setting,
    messages_of,
    read_verdict,
    setting_of,
)

MARK = "0123456789abcdef"
URL = "http://127.0.0.1:9/v1"
SETTING = Setting(conversation=(("user", "Name a city."),), reference="Paris")
RUBRIC = RubricForm(setting=SETTING, answer="Paris.", items=rubric_items(["right", "brief"]), scale=10)
PAIR = PairForm(setting=SETTING, first="Paris.", second="Rome.", criterion="the larger city")
GOOD = {"reason": "so", "scores": {"item_1": 7, "item_2": 0}, "verdict": MARK}
BETTER = {"reason": "so", "winner": "first", "verdict": MARK}
PAGE = Path(__file__).parents[2] / "docs" / "judge.md"


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(GOOD),
        f"\n{json.dumps(GOOD, indent=2)}\n",
        f"```json\n{json.dumps(GOOD)}\n```",
        f'<think>Perhaps {{"verdict": "{MARK}"}}?</think>\n{json.dumps(GOOD)}',
    ],
)
def test_a_verdict_is_read(reply):
    assert read_verdict(RUBRIC, reply, MARK) == {"scores": {"item_1": 7, "item_2": 0}}
    assert RUBRIC.value(read_verdict(RUBRIC, reply, MARK)) == pytest.approx(0.35)


def changed(given_verdict, /, **fields):
    return json.dumps({name: value for name, value in {**given_verdict, **fields}.items() if value is not ...})


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "7",
        "null",
        "[1, 2]",
        "I give it 7 out of 10.",
        json.dumps(GOOD)[:-1],
        f"Here it is: {json.dumps(GOOD)}",
        f"{json.dumps(GOOD)} I hope this helps.",
        f"{json.dumps(GOOD)}{json.dumps(GOOD)}",
        f"<think>{json.dumps(GOOD)}",
        changed(GOOD, verdict="0" * 16),
        changed(GOOD, verdict=...),
        changed(GOOD, verdict=None),
        changed(GOOD, reason=...),
        changed(GOOD, reason=3),
        changed(GOOD, scores=...),
        changed(GOOD, scores=7),
        changed(GOOD, scores=[7, 0]),
        changed(GOOD, scores={"item_1": 7}),
        changed(GOOD, scores={"item_1": 7, "item_2": 0, "item_3": 1}),
        changed(GOOD, scores={"item_1": 11, "item_2": 0}),
        changed(GOOD, scores={"item_1": -1, "item_2": 0}),
        changed(GOOD, scores={"item_1": 7.5, "item_2": 0}),
        changed(GOOD, scores={"item_1": "7", "item_2": 0}),
        changed(GOOD, scores={"item_1": True, "item_2": 0}),
        changed(GOOD, scores={"item_1": None, "item_2": 0}),
        changed(GOOD, scores={"item_1": float("nan"), "item_2": 0}),
        changed(GOOD, winner="first"),
        json.dumps(GOOD).replace('"item_1": 7', '"item_1": 7, "item_1": 10'),
        "[" * 100_000,
    ],
)
def test_what_is_not_a_verdict_to_the_letter_is_garbled(reply):
    with pytest.raises(GarbledVerdict):
        read_verdict(RUBRIC, reply, MARK)


@pytest.mark.parametrize("winner", ["A", "First", "", None, 1, ["first"], {}, ...])
def test_a_winner_is_first_second_or_tie(winner):
    assert read_verdict(PAIR, json.dumps(BETTER), MARK) == {"winner": "first"}
    with pytest.raises(GarbledVerdict):
        read_verdict(PAIR, changed(BETTER, winner=winner), MARK)


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_text_without_the_mark_is_a_verdict(reply):
    with pytest.raises(GarbledVerdict):
        read_verdict(PAIR, reply, MARK)


@pytest.mark.parametrize("form", [RUBRIC, PAIR])
def test_the_question_holds_all_of_it_with_the_demand_for_a_verdict_last(form):
    system, user = messages_of(form, MARK)
    text = user["content"]
    for part in ("Name a city.", "Paris", *form.answers):
        assert f"| {part}" in text or f"user: {part}" in text
    assert text.rindex("<<<END") < text.index('"verdict"') and MARK in system["content"]
    assert json.loads(text[text.rindex("{", 0, text.index('"reason"')) :].strip())["verdict"] == MARK


def test_what_is_judged_is_shown_without_thinking_and_with_earlier_turns():
    task = asked("q", {"a": [1]})
    assert setting_of(task) == Setting(conversation=(("user", "q"),), reference='{"a": [1]}')
    assert setting_of(task, show_reference=False).reference is None
    turns = said("<think>hm</think>one", "two").turns
    assert setting_of(task, turns).conversation == (("user", "q"), ("assistant", "one"), ("user", "reply 0"))


@pytest.mark.parametrize(
    ("straight", "swapped", "winner"),
    [
        ("first", "second", "first"),
        ("second", "first", "second"),
        ("first", "first", "tie"),
        ("second", "second", "tie"),
        ("tie", "first", "tie"),
        ("first", "tie", "tie"),
        ("tie", "tie", "tie"),
    ],
)
def test_a_winner_wins_in_both_orders(straight, swapped, winner):
    assert agreed(straight, swapped) == winner


@given(st.integers(0, 20), st.integers(1, 20))
def test_every_player_meets_as_many_others_as_asked(count, opponents):
    assert len(pairs_of(count, None)) == count * (count - 1) // 2
    pairs = pairs_of(count, opponents)
    even = opponents + opponents % 2
    assert len(set(pairs)) == len(pairs) and len(pairs) <= count * even // 2
    for player in range(count):
        assert sum(player in pair for pair in pairs) == min(even, count - 1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"endpoint": ""}, "endpoint"),
        ({"endpoint": "127.0.0.1:8000"}, "endpoint"),
        ({"endpoint": "http://"}, "endpoint"),
        ({"model": " "}, "model"),
        ({"key_env": "STROP_NO_SUCH_KEY"}, "STROP_NO_SUCH_KEY"),
        ({"response_format": "yaml"}, "response_format"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"call_timeout_s": 0.0}, "call_timeout_s"),
        ({"max_tries": 0}, "max_tries"),
        ({"cache_size": 0}, "cache_size"),
        ({"temperature": -1.0}, "temperature"),
        ({"allow": ("overide",)}, "override"),
        ({"cache_file": "/no/such/folder/verdicts.jsonl"}, "cache_file"),
    ],
)
@pytest.mark.parametrize("kind", [JudgeReward, PairwiseJudge])
def test_settings_that_cannot_be_used_are_one_line(kind, settings, said):
    with pytest.raises(ConfigError, match=re.escape(said)) as error:
        kind(**{"endpoint": URL, "model": "m", **settings})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rubric", "said"),
    [
        ("be right", "list"),
        ([""], "item 1"),
        (["a", 3], "item 2"),
        ([{"name": "x"}], "item 1"),
        ([{"text": "x", "weigth": 2}], "item 1"),
        ([{"text": "x", "weight": 0}], "weigh"),
        ([{"text": "x", "weight": True}], "weigh"),
        ([{"text": "x", "name": "n"}, {"text": "y", "name": "n"}], "'n'"),
    ],
)
def test_a_rubric_that_cannot_be_used_is_one_line(rubric, said):
    with pytest.raises(ConfigError, match=said):
        JudgeReward(endpoint=URL, model="m", rubric=rubric)


async def test_a_task_must_bring_its_rubric_where_the_reward_has_none():
    judge = JudgeReward(endpoint=URL, model="m")
    for data in ({}, {"rubric": []}, {"rubric": "x"}):
        task = asked(**data)
        with pytest.raises(RewardError, match="t7"):
            await judge(said("Paris."), task)


async def test_a_pairwise_judge_says_that_it_is_for_groups():
    with pytest.raises(RewardError, match='per = "group"'):
        await PairwiseJudge(endpoint=URL, model="m")(said("Paris."), asked())


def test_the_version_follows_what_decides_a_score_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setenv("A_KEY", "k")
    judge = JudgeReward(endpoint=URL, model="m", rubric=["right"])
    same = [
        {"endpoint": "https://example.org/v1"},
        {"key_env": "A_KEY"},
        {"max_concurrency": 3},
        {"cache_file": str(tmp_path / "c")},
    ]
    other = [
        {"model": "n"},
        {"rubric": ["wrong"]},
        {"rubric": [{"text": "right", "weight": 2}]},
        {"scale": 5},
        {"temperature": 0.5},
        {"body": {"seed": 1}},
        {"min_chars": 2},
        {"allow": ("override",)},
        {"show_reference": False},
    ]
    given = {"endpoint": URL, "model": "m", "rubric": ["right"]}
    assert {JudgeReward(**{**given, **settings}).version for settings in same} == {judge.version}
    versions = [JudgeReward(**{**given, **settings}).version for settings in other]
    assert len({judge.version, *versions}) == len(other) + 1
    pair = PairwiseJudge(endpoint=URL, model="m")
    assert pair.version != PairwiseJudge(endpoint=URL, model="m", criterion="the shorter one").version


def test_a_judge_is_rebuilt_in_another_process_without_its_key(monkeypatch):
    monkeypatch.setenv("A_KEY", "secret-of-mine")
    judge = JudgeReward(endpoint=URL, model="m", rubric=["right"], key_env="A_KEY")
    stored = pickle.dumps(judge)
    assert b"secret-of-mine" not in stored and "secret-of-mine" not in repr(judge)
    assert pickle.loads(stored) == judge and pickle.loads(stored).version == judge.version


@given(st.integers(1, 500), st.floats(0.01, 5), st.floats(0, 1, exclude_max=True))
def test_waits_double_with_jitter_up_to_a_bound(attempt, backoff, draw):
    full = min(MAX_BACKOFF_S, backoff * 2.0 ** (attempt - 1))
    assert full / 2 <= delay_s(attempt, backoff, draw) <= full


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, 0), ("3", 3), ("0.25", 0.25), ("-1", 0), ("soon", 0), ("", 0), ("nan", 0), ("inf", 0)],
)
def test_a_time_to_wait_is_read(value, seconds):
    assert retry_after_s(value) == seconds


def test_a_date_to_wait_for_is_read():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_s(format_datetime(now + timedelta(seconds=7), usegmt=True), now) == 7
    assert retry_after_s(format_datetime(now - timedelta(seconds=7), usegmt=True), now) == 0


def test_the_cache_is_bounded_and_keeps_what_was_used_last(tmp_path):
    file = tmp_path / "verdicts.jsonl"
    cache = VerdictCache(3, str(file))
    for number in range(3):
        cache.put(str(number), {"winner": "tie"})
    assert cache.get("0") is not None
    cache.put("3", {"winner": "first"})
    assert cache.get("1") is None and cache.get("0") is not None and cache.get("3") == {"winner": "first"}
    for number in range(4, 20):
        cache.put(str(number), {"winner": "tie"})
    assert VerdictCache(3, str(file)).get("19") == {"winner": "tie"}
    assert len(file.read_text().splitlines()) == 3  # shortened when it was read


@pytest.mark.parametrize("junk", ['{"key": "x", "verd', "[1]", '{"key": 1, "verdict": {}}', "\udcff", "null"])
def test_a_spoilt_line_costs_one_verdict(tmp_path, junk):
    file = tmp_path / "verdicts.jsonl"
    VerdictCache(9, str(file)).put("a", {"winner": "first"})
    with file.open("ab") as stream:
        stream.write(junk.encode("utf-8", "surrogateescape"))  # no end of line: torn
    cache = VerdictCache(9, str(file))
    assert cache.get("a") == {"winner": "first"}
    cache.put("b", {"winner": "second"})
    again = VerdictCache(9, str(file))
    assert again.get("a") == {"winner": "first"} and again.get("b") == {"winner": "second"}


def test_the_recipe_of_the_page_builds_its_judges(tmp_path, monkeypatch):
    [recipe] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = re.findall(r'key_env = "(\w+)"', recipe)
    assert names
    with pytest.raises(ConfigError, match=names[0]):
        built(tmp_path, recipe)
    for name in names:
        monkeypatch.setenv(name, "k")
    [domain] = built(tmp_path, recipe)
    judges = {reward.name: reward for reward in domain.rewards if isinstance(reward.fn, (JudgeReward, PairwiseJudge))}
    assert {reward.per for reward in judges.values()} == {"rollout", "group"}
    assert all(reward.timeout_s > 600 for reward in judges.values())  # retries and queues are no failure


def built(folder, recipe):
    (folder / "run.toml").write_text(recipe)
    rows = [{"prompt": f"Why is the sky blue at {n}?", "answer": "It scatters."} for n in range(40)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = f'domains.0.tasks.params.path="{folder / "questions.jsonl"}"'
    return build_domains(load_recipe(folder / "run.toml", [path]))


@pytest.mark.parametrize("missing", ["endpoint", "model"])
def test_a_recipe_that_names_no_endpoint_or_model_is_one_line(tmp_path, missing, monkeypatch):
    [recipe] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name in re.findall(r'key_env = "(\w+)"', recipe):
        monkeypatch.setenv(name, "k")
    cut = re.sub(rf'^params\.{missing} = ".*"\n', "", recipe, count=1, flags=re.MULTILINE)
    assert cut != recipe and tomllib.loads(cut)
    with pytest.raises(ConfigError, match=missing):
        built(tmp_path, cut)
