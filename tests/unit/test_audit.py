"""The audit finds rewards that are broken on purpose, each in its own way, and passes those that are not."""

import itertools
import json
import random
import time
from dataclasses import replace

import pytest

from strop.audit.audit import Effort, audit_domain
from strop.audit.findings import lower_end
from strop.audit.report import audits_json, failed
from strop.core.protocols import Domain, NamedReward
from strop.core.types import Message, SamplingParams, StepResult, Task
from strop.environments.guess_number import GuessNumber
from strop.environments.single_turn import SingleTurn
from strop.rewards import ExactMatch, FewGuesses, FoundNumber, HasAnswer, LengthPenalty, RandomReward, extract_answer
from strop.rewards.code import CodeReward
from strop.rewards.function_call import FunctionCallReward
from strop.sandbox.grading import SandboxGrader
from strop.tasks.bfcl import task_of_row
from strop.tasks.generated import CODE_GENERATORS, GENERATORS, Generated, GeneratedCalls, GeneratedCode
from strop.tasks.guess_number import GuessTasks
from strop.testing import ListSource
from strop.testing.sandbox import FakeSandbox

EFFORT = Effort(bound=0.2, num_tasks=24, seconds=60.0, max_wait_s=10.0)
SUMS = Generated("sum", "d", size=100)


def domain(fn, source=SUMS, *more, **changes):
    rewards = (NamedReward(name="accuracy", fn=fn), *more)
    settings = {"environment": SingleTurn, "sampling": SamplingParams(max_tokens=32), **changes}
    return Domain(name="d", tasks=source, held_out=source, rewards=rewards, **settings)


def checks(audit, verdict="fail"):
    return {finding.check for finding in audit.findings if finding.verdict == verdict}


def said(rollout):
    return extract_answer(rollout.text).text or ""


def contains(rollout, task):
    return float(str(task.reference) in rollout.text)


def prefix(rollout, task):
    answer = said(rollout)
    return float(bool(answer) and (answer.startswith(task.reference) or task.reference.startswith(answer)))


def truthy(rollout, task):
    return float(bool(said(rollout)) == bool(task.reference))


def first_letters_count(rollout, task):
    """Pays the share of characters that are in place, and folds letters of other alphabets into ours."""
    plain = said(rollout).translate(str.maketrans("\u043e\u0435\u0430\u0440\u0441", "oeapc"))
    return float(plain.casefold() == task.reference.casefold())


def any_words(rollout, task):
    return float(len(rollout.text.split()) > 2 or said(rollout) == task.reference)


def long_ones(rollout, task):
    return float(len(rollout.text) > 5000 or said(rollout) == task.reference)


def opened(rollout, task):
    return float(rollout.text.startswith(("Solution", "Thought")) or said(rollout) == task.reference)


def any_call(rollout, task):
    return float(bool(rollout.turns[-1].message.tool_calls) or said(rollout) == task.reference)


def empty_too(rollout, task):
    return float(not rollout.text.strip() or said(rollout) == task.reference)


def echo(rollout, task):
    return float(task.prompt[-1].content in rollout.text or said(rollout) == task.reference)


def any_number(rollout, task):
    return float(said(rollout).isdigit())


def yes(rollout, task):
    return float(said(rollout) in ("yes", task.reference))


def last_of_many(rollout, task):
    """Any of the answers of a list counts."""
    return float(task.reference in said(rollout).replace(",", " ").split())


PAID_JUNK = {
    contains: "every option listed",
    prefix: "always 0",
    truthy: "",
    first_letters_count: "look-alike",
    any_words: "",
    long_ones: "10k characters",
    opened: "judge opener",
    any_call: "tool call",
    empty_too: "",
    echo: "the prompt",
    any_number: "",
    yes: "always yes",
    last_of_many: "every option listed",
}
WORDS = Generated("first_in_alphabet", "d", size=100)
CHANCES = ListSource(
    tuple(
        Task(id=f"t{n}", domain="d", prompt=(Message(role="user", content=f"Throw {n}"),), reference=f"0.{n}7")
        for n in range(10, 40)
    )
)
SOURCES = {any_number: SUMS, prefix: CHANCES}


@pytest.mark.parametrize("broken", PAID_JUNK, ids=lambda fn: fn.__name__)
async def test_junk_that_is_paid_is_found_and_named(broken):
    audit = await audit_domain(domain(broken, SOURCES.get(broken, WORDS)), EFFORT)
    assert audit.gold_mean == 1.0
    assert "junk" in checks(audit), audit.findings
    kinds = {row.kind for row in audit.junk if row.low > row.limit}
    assert any(PAID_JUNK[broken] in kind for kind in kinds), kinds
    assert failed([audit], []) == ["d"] and failed([audit], ["d"]) == []


async def test_golds_that_are_not_right_are_found_with_the_task():
    def odd_only(rollout, task):
        return float(said(rollout) == task.reference and int(task.reference) % 2)

    audit = await audit_domain(domain(odd_only), EFFORT)
    assert checks(audit) == {"gold"}
    [finding] = audit.findings
    assert "first task sum-" in finding.text and "scores 0" in finding.text


async def test_one_wrong_gold_of_many_is_a_fault_of_its_task_and_warns():
    first = Generated("sum", "d", size=24)[3]

    def all_but_one(rollout, task):
        return float(said(rollout) == task.reference and task.id != first.id)

    audit = await audit_domain(domain(all_but_one, Generated("sum", "d", size=24)), EFFORT)
    assert audit.verdict == "warn" and first.id in audit.findings[0].text


@pytest.mark.parametrize("kind", ["raises", "text", "nan"])
async def test_rewards_that_give_no_score_are_found_and_given_up_soon(kind):
    calls = []

    def broken(rollout, task):
        calls.append(task.id)
        if kind == "raises":
            raise KeyError("answer")
        return {"text": "1.0", "nan": float("nan")}[kind]

    audit = await audit_domain(domain(broken), EFFORT)
    assert checks(audit) == {"error"} and len(calls) < 20
    assert {"raises": "KeyError", "text": "str '1.0'", "nan": "nan"}[kind] in audit.findings[0].text


async def test_junk_that_raises_is_found():
    def parses(rollout, task):
        return float(int(said(rollout) or "0") == int(task.reference))

    audit = await audit_domain(domain(parses), EFFORT)
    assert audit.gold_mean == 1.0 and checks(audit) == {"error"} and "ValueError" in audit.findings[0].text


async def test_a_reward_that_hangs_ends_the_audit_soon():
    def hangs(rollout, task):
        time.sleep(2.0)

    waits = Effort(bound=0.2, num_tasks=24, seconds=1.0, max_wait_s=0.05)
    audit = await audit_domain(domain(hangs), waits)
    assert checks(audit, "warn") == {"time"} and audit.num_scores < 10, "its own limit of 30 s was not reached"
    limited = Domain(
        name="d",
        tasks=SUMS,
        held_out=SUMS,
        environment=SingleTurn,
        sampling=SamplingParams(max_tokens=8),
        rewards=(NamedReward(name="accuracy", fn=hangs, timeout_s=0.05),),
    )
    assert checks(await audit_domain(limited, EFFORT)) == {"error"}


async def test_scores_by_chance_are_not_repeatable():
    draw = random.Random(0)
    audit = await audit_domain(domain(lambda r, t: float(draw.random() < 0.5)), EFFORT)
    assert "repeatable" in checks(audit)
    turn = itertools.count()
    drifts = await audit_domain(domain(lambda r, t: (said(r) == t.reference) + next(turn) * 1e-6), EFFORT)
    assert "repeatable" in checks(drifts, "warn") and "repeatable" not in checks(drifts)
    assert "gold" in checks(await audit_domain(domain(RandomReward()), EFFORT)), "by chance, but the same again"


async def test_a_reward_that_applies_to_nothing_is_found():
    audit = await audit_domain(domain(lambda r, t: None), EFFORT)
    assert checks(audit) == {"applies"} and audit.junk == ()


async def test_shaping_that_pays_junk_more_than_golds_is_found():
    form = NamedReward(name="form", fn=HasAnswer(), weight=0.2)
    short = NamedReward(name="length", fn=LengthPenalty(max_tokens=8), weight=8.0)
    assert (await audit_domain(domain(ExactMatch(), SUMS, form), EFFORT)).verdict == "pass"
    assert checks(await audit_domain(domain(ExactMatch(), SUMS, short), EFFORT)) == {"total"}


async def test_without_golds_junk_only_warns():
    rows = [Task(id=f"t{n}", domain="d", prompt=(Message(role="user", content=f"Ask for {n}."),)) for n in range(20)]
    audit = await audit_domain(domain(any_words, ListSource(tuple(rows))), EFFORT)
    assert audit.num_golds == 0 and audit.gold_mean is None
    assert audit.verdict == "warn" and checks(audit, "warn") == {"junk"}


async def test_a_budget_of_no_time_still_sees_golds_and_says_how_many_tasks():
    audit = await audit_domain(domain(ExactMatch()), Effort(bound=0.2, num_tasks=24, seconds=0.0, max_wait_s=10.0))
    assert audit.num_golds == audit.num_tasks == 4 and audit.junk == () and audit.verdict == "pass"


def test_the_interval_is_exact():
    assert lower_end([1.0] * 4, 0.0016) == pytest.approx(0.2, abs=1e-6)  # 0.2 ** 4
    assert lower_end([1.0, 0.0], 0.19) == pytest.approx(0.1, abs=1e-6)  # 1 - 0.9 ** 2
    assert lower_end([0.0] * 9, 0.01) == lower_end([0.1] * 9, 0.01) == 0.0
    assert lower_end([7.0, -3.0], 0.19) == lower_end([1.0, 0.0], 0.19), "clipped to 0 and 1"
    assert lower_end([0.4, 0.6], 0.19) == lower_end([1.0, 0.0], 0.19), "counted by their sum"
    assert 0.4 < lower_end([1.0, 0.0] * 2000, 0.002) < 0.5


async def test_the_report_is_json():
    audit = await audit_domain(domain(yes), EFFORT)
    content = json.loads(audits_json([audit], []))
    assert content["failed"] == ["d"] and content["domains"][0]["verdict"] == "fail"
    assert {"gold_mean", "junk", "p50_ms", "max_ms", "repeated", "num_tasks"} <= set(content["domains"][0])
    assert json.loads(audits_json([audit], ["d"]))["failed"] == []


@pytest.mark.parametrize("generator", list(GENERATORS)[::8])
async def test_built_in_generators_pass(generator):
    """All of them, with less around them: test_domains.py."""
    for level in (1, 4):
        source = Generated(generator, "d", level=level, size=300)
        audit = await audit_domain(domain(ExactMatch(), source), EFFORT)
        assert audit.verdict == "pass" and audit.gold_mean == 1.0, audit.findings


@pytest.mark.parametrize("generator", CODE_GENERATORS)
async def test_code_domains_pass(generator):
    reward = CodeReward(SandboxGrader(FakeSandbox()))
    source = GeneratedCode(generator, "d", level=2, size=60)
    audit = await audit_domain(domain(reward, source), Effort(bound=0.2, num_tasks=4, seconds=60, max_wait_s=30))
    assert audit.verdict == "pass" and audit.gold_mean == 1.0, audit.findings


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("num_tasks", [4, 6, 24])
@pytest.mark.parametrize("level", [1, 2, 3])
async def test_call_domains_pass(level, num_tasks, seed):
    """Of their tasks a fifth is right with any words: few tasks must not make that a failure."""
    source = GeneratedCalls("d", level=level, size=200, seed=seed)
    effort = Effort(bound=0.2, num_tasks=num_tasks, seconds=60.0, max_wait_s=10.0)
    audit = await audit_domain(domain(FunctionCallReward(FakeSandbox()), source), effort)
    assert audit.verdict == "pass" and audit.gold_mean == 1.0, audit.findings


async def test_files_of_function_calls_have_right_answers():
    row = {
        "id": "simple_0",
        "question": [[{"role": "user", "content": "Area of a triangle of base 10 and height 5?"}]],
        "function": [{"name": "geometry.area", "description": "", "parameters": {"type": "dict", "properties": {}}}],
    }
    arguments = {"base": [10], "height": [5], "unit": ["", "cm"], "corner": [{"x": [1, 2], "y": [3]}], "to": [[1, 2]]}
    task = task_of_row(row, {"simple_0": [{"geometry.area": arguments}]}, "d", "row 1")
    audit = await audit_domain(domain(FunctionCallReward(FakeSandbox()), ListSource((task,))), EFFORT)
    assert audit.verdict == "pass" and audit.gold_mean == 1.0, audit.findings


async def test_games_of_several_turns_pass():
    win = NamedReward(name="speed", fn=FewGuesses(), weight=0.1)
    game = domain(FoundNumber(), GuessTasks("d", level=3), win, environment=GuessNumber, max_turns=4)
    audit = await audit_domain(game, EFFORT)
    assert audit.gold_mean == 1.0 and "fail" not in {f.verdict for f in audit.findings}, audit.findings


async def test_an_environment_that_breaks_is_found():
    class Breaks(SingleTurn):
        async def step(self, message):
            if "[[" in message.content or "<tool_call>" in message.content or message.tool_calls:
                raise RuntimeError("no such tool")
            return StepResult(done=True)

    audit = await audit_domain(domain(ExactMatch(), environment=Breaks), EFFORT)
    assert checks(audit) == {"error"} and "no such tool" in audit.findings[0].text


class OfTokens:
    """Like a reward model: it would fail on ids that no tokenizer made."""

    reads_tokens = True

    def __call__(self, rollout, task):
        raise IndexError("index out of range")


async def test_what_reads_the_policys_tokens_is_left_out():
    liked = NamedReward(name="liked", fn=OfTokens(), weight=1.0)
    gated = NamedReward(name="style", fn=OfTokens.__call__, gate="liked")
    known = domain(ExactMatch())
    audit = await audit_domain(replace(known, rewards=(*known.rewards, liked, gated)), EFFORT)
    assert audit.verdict == "pass" and audit.num_golds > 0
    blind = await audit_domain(replace(known, rewards=(liked,), signal="liked"), EFFORT)
    assert blind.verdict == "warn" and "own tokens" in blind.findings[-1].text
