"""The Python API: the build path of the command line, with functions where a recipe has names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from strop.config.load import parse_config
from strop.core.errors import ConfigError, StropError
from strop.core.types import Task
from strop.rewards.from_trl import FromTrl
from strop.tasks.memory import InMemory
from strop.tasks.pairs import pairs_of_rows

if TYPE_CHECKING:
    from strop.evaluation.report import EvalReport
    from strop.stages import RunResult

PairsLike = Sequence[Mapping[str, Any]] | Mapping[str, Any]
RewardLike = str | Callable[..., Any] | Mapping[str, Any]
Result = TypeVar("Result")
DomainLike = Sequence[Task | Mapping[str, Any]] | Mapping[str, Any]


def train(
    *,
    model: str,
    domains: Mapping[str, DomainLike],
    rewards: Sequence[RewardLike] = ("exact",),
    algorithm: str | Mapping[str, Any] = "strop",
    steps: int = 20,
    stage: Mapping[str, Any] | None = None,
    resume: Path | None = None,
    accept_rewards: Sequence[str] = (),
    quiet: bool = False,
    **sections: Any,
) -> RunResult:
    """One RL stage over `domains`, evaluated before and after.

    A domain is a list of rows or Tasks (a tenth is held out), or the keys of a `[[domains]]` section. A reward is a
    function of (rollout, task) or `strop.rewards.from_trl(fn)`, named after itself, or the keys of a `[[rewards]]`
    section; the first one says right or wrong. `stage` holds further keys of the stage, `sections` any other section:
    `learner={"lora": {}}`. `accept_rewards` names rewards that may have changed since the run `resume` began.
    """
    wanted = {"preset": algorithm} if isinstance(algorithm, str) else dict(algorithm)
    return _run(
        [{"stage": "rl", "steps": steps, "algorithm": wanted, **(stage or {})}],
        model=model,
        domains=domains,
        rewards=rewards,
        resume=resume,
        accept_rewards=accept_rewards,
        quiet=quiet,
        sections=sections,
    )


def sft(
    *,
    model: str,
    domains: Mapping[str, DomainLike],
    steps: int = 100,
    rewards: Sequence[RewardLike] = ("exact",),
    stage: Mapping[str, Any] | None = None,
    resume: Path | None = None,
    accept_rewards: Sequence[str] = (),
    quiet: bool = False,
    **sections: Any,
) -> RunResult:
    """One SFT stage on the responses of the domains' tasks (`messages`, `completion` or `response` of each row)."""
    return _run(
        [{"stage": "sft", "steps": steps, **(stage or {})}],
        model=model,
        domains=domains,
        rewards=rewards,
        resume=resume,
        accept_rewards=accept_rewards,
        quiet=quiet,
        sections=sections,
    )


def reward_model(
    *,
    model: str,
    pairs: PairsLike,
    steps: int = 100,
    stage: Mapping[str, Any] | None = None,
    resume: Path | None = None,
    quiet: bool = False,
    **sections: Any,
) -> RunResult:
    """One stage that trains a reward model on pairs of a better and a worse answer.

    `pairs` are rows with `prompt`, `chosen` and `rejected` (a tenth is held out), or the keys of a stage's `data`. The
    result is a reward by `use = "reward_model"` and `params = {"path": result.folder, "stage": "reward_model"}`.
    """
    wanted = {"stage": "reward_model", "steps": steps, "data": _pairs(pairs), **(stage or {})}
    return _run(
        [wanted], model=model, domains={}, rewards=(), resume=resume, accept_rewards=(), quiet=quiet, sections=sections
    )


def dpo(
    *,
    model: str,
    pairs: PairsLike,
    domains: Mapping[str, DomainLike] | None = None,
    rewards: Sequence[RewardLike] = ("exact",),
    steps: int = 100,
    stage: Mapping[str, Any] | None = None,
    resume: Path | None = None,
    quiet: bool = False,
    **sections: Any,
) -> RunResult:
    """One DPO stage on pairs, given as for `reward_model`. Where there are `domains`, they are evaluated before and
    after."""
    return _run(
        [{"stage": "preference", "steps": steps, "data": _pairs(pairs), **(stage or {})}],
        model=model,
        domains=domains or {},
        rewards=rewards if domains else (),
        resume=resume,
        accept_rewards=(),
        quiet=quiet,
        sections=sections,
    )


def evaluate(
    *,
    model: str,
    domains: Mapping[str, DomainLike],
    rewards: Sequence[RewardLike] = ("exact",),
    quiet: bool = False,
    **sections: Any,
) -> EvalReport:
    """The model on the held-out tasks of `domains`."""
    from strop.stages import evaluate_model

    stages = [{"stage": "rl", "steps": 1}]
    return _result_of(evaluate_model(_config(stages, model, domains, rewards, sections), quiet=quiet))


def _run(
    stages: list[dict[str, Any]],
    *,
    model: str,
    domains: Mapping[str, DomainLike],
    rewards: Sequence[RewardLike],
    resume: Path | None,
    accept_rewards: Sequence[str],
    quiet: bool,
    sections: Mapping[str, Any],
) -> RunResult:
    from strop.stages import start_run  # torch loads here, so that `import strop` stays quick

    config = _config(stages, model, domains, rewards, sections)
    return _result_of(start_run(config, resume=resume, accept_rewards=accept_rewards, quiet=quiet))


def _result_of(work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` returns. What a user can mend is raised without the frames of the machinery it passed through."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        running = False
    else:
        running = True
    try:
        return _in_own_thread(work) if running else asyncio.run(work)
    except StropError as error:
        raise error.with_traceback(None) from None


def _in_own_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Where a loop runs already, as in a notebook, `work` gets a thread with one of its own; an interrupt ends it."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def run() -> Result:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="strop") as threads:
        running = threads.submit(asyncio.run, run())
        try:
            return running.result()
        except KeyboardInterrupt:
            loop, task = started.result()
            if task is not None and not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
            raise


def _config(
    stages: list[dict[str, Any]],
    model: str,
    domains: Mapping[str, DomainLike],
    rewards: Sequence[RewardLike],
    sections: Mapping[str, Any],
) -> Any:
    described = [_reward(reward) for reward in rewards]
    if domains and not described:
        raise ConfigError("rewards is empty: give at least one function, or leave it out for exact match")
    signal = described[0]["name"] if described else ""
    content = {
        "name": "run",
        "model": {"path": model},
        "rewards": described,
        "domains": [{"signal": signal, **_domain(name, domain)} for name, domain in domains.items()],
        "stages": stages,
        **sections,
    }
    return parse_config(content, "arguments")


def _pairs(pairs: PairsLike) -> dict[str, Any]:
    if isinstance(pairs, Mapping):
        return {**pairs}
    return {"use": partial(pairs_of_rows, rows=tuple(pairs))}


def _reward(reward: Any) -> dict[str, Any]:
    if isinstance(reward, Mapping):
        return {**reward}
    if isinstance(reward, str):
        return {"name": "accuracy" if reward == "exact" else reward, "use": reward}
    if not callable(reward):
        raise ConfigError(f"a reward must be a function, a name or the keys of a rewards section, got {reward!r}")
    fn = reward.fn if isinstance(reward, FromTrl) else reward
    name = fn.__name__ if inspect.isroutine(fn) else type(fn).__name__
    return {"name": name, "use": reward, "per": "group" if isinstance(reward, FromTrl) else "rollout"}


def _domain(name: str, domain: DomainLike) -> dict[str, Any]:
    if isinstance(domain, Mapping):
        return {"name": name, **domain}
    if not domain:
        raise ConfigError(f"domain {name!r}: has no row")
    return {"name": name, "tasks": {"use": partial(InMemory, rows=tuple(domain))}}
