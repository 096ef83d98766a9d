"""The generated code domains in the real sandbox: worked responses pay, what falls short does not."""

import asyncio
import json

import pytest

from strop.core.errors import ConfigError
from strop.core.types import Completion, Message, Rollout, ToolCall, Turn
from strop.environments.execute_verify_correct import ExecuteVerifyCorrect
from strop.rewards.code import CodeReward
from strop.rewards.function_call import FunctionCallReward
from strop.sandbox.grading import SandboxGrader
from strop.sandbox.jail import LocalSandbox
from strop.tasks.generated import CODE_GENERATORS, GeneratedCalls, GeneratedCode


@pytest.fixture
async def sandbox():
    local = LocalSandbox()
    try:
        await local.start()
    except ConfigError as error:
        pytest.skip(f"no sandbox tier here: {error}")
    yield local
    local.close()


def said(content, calls=()):
    completion = Completion(token_ids=[1], logprobs=[0.0], versions=[0], finish_reason="stop")
    message = Message(role="assistant", content=content, tool_calls=tuple(calls))
    turn = Turn(input_ids=[1], continues=False, completion=completion, message=message)
    return Rollout(task_id="t", index=0, turns=(turn,), status="ok")


@pytest.mark.parametrize("generator", sorted(CODE_GENERATORS))
async def test_worked_responses_earn_one_and_prompts_nothing(sandbox, generator):
    reward = CodeReward(SandboxGrader(sandbox))
    for level in range(1, 6):
        source = GeneratedCode(generator, "d", level=level, size=6)
        tasks = [source[i] for i in range(len(source))]
        right = await asyncio.gather(*(reward(said(task.data["response"]), task) for task in tasks))
        assert [score.value for score in right] == [1.0] * 6, right
        shown = [f"```python\n{task.prompt[0].content.split('`')[1]}\n```" for task in tasks]
        wrong = await asyncio.gather(*(reward(said(text), task) for text, task in zip(shown, tasks, strict=True)))
        assert [score.value for score in wrong] == [0.0] * 6, wrong


async def test_what_a_program_does_is_scored_and_told(sandbox):
    reward = CodeReward(SandboxGrader(sandbox))
    task = GeneratedCode("complete_function", "d")[0]
    name = task.reference["entry_point"]
    for body, verdict in (
        ("return x +", "compile_error"),
        ("return undefined", "runtime_error"),
        ("return ...", "wrong_answer"),
        ("import os; os._exit(0)", "no_answer"),
    ):
        score = await reward(said(f"```python\ndef {name}(x): {body}\n```"), task)
        assert score.value == 0.0 and score.outcome == "scored", score
        assert score.detail.startswith(verdict), score
    assert (await reward(said("I cannot."), task)).detail.startswith("no_answer")


async def test_speed_is_measured_beside_the_reference(sandbox):
    reward = CodeReward(SandboxGrader(sandbox), time_weight=0.5, runs=3)
    slow = "def f(n):\n    return sum(i * i for i in range(n))"
    fast = "def f(n):\n    return (n - 1) * n * (2 * n - 1) // 6"
    task = GeneratedCode("complete_function", "d")[0]
    value = sum(i * i for i in range(2_000_000))
    problem = {"entry_point": "f", "cases": [{"args": [2_000_000], "expected": value}]}
    task = type(task)(id="t", domain="d", prompt=task.prompt, reference=problem, data={"reference_solution": slow})
    scores = [await reward(said(f"```python\n{source}\n```"), task) for source in (fast, slow)]
    assert scores[0].value > 1.4 and 1.1 < scores[1].value < 1.4, scores


async def test_two_attempts_with_a_digest_between(sandbox):
    grader = SandboxGrader(sandbox)
    source = GeneratedCode("fix_expression", "d", level=2, size=5, public=True)
    for task in [source[i] for i in range(len(source))]:
        environment = ExecuteVerifyCorrect(grader)
        await environment.start(task)
        wrong = task.prompt[0].content.split("`")[1]
        step = await environment.step(Message(role="assistant", content=f"```python\n{wrong}\n```"))
        [reply] = step.replies
        case = next(c for c in task.data["public"]["cases"] if f"({c['args'][0]})" in reply.content)
        assert f"expected {case['expected']}, got " in reply.content
        assert all(
            f"({c['args'][0]})" not in reply.content for c in task.reference["cases"] if c["args"] != case["args"]
        )
        assert (await environment.step(Message(role="assistant", content=task.data["response"]))).done
        assert await environment.close() == {"attempts": 2, "public": ["wrong_answer"]}
        assert (await CodeReward(grader)(said(task.data["response"]), task)).value == 1.0


async def test_function_calls_run_against_the_stub(sandbox):
    reward = FunctionCallReward(sandbox)
    source = GeneratedCalls("d", level=3, size=12)
    for task in [source[i] for i in range(len(source))]:
        response = task.data["response"]
        found = [json.loads(part.partition("</tool_call>")[0]) for part in response.split("<tool_call>")[1:]]
        calls = [ToolCall(id="c", name=entry["name"], arguments=entry["arguments"]) for entry in found]
        assert (await reward(said("" if calls else response, calls), task)).value == 1.0
        wrong = [ToolCall(id="c", name="price", arguments={"item": "no such thing"}) for _ in calls or [0]]
        assert (await reward(said("", wrong), task)).value == 0.0
