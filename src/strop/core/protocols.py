"""What the parts promise each other. Each protocol has a fake and a conformance check in `strop.testing`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from strop.core.programs import Call, CallExecution, Execution, Limits, Problem, Program, UnitExecution, Verdict
from strop.core.types import (
    JSON,
    Completion,
    FloatArray,
    IntArray,
    Message,
    Observation,
    Rollout,
    RolloutGroup,
    SamplingParams,
    Score,
    StepResult,
    Task,
    TokenOutputs,
    Tool,
    TrainingSample,
    Update,
)

if TYPE_CHECKING:
    from torch import Tensor

    from strop.core.batch import Batch

PauseMode = Literal["wait", "keep_kv", "recompute"]
Aggregation = Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "constant"]


class Sampler(Protocol):
    """Serves the policy: one call, one completion. Concurrent calls join one running batch.

    A prefix equal in ids and version is computed once. Cancelling the awaiting task frees its row within one token.
    """

    async def sample(self, prompt_ids: IntArray, params: SamplingParams) -> Completion: ...


class WeightReceiver(Protocol):
    """The engine's other side: takes new weights at a token boundary. It copies what it is given.

    Versions only rise: ValueError when `load` is given a lower one, which leaves the weights as they were.

    `wait` lets running sequences finish first, `keep_kv` goes on with the old cache, `recompute` rebuilds it.
    """

    async def pause(self, mode: PauseMode) -> None: ...

    async def load(self, version: int, chunks: Iterable[tuple[str, Any]]) -> None: ...

    async def resume(self) -> None: ...


class Environment(Protocol):
    """Single use, in message space: start once, step until done, close once."""

    async def start(self, task: Task) -> Observation: ...

    async def step(self, message: Message) -> StepResult: ...

    async def close(self) -> Mapping[str, JSON]: ...


class ForkableEnvironment(Environment, Protocol):
    def fork(self) -> ForkableEnvironment: ...


class Renderer(Protocol):
    """Turns messages into ids and sampled ids into a message; the only user of the tokenizer."""

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> IntArray:
        """Ids of the conversation up to where the assistant begins to write."""
        ...

    def extend(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        ids: IntArray,
        replies: Sequence[Message],
    ) -> tuple[IntArray, bool]:
        """Ids to give the next turn after `ids` (all so far), and whether they continue `ids` or replace them.

        `messages` is the conversation up to and including the assistant message that `ids` end with.
        """
        ...

    def parse(self, completion: Completion) -> Message: ...

    def teach(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> TrainingSample:
        """The whole conversation as one sample whose mask covers assistant tokens and their end token."""
        ...


class Episode(Protocol):
    """What a search strategy drives: one attempt, sampled piece by piece."""

    async def sample(self, max_tokens: int | None = None) -> None: ...

    async def step(self) -> bool: ...


class Learner(Protocol):
    """Owns the trained weights and their optimizer. One token is computed once, however many samples share it."""

    @property
    def version(self) -> int: ...

    async def update(self, batch: Batch) -> Update: ...

    async def forward(
        self, samples: Sequence[TrainingSample], needs: Sequence[str]
    ) -> Mapping[str, Sequence[TokenOutputs]]:
        """Outputs by name, one per sample: `old` (current weights), `reference` (start weights), `value` (head),
        `score` (the reward head: one value, at the last token)."""
        ...

    def weights(self) -> Iterable[tuple[str, Any]]:
        """Named tensors as the sampler loads them, adapters merged in float32."""
        ...

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...

    def roll_back(self, folder: Path) -> None:
        """Load, but as a version one above the present: versions only rise."""
        ...

    def export(self, folder: Path) -> None: ...


class Sandbox(Protocol):
    """Runs what a model wrote, confined. What a program does is in the Execution; only faults of the sandbox itself
    are status `infra_error`, which a program cannot cause. It never raises for what a program did.
    """

    async def run(self, program: Program, limits: Limits) -> Execution: ...

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        """Load the program once, then call a function (or method of a class Solution), each call in a fresh child.

        The limits of CPU and wall time hold for the loading and for each call.
        """
        ...

    async def test(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, *, same_process: bool = False
    ) -> UnitExecution:
        """Run test source against the program, each in a job of its own. Without `names` all that are found run."""
        ...


class Grader(Protocol):
    """Holds expected values and compares. With `response`, the code is first extracted from a whole model answer.

    Grading ends at the first case that does not pass, unless `every_case`, which a share of passed cases needs.
    """

    async def grade(
        self, problem: Problem, source: str, *, response: bool = False, every_case: bool = False
    ) -> Verdict: ...


class TaskSource(Protocol):
    """A fixed, indexable set of tasks; the same index always gives the same task."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Task: ...


class LevelledSource(TaskSource, Protocol):
    """A TaskSource with levels of difficulty. `len` and indexing speak of the one it was made with.

    `levels` are those it offers, easiest first, at least one. `at_level(level)` is a fixed, indexable source whose
    tasks all carry `Task.level == level`; equal levels give equal sources, and a level beyond the ends is the nearest.
    """

    @property
    def levels(self) -> tuple[int, ...]: ...

    def at_level(self, level: int) -> TaskSource: ...


class Curriculum(Protocol):
    """Which task each ticket gets. Pure: state in, state out; the state is JSON so that checkpoints can hold it."""

    def start(self) -> Mapping[str, JSON]: ...

    def assign(self, state: Mapping[str, JSON], ticket: int) -> Task: ...

    def observe(self, state: Mapping[str, JSON], group: RolloutGroup) -> Mapping[str, JSON]: ...


RewardFn = Callable[[Rollout, Task], float | Score | Awaitable[float | Score | None] | None]
GroupRewardFn = Callable[[Sequence[Rollout], Task], Sequence[float | Score | None]]
KeepFn = Callable[[RolloutGroup], str | None]  # None to keep, else the reason for the drop
Sink = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedReward:
    """A reward with its name and weight. `gate` names another reward that must score above 0 for this one to count.

    `weight = 0` records the score without paying for it.
    """

    name: str
    fn: RewardFn | GroupRewardFn
    weight: float = 1.0
    per: Literal["rollout", "group"] = "rollout"
    gate: str | None = None
    timeout_s: float = 30.0
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """A named source of tasks with its wiring. `signal` names the reward that says right or wrong (before shaping)."""

    name: str
    tasks: TaskSource
    held_out: TaskSource
    environment: Callable[[], Environment]
    rewards: tuple[NamedReward, ...]
    sampling: SamplingParams
    weight: float = 1.0
    parent: str | None = None
    max_turns: int = 1
    max_rollout_tokens: int | None = None
    signal: str = "accuracy"


ScaleState = Mapping[str, float]  # running reward spread per domain, and the multipliers of constraints


@dataclass(frozen=True, slots=True, eq=False)
class PerTurn:
    """An advantage per turn of a rollout."""

    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PerToken:
    """An advantage per token, one array [L] for each training sample of a rollout."""

    values: tuple[FloatArray, ...]


Advantage = float | PerTurn | PerToken


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Credit:
    """What an AdvantageFn returns for trainable rollouts: `advantages[g][r]`, and `returns` with a value head."""

    advantages: Sequence[Sequence[Advantage]]
    returns: Sequence[Sequence[PerToken]] | None = None
    scale: ScaleState


# a step's groups, dropped ones included -> the state with its multiplier moved, and what to log
ConstraintFn = Callable[[Sequence[RolloutGroup], ScaleState], tuple[ScaleState, Mapping[str, float]]]
# groups, then outputs by name with one entry per sample in the order of samples_of(groups)
AdvantageFn = Callable[[Sequence[RolloutGroup], Mapping[str, Sequence[TokenOutputs]], ScaleState], Credit]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LossInputs:
    """One sample as a loss sees it: tensors [L], aligned, float32. What the batch lacks is None."""

    logprobs: Tensor
    entropy: Tensor | None
    values: Tensor | None
    advantages: Tensor
    mask: Tensor
    sampled_logprobs: Tensor | None
    old_logprobs: Tensor | None
    ref_logprobs: Tensor | None
    old_values: Tensor | None
    returns: Tensor | None


# the loss of each token [L], unweighted, and per-token measurements [L] to be averaged over masked tokens
LossFn = Callable[[LossInputs], tuple["Tensor", Mapping[str, "Tensor"]]]
# chosen, rejected and margin -> the loss of the pair, a scalar, and scalars to be averaged over pairs
PairLossFn = Callable[[LossInputs, LossInputs, float], tuple["Tensor", Mapping[str, "Tensor"]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Algorithm:
    """An algorithm is a value: how rewards become advantages, advantages a loss, and what is left out.

    `needs` names the learner outputs it asks for (`old`, `reference`, `value`). `min_group` is the smallest number of
    trainable members its baseline can work with. `geometric_mask` leaves out samples whose |mean log ratio| between
    learner and sampler is out of bounds; it needs `old`. `mask_truncated` leaves truncated rollouts out of the loss,
    of every denominator and of the baseline. `constraints` see every step before the advantages are formed.
    `weighs_by_age` says that the loss goes by how likely tokens are now against when they were sampled, however long
    ago that was.
    """

    name: str
    advantage: AdvantageFn
    loss: LossFn
    keep: KeepFn
    aggregation: Aggregation = "token_mean"
    needs: tuple[str, ...] = ()
    min_group: int = 2
    max_tokens: int = 1  # the constant of aggregation `constant`
    geometric_mask: bool = False
    mask_truncated: bool = False
    domain_normaliser: bool = False
    constraints: tuple[ConstraintFn, ...] = ()
    weighs_by_age: bool = False
