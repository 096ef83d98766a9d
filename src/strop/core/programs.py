"""The values of the sandbox: what runs, under which limits, what happened, and the verdict on it.

Sizes are bytes, times are seconds. Nothing here can tell a program what answer is expected: expected values live in a
`Problem`, which only a grader holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ExecutionStatus = Literal[
    "ok",
    "runtime_error",
    "time_limit",
    "memory_limit",
    "output_limit",
    "process_limit",
    "compile_error",
    "infra_error",
]
VerdictName = Literal[
    "passed",
    "wrong_answer",
    "no_answer",
    "runtime_error",
    "time_limit",
    "memory_limit",
    "output_limit",
    "process_limit",
    "compile_error",
    "infra_error",
]
Limit = Literal["cpu", "wall", "memory", "output", "processes", "disk"]
Tier = Literal["full", "rootless", "landlock", "gvisor", "unsafe"]
Trust = Literal["strong", "weak"]  # weak: the tests shared a process with the solution, which could have fooled them

WALL_PER_CPU = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one job may use. CPU time decides the verdict; wall time only stops what waits.

    `wall_s` None is 3 × `cpu_s`. `processes` counts threads too; `output_bytes` holds for stdout and stderr each.
    """

    cpu_s: float = 10.0
    wall_s: float | None = None
    memory_bytes: int = 1 << 30
    processes: int = 64
    output_bytes: int = 16 << 20
    disk_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for name in ("cpu_s", "wall_s", "memory_bytes", "processes", "output_bytes", "disk_bytes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a finite number above 0, got {value!r}")

    @property
    def wall(self) -> float:
        return self.wall_s if self.wall_s is not None else WALL_PER_CPU * self.cpu_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """Source text with all that one run of it gets.

    `args` follow the program's name. `files` are put into its work folder, `fetch` is read from it afterwards; their
    names are relative, without `..`.
    """

    language: str
    source: str
    stdin: bytes = b""
    args: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    fetch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (*self.files, *self.fetch):
            if not name or name.startswith("/") or "\0" in name or ".." in name.split("/"):
                raise ValueError(f"file names are relative, without '..'; got {name!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """What one job did. `stdout` and `stderr` hold its head and tail where it wrote more than is kept.

    `limit` says which limit fired. `queue_s` is the wait for a free core, not part of `wall_s`. `files` are those of
    `Program.fetch` that were regular files in the work folder.
    """

    status: ExecutionStatus
    tier: Tier
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    queue_s: float = 0.0
    peak_memory_bytes: int = 0
    limit: Limit | None = None
    detail: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """The arguments of one call of an entry point: plain data (None, bool, int, float, str, bytes and containers)."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one call gave: a value rebuilt from exact types, an error text, or nothing that could be read."""

    kind: Literal["value", "error", "none"]
    value: Any = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallExecution:
    """`answers` of the first calls, in order; fewer than the calls where `execution` says why the job ended early."""

    execution: Execution
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitRecord:
    """One test as the tester saw it run."""

    name: str
    outcome: Literal["passed", "failed", "error", "skipped"]
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitExecution:
    """A tester and a solution, two jobs with plain-data calls between them. `finished`: the tester ran to its end."""

    tester: Execution
    solution: Execution
    records: tuple[UnitRecord, ...] = ()
    finished: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionCase:
    call: Call
    expected: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StdinCase:
    stdin: str
    expected: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What a solution is graded by. Any of `cases`, `stdin_cases` and `tests` may be given; all that are must pass.

    `tests` is unittest or assert source with the solution's names in scope (also `import solution`); where
    `test_names` is given, each of them must run and pass. `checker` is source of `check(input, output)` for stdin
    cases or `check(args, value)` for function cases and decides instead of `expected`. `same_process` runs `tests`
    beside the solution and marks the verdict's trust as weak.
    """

    language: str = "python"
    entry_point: str | None = None
    cases: tuple[FunctionCase, ...] = ()
    stdin_cases: tuple[StdinCase, ...] = ()
    tests: str | None = None
    test_names: tuple[str, ...] = ()
    float_tolerance: float | None = None
    checker: str | None = None
    same_process: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not (self.cases or self.stdin_cases or self.tests):
            raise ValueError("a problem needs at least one of cases, stdin_cases or tests")
        if self.cases and not self.entry_point:
            raise ValueError("a problem with cases needs entry_point, the name of the function to call")
        if self.float_tolerance is not None and not 0 <= self.float_tolerance < float("inf"):
            raise ValueError(f"float_tolerance must be a finite number of at least 0, got {self.float_tolerance!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseVerdict:
    name: str
    verdict: VerdictName
    detail: str = ""
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`verdict` is `passed` only when all `total` cases passed, else that of the first case that did not."""

    verdict: VerdictName
    passed: int
    total: int
    cases: tuple[CaseVerdict, ...]
    tier: Tier
    trust: Trust = "strong"
    detail: str = ""
