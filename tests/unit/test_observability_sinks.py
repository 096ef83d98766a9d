"""A sink shows the numbers a person watches, and never stops a run."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from strop.core.errors import ConfigError
from strop.observability.sinks import ProgressBar, Sinks, TensorBoard, describe


@dataclass
class Kept:
    steps: list[int] = field(default_factory=list)
    closed: bool = False

    def step(self, stage: str, step: int, num_steps: int, metrics: Mapping[str, float]) -> None:
        self.steps.append(step)

    def close(self) -> None:
        self.closed = True


class Broken:
    def step(self, stage: str, step: int, num_steps: int, metrics: Mapping[str, float]) -> None:
        raise OSError("disk gone")

    def close(self) -> None:
        raise OSError("disk gone")


def test_a_sink_that_fails_is_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    with caplog.at_level(logging.WARNING), Sinks([Broken(), kept]) as sinks:
        for step in (1, 2):
            sinks.step("rl", step, 2, {"reward": 0.5})
    assert (kept.steps, kept.closed) == ([1, 2], True)
    assert sinks.failures == {"Broken": 3}
    assert caplog.messages == ["sink Broken failed: disk gone; the run goes on"]


def test_the_numbers_a_person_watches() -> None:
    metrics = {"reward": 0.5, "pass_rate": 0.25, "num_tokens": 600.0, "time/step_s": 2.0, "entropy": 1.0}
    assert describe(metrics) == "reward 0.500  right 25%  300 tokens/s"
    assert describe({"nll": 1.25}) == "loss 1.250"
    assert describe({}) == ""


def test_the_bar_says_step_and_reward_and_serves_several_stages() -> None:
    console = Console(file=StringIO(), width=120, force_terminal=True)
    with Sinks([ProgressBar(console)]) as sinks:
        sinks.step("sft", 1, 1, {"nll": 2.0})
        sinks.step("rl", 1, 3, {"reward": 0.5})
    assert sinks.failures == {}
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "loss 2.000" in text and "reward 0.500" in text and "1/3" in text


def test_a_bar_that_is_finished_is_not_shown_again() -> None:
    console = Console(file=StringIO(), width=120, force_terminal=False)
    with Sinks([ProgressBar(console)]) as sinks:
        for name in ("evaluate base", "sft", "evaluate sft"):
            sinks.step(name, 1, 1, {})
        sinks.step("rl", 1, 3, {"reward": 0.25})
        sinks.step("evaluate rl-step-1", 1, 1, {})
        sinks.step("rl", 3, 3, {"reward": 0.75})
    text = console.file.getvalue()  # type: ignore[attr-defined]
    found = [line.split(" ━")[0].strip() for line in text.splitlines() if "━" in line]
    assert found == ["evaluate base", "sft", "evaluate sft", "rl", "evaluate rl-step-1"]
    assert "reward 0.750" in text


def test_tensorboard_writes_or_says_what_to_install(tmp_path: Path) -> None:
    if find_spec("tensorboard") is None:
        with pytest.raises(ConfigError, match="pip install tensorboard"):
            TensorBoard(tmp_path)
        return
    with Sinks([TensorBoard(tmp_path)]) as sinks:
        sinks.step("rl", 1, 1, {"reward": 0.5})
    assert sinks.failures == {} and list(tmp_path.glob("events*"))
