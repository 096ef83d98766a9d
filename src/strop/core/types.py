"""The values that flow through Strop, from a task to a training batch.

All are frozen and keyword-only; invariants are checked once, in the constructor. Token fields are read-only numpy
arrays. Shapes: T tokens of one completion, P ids given to one turn, L tokens of one training sample. One alignment
everywhere: index t speaks of token t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strop.core.errors import brief

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Support = tuple[IntArray | None, ...]  # per position the ids that sampling kept; None where the whole vocabulary was

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "cancelled"]
Status = Literal["ok", "truncated", "agent_error", "infra_error"]
Outcome = Literal["scored", "not_applicable", "timeout", "crash", "infra"]

LARGEST_SCORE = 1e30  # its square must fit into float64, itself into float32
NOT_SAMPLED = -1  # the version of a token that no policy sampled


def read_only(values: Any, dtype: Any) -> NDArray[Any]:
    """A one-dimensional read-only copy of `values`, so that no holder of a value can change another's view of it."""
    array = np.array(values, dtype=dtype)
    if array.ndim != 1:
        raise ValueError(f"expected one dimension, got shape {array.shape}")
    array.flags.writeable = False
    return array


def _set(value: object, **fields: object) -> None:
    for name, content in fields.items():
        object.__setattr__(value, name, content)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call the policy asked for; `arguments` is parsed JSON, never text."""

    id: str
    name: str
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A function the policy may call; `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One problem. `reference` is what rewards compare with; the policy never sees it."""

    id: str
    domain: str
    prompt: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    reference: JSON = None
    level: int | None = None
    data: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError(f"task {self.id}: the prompt has no message")


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """How one turn is sampled. `top_k = 0` and `top_p = 1.0` keep the whole vocabulary; temperature 0 is greedy."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be finite and at least 0, got {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0, got {self.top_k}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Completion:
    """The tokens of one turn as sampled, the end token included.

    `logprobs` are of the distribution sampled from (temperature and support applied); at temperature 0 they are of
    the distribution at temperature 1. `versions` names the policy that drew each token.
    """

    token_ids: IntArray  # [T]
    logprobs: FloatArray  # [T]
    versions: IntArray  # [T]
    support: Support | None = None
    finish_reason: FinishReason

    def __post_init__(self) -> None:
        _set(
            self,
            token_ids=read_only(self.token_ids, np.int32),
            logprobs=read_only(self.logprobs, np.float32),
            versions=read_only(self.versions, np.int32),
        )
        lengths = {len(self.token_ids), len(self.logprobs), len(self.versions)}
        if self.support is not None:
            lengths.add(len(self.support))
        if len(lengths) != 1:
            raise ValueError(f"completion fields differ in length: {sorted(lengths)}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Turn:
    """One exchange: ids given, ids sampled, what they said and what the environment answered.

    `input_ids` are the ids added since the previous turn ended, or the whole rendered conversation where `continues`
    is False (the first turn, or a chat template that rewrote history: a new training sample starts there).
    """

    input_ids: IntArray  # [P]
    continues: bool
    completion: Completion
    message: Message
    replies: tuple[Message, ...] = ()
    reward: float | None = None

    def __post_init__(self) -> None:
        _set(self, input_ids=read_only(self.input_ids, np.int32))


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """What one reward said of one rollout. `value` is None exactly when there is nothing to train on.

    `timeout` and `crash` are the answer's fault and carry 0.0; `not_applicable` and `infra` carry None.
    `version` is the hash of the reward's code and configuration. `raw` is what a learned reward said before `value`
    was made comparable within the group; curves show it, nothing is trained on it.
    """

    value: float | None
    outcome: Outcome = "scored"
    detail: str = ""
    version: str = ""
    raw: float | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.outcome in ("not_applicable", "infra")):
            raise ValueError(f"a score with outcome {self.outcome} cannot have value {self.value}")
        if self.value is None:
            return
        if not -LARGEST_SCORE <= self.value <= LARGEST_SCORE:
            raise ValueError(f"a score must be a finite number of at most {LARGEST_SCORE:g}, got {brief(self.value)}")
        object.__setattr__(self, "value", float(self.value))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """Named scores and their weights. Scores that do not apply leave the sum; an infra score makes it unknown.

    In advantages a score that does not apply stands at the mean of those it applies to: it neither pays nor costs.
    """

    scores: Mapping[str, Score]
    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if set(self.scores) != set(self.weights):
            raise ValueError(f"scores {sorted(self.scores)} and weights {sorted(self.weights)} differ in names")

    @property
    def total(self) -> float | None:
        """The weighted sum of the scores that apply; None while an infra failure leaves it unknown, or where no score
        with a weight applies."""
        if any(score.outcome == "infra" for score in self.scores.values()):
            return None
        paid = [(w, v) for name, w in self.weights.items() if (v := self.scores[name].value) is not None]
        return float(sum(w * v for w, v in paid)) if any(w for w, _ in paid) else None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rollout:
    """One attempt at a task. `evidence` is the end state that rewards need once the environment is gone.

    A rollout forked from another holds its whole path from the root; `parent` and `fork_at` (tokens) only name it.
    """

    task_id: str
    index: int
    turns: tuple[Turn, ...]
    status: Status
    reward: Reward | None = None
    evidence: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    parent: int | None = None
    fork_at: int | None = None
    error: str | None = None
    timing: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def text(self) -> str:
        """What the policy wrote in its last turn."""
        return self.turns[-1].message.content if self.turns else ""

    @property
    def num_tokens(self) -> int:
        """Tokens the policy sampled, over all turns."""
        return sum(len(turn.completion.token_ids) for turn in self.turns)

    @property
    def total(self) -> float | None:
        """The reward to learn from; None when the rollout must not be learned from."""
        return None if self.reward is None or self.status == "infra_error" else self.reward.total


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RolloutGroup:
    """All rollouts of one ticket, in the order of their index."""

    ticket: int
    attempt: int
    task: Task
    rollouts: tuple[Rollout, ...]

    @property
    def trainable(self) -> tuple[Rollout, ...]:
        """The members with a known reward: those that enter baselines and averages."""
        return tuple(r for r in self.rollouts if r.total is not None and r.num_tokens)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrainingSample:
    """One root-to-leaf token path of one rollout, flat: there is no split into prompt and completion.

    Example: ids `[p0 p1 a0 a1 t0 a2]` with loss_mask `[0 0 1 1 0 1]` is a prompt of two, an answer of two, a tool
    reply of one and a final answer of one token.
    """

    token_ids: IntArray  # [L]
    loss_mask: BoolArray  # [L] True on tokens the policy sampled (or is taught)
    sampled_logprobs: FloatArray | None = None  # [L], 0 where not sampled
    versions: IntArray  # [L], NOT_SAMPLED where not sampled
    support: Support | None = None
    temperature: float = 1.0
    ticket: int = 0
    index: int = 0
    domain: str = ""

    def __post_init__(self) -> None:
        _set(
            self,
            token_ids=read_only(self.token_ids, np.int32),
            loss_mask=read_only(self.loss_mask, np.bool_),
            versions=read_only(self.versions, np.int32),
        )
        if self.sampled_logprobs is not None:
            _set(self, sampled_logprobs=read_only(self.sampled_logprobs, np.float32))
        fields = (self.token_ids, self.loss_mask, self.versions, self.sampled_logprobs, self.support)
        lengths = {len(f) for f in fields if f is not None}
        if len(lengths) != 1:
            raise ValueError(f"training sample fields differ in length: {sorted(lengths)}")
        if len(self.token_ids) and self.loss_mask[0]:
            raise ValueError("the first token of a sample has no context and cannot be trained on")

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenOutputs:
    """What a model says of one sample, [L] each; index 0, which nothing predicts, is 0.

    `values[t]` is expected before token t is drawn; a reward head speaks of the whole sample, at its last token alone.
    """

    logprobs: FloatArray
    entropy: FloatArray | None = None
    values: FloatArray | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """The result of one optimizer step. `version` is the version its weights will be published under."""

    version: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What an environment shows before the first turn."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What an environment answers to one assistant message."""

    replies: tuple[Message, ...] = ()
    done: bool
    reward: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One number with its weight in the mean over everything of the same name in a step."""

    name: str
    value: float
    weight: float = 1.0
