import pytest
from code_making import ScriptedGrader, task_with, verdict

from strop.core.errors import ConfigError, DataError, InfraError
from strop.core.programs import CaseVerdict
from strop.core.types import Message
from strop.environments.execute_verify_correct import ExecuteVerifyCorrect
from strop.testing import check_environment

CASES = [{"args": [1], "expected": 2}, {"args": [[5] * 90], "kwargs": {"y": "b"}, "expected": "x" * 300}]
STDIN_CASES = [{"stdin": "4\n", "expected": "8\n"}]
PUBLIC = {"entry_point": "f", "cases": CASES, "stdin_cases": STDIN_CASES, "tests": "assert f(7)"}
TASK = task_with({"hidden": "never read here"}, public=PUBLIC)


def failed(*verdicts, passed=0):
    cases = tuple(CaseVerdict(name=name, verdict=v, detail=d) for name, v, d in verdicts)
    return verdict(next(v for _, v, _ in verdicts if v != "passed"), passed=passed, total=4, cases=cases)


async def reply_to(result, **options):
    environment = ExecuteVerifyCorrect(ScriptedGrader({"a": [result]}), **options)
    await environment.start(TASK)
    step = await environment.step(Message(role="assistant", content="a"))
    assert not step.done
    [message] = step.replies
    assert message.role == "user"
    return message.content


async def test_it_keeps_the_promises_of_an_environment():
    script = {"wrong": [verdict("wrong_answer", passed=1)]}
    await check_environment(lambda: ExecuteVerifyCorrect(ScriptedGrader(script)), TASK, ["wrong", "wrong"])


async def test_passing_the_public_tests_ends_it():
    environment = ExecuteVerifyCorrect(ScriptedGrader({"right": [verdict()]}), max_attempts=3)
    assert (await environment.start(TASK)).messages == TASK.prompt
    assert (await environment.step(Message(role="assistant", content="right"))).done
    assert await environment.close() == {"attempts": 1, "public": ["passed"]}
    [(problem, _, response)] = environment.grader.asked
    assert response and problem.cases[0].expected == 2


async def test_the_last_attempt_is_left_to_the_reward():
    environment = ExecuteVerifyCorrect(ScriptedGrader({"a": [verdict("time_limit", passed=0)]}))
    await environment.start(TASK)
    assert not (await environment.step(Message(role="assistant", content="a"))).done
    assert (await environment.step(Message(role="assistant", content="unknown to the grader"))).done
    assert await environment.close() == {"attempts": 2, "public": ["time_limit"]}


async def test_the_digest_names_what_failed_and_cuts_what_is_long():
    result = failed(
        ("stdin 1", "passed", ""),
        ("call 1", "wrong_answer", "expected 2, got 3"),
        ("call 2", "runtime_error", 'Traceback (most recent call last):\n  File "x"\nKeyError: 5'),
        ("assert 1", "wrong_answer", "f(7): got 0"),
        passed=1,
    )
    assert (await reply_to(result, digest_chars=900)).splitlines() == [
        "1 of 4 public tests passed.",
        "f(1): expected 2, got 3",
        f"f([{'5, ' * 31}5...: runtime error: KeyError: 5",
        "assert 1: f(7): got 0",
        "Fix it. Reply with only the corrected code in a ```python block.",
    ]


async def test_the_digest_has_a_bound():
    result = failed(*[("call 1", "wrong_answer", "got " + "9" * 5000)] * 4)
    text = await reply_to(result, digest_chars=100)
    digest, _, request = text.rpartition("\n")
    assert len(digest) == 100 and digest.endswith("...") and request.startswith("Fix it.")


async def test_other_failures_are_told_as_such():
    no_code = failed(("program", "no_answer", "there is no program in the answer"))
    assert (await reply_to(no_code)).startswith("There was no code to run.")
    silent = failed(("call 1", "no_answer", "exit status 0 without an answer"))
    assert "\nf(1): no answer: exit status 0 without an answer\n" in await reply_to(silent)
    compiled = verdict("compile_error", passed=0, cases=(), detail="line 1\nSyntaxError: invalid syntax\n")
    assert (await reply_to(compiled)).startswith("The code does not compile: SyntaxError: invalid syntax\n")
    stdin = failed(("stdin 1", "wrong_answer", "expected '8', got '9'"))
    assert "\ninput '4\\n': expected '8', got '9'\n" in await reply_to(stdin)
    assert "\nf(1): time limit: over the limit of cpu\n" in await reply_to(
        failed(("call 1", "time_limit", "over the limit of cpu"))
    )
    assert "\nf(1): wrong answer\n" in await reply_to(failed(("call 1", "wrong_answer", "")))


async def test_a_failure_of_the_sandbox_is_not_the_policys():
    environment = ExecuteVerifyCorrect(ScriptedGrader({"a": [verdict("infra_error", passed=0, detail="gone")]}))
    await environment.start(TASK)
    with pytest.raises(InfraError, match="gone"):
        await environment.step(Message(role="assistant", content="a"))


async def test_forks_share_nothing():
    environment = ExecuteVerifyCorrect(ScriptedGrader({"a": [verdict("wrong_answer", passed=1)]}), max_attempts=3)
    await environment.start(TASK)
    await environment.step(Message(role="assistant", content="a"))
    fork = environment.fork()
    await environment.step(Message(role="assistant", content="a"))
    assert (await fork.close())["attempts"] == 1 and (await environment.close())["attempts"] == 2


async def test_public_tests_must_be_there():
    with pytest.raises(DataError, match=r"task t: .* needs public tests in data\['public'\]"):
        await ExecuteVerifyCorrect(ScriptedGrader({})).start(task_with({}))
    for options in ({"max_attempts": 0}, {"digest_chars": 3}):
        with pytest.raises(ConfigError, match="must be at least"):
            ExecuteVerifyCorrect(ScriptedGrader({}), **options)
