import json
import time

import pytest
from code_making import ScriptedSandbox, said, task_with

from strop.core.errors import DataError, RewardError
from strop.core.types import ToolCall
from strop.rewards.function_call import FunctionCallReward
from strop.tasks.bfcl import BFCL
from strop.tasks.generated import GeneratedCalls


def call(name, **arguments):
    return ToolCall(id="c", name=name, arguments=arguments)


def want(name, **arguments):
    return {"name": name, "arguments": arguments}


async def score(calls, wanted, content="", sandbox=None, **data):
    reward = FunctionCallReward(sandbox or ScriptedSandbox({}))
    return await reward(said(content, calls), task_with({"calls": wanted}, **data))


AREA = want("area", base=[10], height=[5.0], unit=["units", ""])


@pytest.mark.parametrize(
    ("calls", "wanted", "value"),
    [
        ([call("area", base=10, height=5)], [AREA], 1),
        ([call("area", base=10.0, height=5, unit="Units")], [AREA], 1),
        ([call("area", base=10, height=5, unit="cm")], [AREA], 0),
        ([call("area", base=10)], [AREA], 0),
        ([call("area", base=10, height=5, colour="red")], [AREA], 0),
        ([call("area", base="10", height=5)], [AREA], 0),
        ([call("area", base=True, height=5)], [want("area", base=[1], height=[5])], 0),
        ([call("volume", base=10, height=5)], [AREA], 0),
        ([], [AREA], 0),
        ([call("area", base=10, height=5)] * 2, [AREA], 0),
        ([call("f", x=2), call("f", x=1)], [want("f", x=[1]), want("f", x=[1, 2])], 1),
        ([call("f", x=1), call("f", x=1)], [want("f", x=[1]), want("f", x=[2])], 0),
        ([call("f", x=1), call("f", x=2)], [want("f", x=[1, 2]), want("f", x=[1])], 1),
        ([call("f", to="San Francisco, CA")], [want("f", to=["san francisco CA"])], 1),
        ([call("f", op="-")], [want("f", op=["*"])], 0),
        ([call("f", a=[1, 2])], [want("f", a=[[1, 2]])], 1),
        ([call("f", a=[2, 1])], [want("f", a=[[1, 2]])], 0),
        ([call("f", a={"n": 2, "m": "X"})], [want("f", a=[{"n": [2, 3], "m": ["x"], "o": ["", 1]}])], 1),
        ([call("f", a=[{"n": 4}])], [want("f", a=[[{"n": [2, 3]}]])], 0),
        ([call("f", a=None)], [want("f", a=[None])], 1),
        ([call("f", a=0)], [want("f", a=[None])], 0),
        ([call("f", n=9007199254740993)], [want("f", n=[9007199254740992])], 0),
    ],
)
async def test_calls_and_arguments(calls, wanted, value):
    assert (await score(calls, wanted)).value == value


async def test_knowing_when_not_to_call():
    assert (await score([], [], "There is no tool for that.")).value == 1.0
    assert (await score([], [], "<think>No <tool_call> here.</think>There is none.")).value == 1.0
    assert (await score([], [], "  ")).value == 0.0
    assert (await score([], [], "<think>Hm")).value == 0.0
    assert (await score([call("f")], [], "Let me see.")).value == 0.0
    assert (await score([], [], '<tool_call>{"name": f}</tool_call>')).value == 0.0


def returning(name, value, **arguments):
    return {"name": name, "returns": value, **({"arguments": arguments} if arguments else {})}


STUB = "def add(x, y): return x + y\ndef math_pair(x): return (x, float(x))\n"
FUNCTIONS = {"add": lambda x, y: x + y, "math_pair": lambda x: (x, float(x))}


@pytest.mark.parametrize(
    ("calls", "wanted", "value"),
    [
        ([call("add", x=1, y=4)], [returning("add", 5)], 1),
        ([call("add", x=2, y=3)], [returning("add", 5, x=[1], y=[4])], 0),
        ([call("add", x=1, y=5)], [returning("add", 5)], 0),
        ([call("add", x=1)], [returning("add", 5)], 0),
        ([call("add", x=1, y=4, z=1)], [returning("add", 5)], 0),
        ([call("add", x=0.1, y=0.2)], [returning("add", 0.3)], 1),
        ([call("math.pair", x=2)], [returning("math.pair", [2, 2.0])], 1),
        ([call("add", x=1, y=1), call("add", x=2, y=2)], [returning("add", 4), returning("add", 2)], 1),
        ([call("os.system", x="ls")], [returning("add", 4)], 0),
    ],
)
async def test_calls_are_run_against_the_stub(calls, wanted, value):
    sandbox = ScriptedSandbox(FUNCTIONS)
    assert (await score(calls, wanted, sandbox=sandbox, stub=STUB)).value == value
    assert all(program.source == STUB for program, _, _ in sandbox.asked)
    assert not {"os_system"} & {name for _, name, _ in sandbox.asked}


async def test_limits_of_the_stub_are_a_wrong_answer_and_a_broken_sandbox_is_not():
    for status, value, outcome in (("time_limit", 0.0, "scored"), ("infra_error", None, "infra")):
        sandbox = ScriptedSandbox({}, status)
        given = await score([call("add", x=1, y=4)], [returning("add", 5)], sandbox=sandbox, stub=STUB)
        assert (given.value, given.outcome) == (value, outcome)


@pytest.mark.parametrize(
    "reference",
    [
        None,
        [],
        {"calls": {}},
        {"calls": [{"name": "f"}]},
        {"calls": [{"arguments": {}}]},
        {"calls": [{"name": "f", "arguments": {"x": 1}}]},
        {"calls": [{"name": "f", "argument": {"x": [1]}}]},
        {"calls": [{"name": "f", "returns": 3}]},
    ],
)
async def test_a_reference_of_another_form_ends_the_run(reference):
    with pytest.raises(RewardError, match="task t: "):
        await FunctionCallReward(ScriptedSandbox({}))(said("", [call("f", x=1)]), task_with(reference))


async def test_many_equal_calls_are_paired_in_little_time():
    calls, wanted = [call("f", x=1)] * 60, [want("f", x=[1])] * 59 + [want("f", x=[2])]
    started = time.perf_counter()
    assert (await score(calls, wanted)).value == 0.0
    assert time.perf_counter() - started < 1.0


def calls_in(text):
    """As the renderer reads them."""
    found = [json.loads(part.partition("</tool_call>")[0]) for part in text.split("<tool_call>")[1:]]
    return [call(entry["name"], **entry["arguments"]) for entry in found]


@pytest.mark.parametrize("level", [1, 2, 3])
async def test_generated_calls_have_one_right_answer(level):
    for split in ("train", "held_out"):
        source = GeneratedCalls("d", level=level, split=split, size=80)
        tasks = [source[i] for i in range(len(source))]
        assert len({t.id for t in tasks}) == len(tasks) > 20
        assert 0 < sum(not t.reference["calls"] for t in tasks) < len(tasks) / 2
        for number, task in enumerate(tasks):
            names = {}
            exec(task.data["stub"], names)
            reward = FunctionCallReward(ScriptedSandbox(names))
            calls = calls_in(task.data["response"])
            assert (await reward(said("" if calls else task.data["response"], calls), task)).value == 1.0
            other = calls_in(tasks[number - 1].data["response"])
            same = sorted(other, key=repr) == sorted(calls, key=repr)
            assert (await reward(said("", other), task)).value == float(same and bool(calls))


def test_generated_calls_never_straddle_the_splits():
    found = {s: GeneratedCalls("d", level=2, split=s, size=300, seed=len(s)) for s in ("train", "held_out")}
    answers = {k: {source[i].data["response"] for i in range(len(source))} for k, source in found.items()}
    assert answers["train"] & answers["held_out"] == {"No tool fits."}
    with pytest.raises(ValueError, match="level must be from 1 to 3"):
        GeneratedCalls("d", level=4)


SCHEMA = {
    "type": "dict",
    "properties": {
        "base": {"type": "float"},
        "type": {"type": "any"},
        "points": {"type": "tuple", "items": {"type": "dict", "properties": {}}},
    },
}


def write_rows(folder, name, count, answers=True):
    (folder / "possible_answer").mkdir(exist_ok=True)
    rows = [
        {
            "id": f"{name}_{n}",
            "question": [[{"role": "user", "content": f"Area with base {n}?"}]],
            "function": [{"name": "geo.area", "description": "Area", "parameters": SCHEMA}],
        }
        for n in range(count)
    ]
    found = [{"id": f"{name}_{n}", "ground_truth": [{"geo.area": {"base": [n]}}]} for n in range(count)]
    (folder / f"{name}.json").write_text("\n".join(map(json.dumps, rows)))
    if answers:
        (folder / "possible_answer" / f"{name}.json").write_text("\n".join(map(json.dumps, found)))
    return str(folder / f"{name}.json")


async def test_rows_of_the_leaderboard_become_tasks(tmp_path):
    path = write_rows(tmp_path, "simple", 40)
    train, held = BFCL(path, "d"), BFCL(path, "d", split="held_out")
    assert len(train) + len(held) == 40 and len(held) > 0
    assert not {train[i].id for i in range(len(train))} & {held[i].id for i in range(len(held))}
    task = train[0]
    base = task.reference["calls"][0]["arguments"]["base"][0]
    assert task.prompt[0].content == f"Area with base {base}?"
    assert task.tools[0].parameters == {
        "type": "object",
        "properties": {
            "base": {"type": "number"},
            "type": {},
            "points": {"type": "array", "items": {"type": "object", "properties": {}}},
        },
    }
    reward = FunctionCallReward(ScriptedSandbox({}))
    assert (await reward(said("", [call("geo.area", base=base)]), task)).value == 1.0
    assert (await reward(said("", [call("geo.area", base=base + 1)]), task)).value == 0.0


def test_only_the_irrelevance_file_has_no_answers(tmp_path):
    assert BFCL(write_rows(tmp_path, "irrelevance", 20, answers=False), "d")[0].reference == {"calls": []}
    with pytest.raises(DataError, match="its answers are missing; put them at"):
        BFCL(write_rows(tmp_path, "multiple", 3, answers=False), "d")
    (tmp_path / "possible_answer" / "multiple.json").write_text('{"id": "multiple_0", "ground_truth": []}')
    with pytest.raises(DataError, match="no acceptable answer for 'multiple_1'"):
        BFCL(str(tmp_path / "multiple.json"), "d")
