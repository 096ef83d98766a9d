import asyncio
import math
import time
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
from making import completion

from strop.core.errors import RewardError
from strop.core.protocols import Domain, NamedReward
from strop.core.types import Message, Rollout, RolloutGroup, SamplingParams, Score, Task, Turn
from strop.environments.single_turn import SingleTurn
from strop.rewards import (
    ExactMatch,
    FewGuesses,
    FoundNumber,
    HasAnswer,
    LengthPenalty,
    RandomReward,
    SoftOverlong,
    ThinkFormat,
    from_trl,
)
from strop.rewards.extract import extract_answer, same_answer
from strop.scoring.score import Scorer, as_score, compose
from strop.testing import ListSource


def said(text, index=0, length=3, evidence=None):
    turn = Turn(
        input_ids=[1],
        continues=False,
        completion=completion(range(length)),
        message=Message(role="assistant", content=text),
    )
    return Rollout(task_id="t", index=index, turns=(turn,), status="ok", evidence=evidence or {})


def task(reference=None, **data):
    return Task(id="t", domain="d", prompt=(Message(role="user", content="q"),), reference=reference, data=data)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: 42", "42"),
        ("The answer is 42.", "42."),
        ("I think so.\n**Final answer:** 7", "7"),
        ("<think>Answer: 1</think>\nAnswer: 2", "2"),
        ("<think>Answer: 1</think> then \\boxed{3}", "3"),
        ("<think>Answer: 1", None),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("Answer: 1\nAnswer: 2", None),
        ("Answer: 2\nAnswer: 2.", "2."),
        ("\\boxed{1} or \\boxed{2}", None),
        ("no answer here", None),
        ("42", None),
        ("", None),
        ("Answer:", None),
        ("Answer: 42\nAnswer: 42.0", "42.0"),
        ("**Answer**:\n\n**42**", "42"),
        ("The answer is \\boxed{15}.", "15"),
        ("The answer is \\boxed{18}. (I checked it with 3 test values.)", "18"),
        ("<think>Perhaps \\boxed{12}?</think>\n\nThe answer is \\boxed{15}.", "15"),
        ("Maybe \\boxed{12}. No.\n</think>\nThe answer is 15.", "15."),
        ("<think>3*5</think><answer>\\boxed{15}</answer>", "15"),
        ("Answer: \\boxed{1} or \\boxed{2}", None),
        ("Answer: \\boxed{1}\nAnswer: \\boxed{2}", None),
        ("\\boxed{\\text{it is } \\boxed{9}}", "9"),
        ("\\boxed{\\frac{\\sqrt{2}}{x_{y_{1}}}}", "\\frac{\\sqrt{2}}{x_{y_{1}}}"),
    ],
)
def test_one_extraction_rule(text, answer):
    assert extract_answer(text).text == answer


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        ("42", "42.0", True),
        ("42.", "42", True),
        ("1,000", "1000", True),
        ("1,0", "10", False),
        ("Ann", "ann", True),
        ("u  j w", "u j w", True),
        ("21", "1", False),
        ("12", "1", False),
        ("1", "1", True),
        ("nan", "nan", True),
        ("inf", "1e999", False),
        ("-3", "3", False),
        ("1 or 2", "1", False),
        ("0.00001", "1e-05", True),
        ("12345678901234567", "12345678901234568", False),
        ("9" * 400, "8" * 400, False),
        ("$", "`", False),
        ("$", "$", True),
    ],
)
def test_equality_is_of_the_whole_answer(given, wanted, same):
    assert same_answer(given, wanted) is same


def test_case_counts_when_asked_for():
    assert ExactMatch()(said("Answer: ann"), task("ANN")).value == 1.0
    assert ExactMatch(case_sensitive=True)(said("Answer: ann"), task("ANN")).value == 0.0


@pytest.mark.parametrize(
    "piece", [" ", "\n", "-", "*", " *", "Answer: ", "Answer:\n", "\\boxed{", "{a}", "\\boxed{{a}"]
)
def test_extraction_is_linear_in_what_the_policy_writes(piece):
    for text in (piece * 20_000, f"Answer:{piece * 20_000}x"):
        started = time.perf_counter()
        ExactMatch()(said(text), task("5"))
        assert time.perf_counter() - started < 2.0


def test_one_score_for_each_answer():
    texts = ["Answer: 5", "I don't know.", "Answer: 5", "", "Answer: 5"]
    assert [ExactMatch()(said(t), task("5")).value for t in texts] == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("gold", [0, 1, 7, 42, 999, 1000])
def test_a_spray_of_guesses_never_earns(gold):
    lines = "\n".join(f"Answer: {n}" for n in range(1001))
    listed = "Answer: " + ", ".join(map(str, range(1001)))
    for text in (lines, listed, f"<think></think>{lines}"):
        assert ExactMatch()(said(text), task(str(gold))).value == 0.0


def test_a_task_without_reference_is_not_applicable():
    assert ExactMatch()(said("Answer: 1"), task(None)).outcome == "not_applicable"
    assert ExactMatch()(said("Answer: b"), task(["a", "b"])).value == 1.0


@pytest.mark.parametrize(
    ("text", "prefilled", "value"),
    [
        ("work</think>answer", True, 1.0),
        ("work answer", True, 0.0),
        ("work</think>answer", False, 0.0),
        ("<think>work</think>answer", False, 1.0),
        ("<think></think>x", False, 0.0),
        ("<think>work</think>", False, 0.0),
        ("<think>a</think>b</think>c", False, 0.0),
    ],
)
def test_think_format(text, prefilled, value):
    assert ThinkFormat(prefilled)(said(text), task()) == value


@pytest.mark.parametrize(("length", "value"), [(1, 0.0), (8, 0.0), (9, -0.5), (10, -1.0), (15, -1.0)])
def test_soft_overlong_is_linear_in_its_buffer(length, value):
    assert SoftOverlong(max_tokens=10, buffer=2)(said("x", length=length), task()) == value


def test_length_penalty_is_the_share_of_the_budget():
    fn = LengthPenalty(max_tokens=10)
    assert [fn(said("x", length=n), task()) for n in (1, 5, 10, 20)] == [-0.1, -0.5, -1.0, -1.0]


def test_random_reward_repeats_and_is_fair():
    fn = RandomReward(seed=3)
    values = [fn(said("x", index=i), task()) for i in range(400)]
    assert values == [fn(said("x", index=i), task()) for i in range(400)]
    assert 150 < sum(values) < 250


def test_game_rewards_read_the_evidence():
    won, lost = said("3", evidence={"found": True}), said("3", evidence={"found": False})
    assert [FoundNumber()(r, task()) for r in (won, lost)] == [1.0, 0.0]
    assert [FewGuesses()(r, task()) for r in (won, lost)] == [1.0, 0.0]


JUNK = [
    "",
    " ",
    "\x00",
    "Answer:" * 500,
    "{" * 2000,
    "\\boxed{" * 500,
    "�",
    "<think>" * 100,
    "9" * 5000,
    "Answer: 1e999",
]


@pytest.mark.parametrize("text", JUNK)
@pytest.mark.parametrize("reward", [ExactMatch(), HasAnswer(), ThinkFormat(), RandomReward()], ids=repr)
def test_junk_never_raises_and_never_earns_accuracy(reward, text):
    score = reward(said(text), task("5"))
    assert not isinstance(score, Score) or score.value == 0.0


def group_of(*texts):
    return [said(text, index=i) for i, text in enumerate(texts)]


def test_a_trl_function_gets_conversations_and_columns():
    seen = {}

    def fn(prompts, completions, answer, level, **rest):
        seen.update(prompts=prompts, answer=answer, level=level)
        return [1.0 if c[0]["content"] == a else None for c, a in zip(completions, answer, strict=True)]

    assert from_trl(fn)(group_of("5", "6"), task("5", level=2)) == [1.0, None]
    assert seen == {"prompts": [[{"role": "user", "content": "q"}]] * 2, "answer": ["5", "5"], "level": [2, 2]}


def test_a_trl_function_sees_every_turn_and_a_task_column_cannot_hide_the_completions():
    (turn,) = said("Answer: 3").turns
    hint = Message(role="user", content="Higher")
    game = replace(said("x"), turns=(replace(turn, replies=(hint,)), turn))
    empty = replace(game, turns=(), index=1)

    def fn(completions, completion_ids, **rest):
        assert [m["role"] for m in completions[0]] == ["assistant", "user", "assistant"]
        assert len(completion_ids[0]) == 6 and completions[1] == completion_ids[1] == []
        return [1.0, None]

    assert from_trl(fn)([game, empty], task("5", completions="mine")) == [1.0, None]


def test_a_plain_trl_function_gets_text():
    def fn(prompts, completions, answer, **rest):
        assert prompts == ["q", "q"]
        return [float(c.endswith(a)) for c, a in zip(completions, answer, strict=True)]

    assert from_trl(fn, plain=True)(group_of("it is 5", "6"), task("5")) == [1.0, 0.0]
    turns = said("lower?").turns + said("3").turns
    game = replace(said("x"), turns=(replace(turns[0], replies=(Message(role="user", content="no"),)), turns[1]))
    seen = []
    from_trl(lambda completions, **rest: seen.extend(completions) or [0.0, 0.0], plain=True)(
        [game, replace(game, turns=())], task()
    )
    assert seen == ["lower?\n\nno\n\n3", ""]


def test_an_async_trl_function_is_awaited_and_a_short_list_refused():
    async def later(prompts, completions, **rest):
        await asyncio.sleep(0)
        return [2.0] * len(completions)

    assert from_trl(later)(group_of("a", "b"), task()) == [2.0, 2.0]
    with pytest.raises(RewardError, match="list of 2"):
        from_trl(lambda completions, **rest: [1.0])(group_of("a", "b"), task())


def named(name, value, **options):
    return NamedReward(name=name, fn=lambda r, t: value, **options)


def test_a_gate_that_is_closed_zeroes_what_it_guards():
    rewards = (named("right", 0.0), named("style", 1.0, gate="right", weight=0.5))
    shut = compose(rewards, [Score(value=0.0), Score(value=1.0)])
    assert shut.total == 0.0 and shut.scores["style"].detail == "gated by right"
    assert compose(rewards, [Score(value=1.0), Score(value=1.0)]).total == 1.5


def test_infra_makes_the_total_unknown_and_not_applicable_leaves_the_sum():
    rewards = (named("a", 1.0), named("b", 1.0))
    assert compose(rewards, [Score(value=1.0), Score(value=None, outcome="infra")]).total is None
    assert compose(rewards, [Score(value=1.0), Score(value=None, outcome="not_applicable")]).total == 1.0


async def test_queue_time_is_not_scoring_time():
    def slow(rollout, task):
        time.sleep(0.02)
        return 1.0

    source = ListSource((task(),))
    domain = Domain(
        name="d",
        tasks=source,
        held_out=source,
        environment=SingleTurn,
        rewards=(NamedReward(name="accuracy", fn=slow, timeout_s=0.3),),
        sampling=SamplingParams(max_tokens=1),
    )
    members = tuple(said("x", index=i) for i in range(100))  # 1 s of queue on two workers
    group = RolloutGroup(ticket=0, attempt=0, task=task(), rollouts=members)
    scored = await Scorer(num_threads=2).group(group, domain)
    assert [r.total for r in scored.rollouts] == [1.0] * 100


@pytest.mark.parametrize("value", [np.bool_(True), np.float32(1), np.int64(1), True, 1, 1.0])
def test_every_kind_of_number_is_a_score(value):
    assert as_score(value, named("a", 1.0), task()).value == 1.0


HUGE = [10**400, -(10**400), 10**5000, Fraction(10**5000, 3), 1e39, math.inf, -math.inf, math.nan, np.float32("nan")]


@pytest.mark.parametrize("value", HUGE, ids=lambda value: type(value).__name__)
def test_a_number_that_nothing_can_be_learned_from_is_an_error(value):
    with pytest.raises(RewardError, match="return a finite number") as raised:
        as_score(value, named("a", 1.0), task())
    assert len(str(raised.value)) < 250
    with pytest.raises(ValueError, match="a score must be a finite number"):
        Score(value=value)


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", [Unshowable(), [10**5000], {"a": 10**5000}, "x" * 10**5], ids=["own", "list", "dict", "text"]
)
def test_whatever_a_reward_returns_can_be_named(value):
    with pytest.raises(RewardError, match=f"returned {type(value).__name__} .*; return a number") as raised:
        as_score(value, named("a", 1.0), task())
    assert len(str(raised.value)) < 200


async def scores_of(task, *rewards, count=3):
    source = ListSource((task,))
    domain = Domain(
        name="d",
        tasks=source,
        held_out=source,
        environment=SingleTurn,
        rewards=rewards,
        sampling=SamplingParams(max_tokens=1),
    )
    members = tuple(said("x", index=i, evidence={"files": ["a"]}) for i in range(count))
    return await Scorer().group(RolloutGroup(ticket=0, attempt=0, task=task, rollouts=members), domain)


@pytest.mark.parametrize("frozen", [False, True])
async def test_what_a_reward_does_to_its_task_no_other_sees(frozen):
    data = {"tests": [{"input": [1, (2, [3])]}], "note": {"a": []}}
    given = task({"cases": [[1]]}, **data)
    if frozen:
        given = replace(given, data=MappingProxyType(data))
    before, seen = repr(given), []

    def greedy(rollout, task):
        seen.append(repr((task.reference, dict(task.data), dict(rollout.evidence))))
        task.reference["cases"][0].clear()
        task.reference["new"] = 1
        task.data["tests"][0]["input"][1][1].append(4)
        task.data["note"]["a"].append(1)
        task.data.pop("tests")
        rollout.evidence["files"].clear()
        return 1.0

    rewards = (NamedReward(name=n, fn=greedy) for n in "ab")
    group = await scores_of(given, *rewards)
    assert [r.total for r in group.rollouts] == [2.0] * 3
    assert len(seen) == 6 and len(set(seen)) == 1
    assert repr(given) == before and all(r.evidence == {"files": ["a"]} for r in group.rollouts)


async def test_a_group_reward_that_changes_its_task_changes_it_for_nobody():
    given = task({"cases": [1]})

    def clears(rollouts, task):
        assert type(rollouts) is tuple
        found = float(len(task.reference["cases"]))
        task.reference["cases"].clear()
        return [found] * len(rollouts)

    rewards = (NamedReward(name=n, fn=clears, per="group") for n in "ab")
    assert [r.total for r in (await scores_of(given, *rewards)).rollouts] == [2.0] * 3
