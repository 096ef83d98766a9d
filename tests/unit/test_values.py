"""What is stored comes back as it was, and bytes from elsewhere can only fail."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import completion, group

from strop.core.errors import DataError
from strop.core.types import Message, Reward, Rollout, RolloutGroup, Score, Task, Tool, ToolCall, Turn
from strop.storage.values import pack, unpack


def same(one, other):
    """Equal in every field, arrays by dtype and content."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in one)
    return one == other


def rich_group():
    """Every type and every field that a group can hold, none left at its default."""
    call = ToolCall(id="c", name="add", arguments={"a": [1, 2.5, None]})
    said = dataclasses.replace(
        completion([5, 6], versions=[3, 4]), support=(np.array([5, 7], np.int32), None), finish_reason="length"
    )
    turn = Turn(
        input_ids=[1, 2],
        continues=False,
        completion=said,
        message=Message(role="assistant", content="é\ud800", tool_calls=(call,)),
        replies=(Message(role="tool", content="3", tool_call_id="c"),),
        reward=0.5,
    )
    rollout = Rollout(
        task_id="t",
        index=1,
        turns=(turn,),
        status="truncated",
        reward=Reward(
            scores={"a": Score(value=0.25, detail="d", version="v", raw=-3.0), "b": Score(value=None, outcome="infra")},
            weights={"a": 1.0, "b": 2.0},
        ),
        evidence={"files": {"x": [True, {"y": "z"}]}},
        parent=0,
        fork_at=3,
        error="none",
        timing={"rollout_s": 1.5},
    )
    task = Task(
        id="t",
        domain="d",
        prompt=(Message(role="user", content="q"),),
        tools=(Tool(name="add", description="adds", parameters={"type": "object"}),),
        reference={"k": (1, 2)},
        level=2,
        data={"array": "no", "tuple": 1, "map": {}, "Task": {"id": 3}},
    )
    return RolloutGroup(ticket=7, attempt=2, task=task, rollouts=(rollout,))


@pytest.mark.parametrize("value", [rich_group(), group([1.0, None, 0.0]), None, {"a": (1, [2])}])
def test_values_come_back_as_they_were(value):
    content = pack(value)
    assert same(_plain(value), unpack(content))
    assert pack(unpack(content)) == content


def _plain(value):
    """The same with dicts for the read-only maps that are the defaults of some fields."""
    if isinstance(value, RolloutGroup):
        task = dataclasses.replace(value.task, data=dict(value.task.data))
        members = (
            dataclasses.replace(r, evidence=dict(r.evidence), timing=dict(r.timing), reward=_plain(r.reward))
            for r in value.rollouts
        )
        return dataclasses.replace(value, task=task, rollouts=tuple(members))
    if isinstance(value, Reward):
        return dataclasses.replace(value, scores=dict(value.scores), weights=dict(value.weights))
    return value


def test_what_is_read_cannot_be_changed():
    found = unpack(pack(rich_group())).rollouts[0].turns[0].completion
    with pytest.raises(ValueError, match="read-only"):
        found.logprobs[0] = 1.0


def test_what_cannot_be_stored_is_refused():
    with pytest.raises(TypeError, match="object"):
        pack({"x": object()})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b'{"os.system": {}}',
        b'{"Task": {"id": 1}}',
        b'{"Task": {"id": "t", "domain": "d", "prompt": {"tuple": []}}}',
        b'{"array": ["<f4", "!"]}',
        b'{"array": ["<f4", "AAA="]}',
        b'{"array": 3}',
        b'{"a": 1, "b": 2}',
        b"{}",
        b'{"tuple": 3}',
        b'{"map": [[1]]}',
    ],
)
def test_bytes_that_hold_no_value_are_one_error(content):
    with pytest.raises(DataError, match="no value"):
        unpack(content)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner)))
def test_any_plain_value_comes_back(value):
    assert same(value, unpack(pack(value)))


@given(st.binary() | st.recursive(scalars, lambda i: st.lists(i) | st.dictionaries(st.text(), i)).map(json.dumps))
def test_any_other_bytes_can_only_fail(content):
    with contextlib.suppress(DataError):
        unpack(content if isinstance(content, bytes) else content.encode())
