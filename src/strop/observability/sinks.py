"""Where the numbers of a step are shown. A sink that fails never stops a run; it is counted and named once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from strop.core.errors import ConfigError

log = logging.getLogger(__name__)


class StepSink(Protocol):
    def step(self, stage: str, step: int, num_steps: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


@dataclass
class Sinks:
    """Gives every step to each sink; `failures` counts by the sink's class. Closes them when left as a context."""

    sinks: Sequence[StepSink] = ()
    failures: dict[str, int] = field(default_factory=dict)

    def step(self, stage: str, step: int, num_steps: int, metrics: Mapping[str, float]) -> None:
        for sink in self.sinks:
            with self._counted(sink):
                sink.step(stage, step, num_steps, metrics)

    def __enter__(self) -> Sinks:
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self.sinks:
            with self._counted(sink):
                sink.close()

    @contextmanager
    def _counted(self, sink: StepSink) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the sink's border
            name = type(sink).__name__
            self.failures[name] = self.failures.get(name, 0) + 1
            if self.failures[name] == 1:
                log.warning("sink %s failed: %s; the run goes on", name, error)


class ProgressBar:
    """One line a stage or evaluation: step, reward or loss, tokens/s, time left."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def step(self, stage: str, step: int, num_steps: int, metrics: Mapping[str, float]) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=num_steps, numbers="")
            self._progress.start()
        self._progress.update(self._tasks[stage], completed=step, numbers=describe(metrics))
        if self._progress.finished:
            self._progress.stop()
            while self._tasks:  # what is finished is said, and not said again when the next one starts
                self._progress.remove_task(self._tasks.popitem()[1])

    def close(self) -> None:
        """Give the terminal back; a run that was stopped leaves its bar where it was."""
        self._progress.stop()


def describe(metrics: Mapping[str, float]) -> str:
    """The few numbers a person watches."""
    parts = []
    if "reward" in metrics:
        parts.append(f"reward {metrics['reward']:.3f}")
        if "pass_rate" in metrics:
            parts.append(f"right {100 * metrics['pass_rate']:.0f}%")
    elif "nll" in metrics:
        parts.append(f"loss {metrics['nll']:.3f}")
    seconds = metrics.get("time/step_s", 0.0)
    if seconds > 0 and "num_tokens" in metrics:
        parts.append(f"{metrics['num_tokens'] / seconds:.0f} tokens/s")
    return "  ".join(parts)


class TensorBoard:
    """Scalars for TensorBoard; needs the package tensorboard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError("TensorBoard output needs the package tensorboard: pip install tensorboard") from error
        self._writer = SummaryWriter(str(folder))

    def step(self, stage: str, step: int, num_steps: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(f"{stage}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()
