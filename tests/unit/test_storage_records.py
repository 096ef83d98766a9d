"""What a run leaves can be read back, and a resumed run leaves no step twice."""

import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strop.core.errors import ConfigError, DataError
from strop.core.types import Completion, Message, Reward, Rollout, RolloutGroup, Score, Task, Turn
from strop.storage.records import MetricsLog, RunFolder, cut_rollouts, first_difference, read_rollouts, write_rollouts


def turn(given: list[int], drawn: list[int], text: str, *, continues: bool, replies: tuple[Message, ...] = ()) -> Turn:
    completion = Completion(
        token_ids=drawn, logprobs=[-0.5] * len(drawn), versions=[3] * len(drawn), finish_reason="stop"
    )
    message = Message(role="assistant", content=text)
    return Turn(input_ids=given, continues=continues, completion=completion, message=message, replies=replies)


def make_group(ticket: int, domain: str = "sums") -> RolloutGroup:
    task = Task(id=f"task-{ticket}", domain=domain, prompt=(Message(role="user", content="1+1?"),), level=2)
    scores = {"accuracy": Score(value=1.0), "judge": Score(value=None, outcome="infra", detail="no answer")}
    good = Rollout(
        task_id=task.id,
        index=0,
        turns=(
            turn([5, 6], [7, 8], "hm", continues=False, replies=(Message(role="tool", content="ok"),)),
            turn([9], [2], "2", continues=True),
        ),
        status="ok",
        reward=Reward(scores={"accuracy": Score(value=1.0)}, weights={"accuracy": 0.5}),
        evidence={"files": ["a"]},
        timing={"rollout_s": 0.25},
    )
    failed = replace(good, index=1, reward=Reward(scores=scores, weights={"accuracy": 1.0, "judge": 1.0}))
    dead = Rollout(task_id=task.id, index=2, turns=(), status="infra_error", error="OSError: gone")
    return RolloutGroup(ticket=ticket, attempt=1, task=task, rollouts=(good, failed, dead))


def test_every_rollout_comes_back_with_all_it_was(tmp_path: Path) -> None:
    write_rollouts(tmp_path, 4, [make_group(11)], stage="rl", run="r1", advantages={(11, 0): 0.75})
    good, failed, dead = read_rollouts(tmp_path)
    assert (good["run"], good["stage"], good["step"], good["ticket"], good["attempt"]) == ("r1", "rl", 4, 11, 1)
    assert good["prompt"] == "user: 1+1?" and good["text"] == "hm\n\ntool: ok\n\n2"
    assert good["token_ids"] == [[5, 6, 7, 8, 9, 2]]
    assert good["loss_mask"] == [[False, False, True, True, False, True]]
    assert good["versions"] == [[-1, -1, 3, 3, -1, 3]]
    assert np.allclose(good["sampled_logprobs"], [[0, 0, -0.5, -0.5, 0, -0.5]])
    assert good["scores"] == {"accuracy": {"value": 1.0, "outcome": "scored", "detail": "", "version": "", "raw": None}}
    assert (good["total"], good["weights"], good["advantage"], good["level"]) == (0.5, {"accuracy": 0.5}, 0.75, 2)
    assert good["timing"] == {"rollout_s": 0.25} and good["evidence"] == '{"files": ["a"]}'
    assert failed["total"] is None and failed["scores"]["judge"]["detail"] == "no answer"
    assert (dead["status"], dead["error"], dead["token_ids"], dead["finish_reason"]) == (
        "infra_error",
        "OSError: gone",
        [],
        None,
    )


def test_reading_a_part(tmp_path: Path) -> None:
    for step in (2, 10):
        write_rollouts(tmp_path, step, [make_group(step), make_group(step + 1, "dates")], stage="rl")
    assert [row["step"] for row in read_rollouts(tmp_path, columns=["step"])] == [2] * 6 + [10] * 6
    assert {row["task_id"] for row in read_rollouts(tmp_path, step=10, domain="dates")} == {"task-11"}
    assert len(read_rollouts(tmp_path, domain="sums", task_id="task-2")) == 3
    assert read_rollouts(tmp_path / "none") == []
    with pytest.raises(DataError, match=r"step 3 has no rollouts; recorded are \[2, 10\]"):
        read_rollouts(tmp_path, step=3)


def test_a_resumed_run_leaves_no_step_twice(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.cut(0)
    for step in (1, 2, 3):
        log.append(step, {"reward": step / 4})
        write_rollouts(tmp_path, step, [make_group(step)], stage="rl")
    with log.path.open("a") as file:
        file.write('{"step": 4, "rew')  # killed in mid line
    assert [line["step"] for line in log.read()] == [1, 2, 3]
    log.cut(1)
    cut_rollouts(tmp_path, 1)
    log.append(2, {"reward": 0.9})
    assert log.read() == [{"step": 1, "reward": 0.25}, {"step": 2, "reward": 0.9}]
    assert {row["step"] for row in read_rollouts(tmp_path)} == {1}


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path, "sums", {"seed": 0})
    second = RunFolder.create(tmp_path, "sums", {"seed": 0})
    assert (first.path.name, second.path.name) == ("sums", "sums-2")
    assert first.run_id != second.run_id
    assert RunFolder.open(first.path, {"seed": 0}) == first
    with pytest.raises(ConfigError, match="another configuration"):
        RunFolder.open(first.path, {"seed": 1})
    with pytest.raises(ConfigError, match="not a run folder"):
        RunFolder.open(tmp_path, {"seed": 0})


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    first = RunFolder.create(tmp_path, "sums", {"seed": 0})
    again = RunFolder.open(first.path, {"seed": 0})
    with first.claim(), pytest.raises(ConfigError, match="another process is at work"), again.claim():
        pass
    with again.claim():
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"run_id": "a"}'])
def test_a_folder_whose_identity_is_spoilt_is_one_error(content, tmp_path):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ConfigError, match=r"run\.json: cannot be read"):
        RunFolder.open(tmp_path, {})


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        ({"seed": 0}, {"seed": 1}, ("seed", "0", "1")),
        ({"a": {"b": [{"c": 1}, {"c": 2}]}}, {"a": {"b": [{"c": 1}, {"c": 3}]}}, ("a.b.1.c", "2", "3")),
        ({"a": 1, "z": 1}, {"z": 2, "a": 2}, ("z", "1", "2")),
        ({"a": [1]}, {"a": [1, "x"]}, ("a.1", "not set", '"x"')),
        ({"a": 1, "old": None}, {"a": 1}, ("old", "null", "not set")),
        ({"a": {"b": 1}}, {"a": None}, ("a", '{"b": 1}', "null")),
        ({"a": "x" * 100}, {"a": True}, ("a", '"' + "x" * 56 + "...", "true")),
        ({"b": 1, "a": [{}]}, {"a": [{}], "b": 1}, None),
    ],
)
def test_the_first_difference_of_two_configurations_is_named(there, here, said, tmp_path):
    assert first_difference(there, here) == said
    folder = RunFolder.create(tmp_path, "run", there)
    if said is None:
        assert RunFolder.open(folder.path, here) == folder
        return
    key, old, new = said
    with pytest.raises(ConfigError, match=re.escape(f"with {key} = {old} where this is {new}; use its own")):
        RunFolder.open(folder.path, here)


def test_costs_go_on_after_a_stop_and_an_error_loses_no_kept_time(tmp_path):
    folder = RunFolder.create(tmp_path, "run", {})
    costs = folder.costs()
    with pytest.raises(OSError), costs.timed("rl") as keep:
        time.sleep(0.02)
        keep()
        raise OSError
    kept = folder.costs().seconds["rl"]
    assert kept >= 0.02
    again = folder.costs()
    with again.timed("rl"), again.timed("evaluate base"):
        time.sleep(0.02)
    found = folder.costs().seconds
    assert found == again.seconds and found["rl"] >= kept + 0.02 and set(found) == {"rl", "evaluate base"}
