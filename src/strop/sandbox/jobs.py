"""One job as the supervisor sees it: what is sent to a slot, and what its answer means."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from strop.core.errors import DataError
from strop.core.programs import Execution, ExecutionStatus, Limit, Limits, Program, Tier
from strop.sandbox.languages import Language

if TYPE_CHECKING:
    from strop.sandbox.compiling import Artifact

ANSWER_BYTES = 64 << 20
MIN_MEMORY_BYTES = 16 << 20
MIN_DISK_BYTES = 1 << 20
HEADER_BYTES = 64 << 10  # the answer, with a size for each file, must fit zygotes.MESSAGE_BYTES too
MAX_FILES = 4000
MAX_NAME_BYTES = 255
MAX_PARTS = 16
PAGE = 4096
LIMIT_STATUS: Mapping[str, ExecutionStatus] = {
    "cpu": "time_limit",
    "wall": "time_limit",
    "memory": "memory_limit",
    "output": "output_limit",
    "processes": "process_limit",
    "disk": "runtime_error",
}
OUT_OF_MEMORY = (b"MemoryError", b"std::bad_alloc", b"bad_alloc'", b"Cannot allocate memory")
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True, slots=True)
class Done(Execution):
    """An Execution together with what the job wrote on its answer pipe, and whether a cgroup counted its memory."""

    answers: bytes = b""
    counted: bool = False

    def plain(self) -> Execution:
        return Execution(**{f.name: getattr(self, f.name) for f in fields(Execution)})

    def failed(self, detail: str) -> Done:
        return replace(self, status="runtime_error", detail=detail)

    def not_compiled(self) -> Execution:
        return replace(self.plain(), status="compile_error", files={})


def infra(reason: str, tier: Tier) -> Done:
    return Done(status="infra_error", tier=tier, detail=reason)


@dataclass(frozen=True, kw_only=True)
class Job:
    """`mode` is how the source is used (see `inside/modes.py`), or `native` for the command `argv`."""

    mode: str
    filename: str
    program: Program
    limits: Limits
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    address_space: bool = True
    answers: bool = False
    num_calls: int = 0
    entry_point: str = ""
    names: tuple[str, ...] = ()
    input: bytes | None = None
    channel: int | None = None
    artifact: Artifact | None = None

    def __post_init__(self) -> None:
        limits, program = self.limits, self.program
        if limits.memory_bytes < MIN_MEMORY_BYTES:
            raise DataError(f"memory_bytes must be at least {MIN_MEMORY_BYTES}, got {limits.memory_bytes}")
        if limits.disk_bytes < MIN_DISK_BYTES:
            raise DataError(f"disk_bytes must be at least {MIN_DISK_BYTES}, got {limits.disk_bytes}")
        if limits.processes < 1:
            raise DataError(f"processes must be at least 1, got {limits.processes}")
        size = len(program.source) + sum(PAGE * (2 + name.count("/")) + len(c) for name, c in program.files.items())
        if size > limits.disk_bytes // 2:
            raise DataError(f"source and files take {size} bytes: over half of disk_bytes = {limits.disk_bytes}")
        _check_names(program, self.filename)
        if len(json.dumps(self.header())) > HEADER_BYTES:
            raise DataError(f"args and file names together are over {HEADER_BYTES} bytes")

    @staticmethod
    def script(program: Program, limits: Limits) -> Job:
        return Job(mode="main", filename="solution.py", program=program, limits=limits)

    @staticmethod
    def native(
        program: Program, limits: Limits, language: Language, command: tuple[str, ...], artifact: Artifact | None
    ) -> Job:
        return Job(
            mode="native",
            filename=language.source,
            program=program,
            limits=limits,
            argv=(*command, *program.args),
            environment=language.environment,
            address_space=language.address_space,
            artifact=artifact,
        )

    @staticmethod
    def calls(program: Program, limits: Limits, entry_point: str, num_calls: int, given: bytes) -> Job:
        return Job(
            mode="calls",
            filename="solution.py",
            program=program,
            limits=limits,
            answers=True,
            num_calls=num_calls,
            entry_point=entry_point,
            input=given,
        )

    @staticmethod
    def solution(program: Program, limits: Limits, channel: int) -> Job:
        return Job(mode="solution", filename="solution.py", program=program, limits=limits, channel=channel)

    @staticmethod
    def tester(tests: str, limits: Limits, names: Sequence[str], channel: int) -> Job:
        program = Program(language="python", source=tests)
        return Job(
            mode="tester",
            filename="tests.py",
            program=program,
            limits=limits,
            answers=True,
            names=tuple(names),
            channel=channel,
        )

    @staticmethod
    def same_process(program: Program, tests: str, limits: Limits, names: Sequence[str]) -> Job:
        return Job(
            mode="same_process",
            filename="solution.py",
            program=program,
            limits=limits,
            answers=True,
            names=tuple(names),
            input=tests.encode(),
        )

    def header(self) -> dict[str, Any]:
        limits, program = self.limits, self.program
        return {
            "id": next(_numbers),
            "mode": self.mode,
            "filename": self.filename,
            "argv": self.argv,
            "args": program.args,
            "environment": dict(self.environment),
            "address_space": self.address_space,
            "answers": self.answers,
            "answer_bytes": ANSWER_BYTES,
            "calls": self.num_calls,
            "entry_point": self.entry_point,
            "names": self.names,
            "files": [(name, len(content)) for name, content in program.files.items()],
            "fetch": program.fetch,
            "limits": {
                "cpu": limits.cpu_s,
                "wall": limits.wall,
                "memory": limits.memory_bytes,
                "processes": limits.processes + (self.mode == "calls"),  # the child of the next call is ours
                "output": limits.output_bytes,
                "disk": limits.disk_bytes,
            },
        }

    def contents(self) -> dict[str, bytes]:
        program = self.program
        contents = {"source": program.source.encode("utf-8", "surrogatepass"), "stdin": program.stdin}
        if program.files:
            contents["files"] = b"".join(program.files.values())
        if self.input is not None:
            contents["input"] = self.input
        return contents

    @contextlib.contextmanager
    def descriptors(self) -> Iterator[tuple[list[str], list[int]]]:
        """Memory files of what the job gets, made for one attempt: names and descriptors in the order they are sent."""
        made = {name: _memory_file(name, content) for name, content in self.contents().items()}
        passed = {"channel": self.channel, "artifact": self.artifact.descriptor if self.artifact else None}
        given = made | {name: descriptor for name, descriptor in passed.items() if descriptor is not None}
        try:
            yield list(given), list(given.values())
        finally:
            for descriptor in made.values():
                os.close(descriptor)


def _check_names(program: Program, source: str) -> None:
    """DataError for what could not be put into one folder: it would look like a fault of the sandbox."""
    if len(program.files) + len(program.fetch) > MAX_FILES:
        raise DataError(f"files and fetch together name more than {MAX_FILES} files")
    for text in (*program.args, *program.files, *program.fetch):
        try:
            held = os.fsencode(text)
        except UnicodeEncodeError:
            held = b"\0"
        if b"\0" in held:
            raise DataError(f"no argument and no file name can be {text[:100]!a}: it holds what no system takes")
    folders = {name[:i] for name in program.files for i, letter in enumerate(name) if letter == "/"}
    for name in program.files:
        parts = os.fsencode(name).split(b"/")
        if b"" in parts or b"." in parts or max(map(len, parts)) > MAX_NAME_BYTES or len(parts) > MAX_PARTS:
            raise DataError(f"no file can be called {name[:100]!r}: give a plain relative path")
        if name in folders or source in folders:
            raise DataError(f"files name {name!r} or {source!r} both as a file and as a folder")


def _memory_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def execution_of(job: Job, result: Mapping[str, Any], memory: Sequence[int], tier: Tier, queue_s: float) -> Done:
    """What a slot's answer means. The job's words count only after `running`; before it, the sandbox is at fault."""
    stdout, stderr, answers, files = memory
    lengths = result["lengths"]
    errors = _kept(stderr, lengths[1], job.limits.output_bytes)
    status, detail = _status(job, result, errors, counted=result["counted"])
    code = result["code"] if not result["killed"] else None
    return Done(
        status=status,
        tier=tier,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=_kept(stdout, lengths[0], job.limits.output_bytes),
        stderr=errors,
        cpu_s=result["cpu_s"],
        wall_s=result["wall_s"],
        queue_s=queue_s,
        peak_memory_bytes=result["peak_memory_bytes"],
        limit=_limit(status, result["limit"]),
        detail=detail,
        files=_files(files, result["files"]),
        counted=result["counted"],
        answers=os.pread(answers, min(lengths[2], ANSWER_BYTES), 0) if lengths[2] else b"",
    )


def _status(job: Job, result: Mapping[str, Any], stderr: bytes, counted: bool) -> tuple[ExecutionStatus, str]:
    stage, limit, code = result["stage"], result["limit"], result["code"]
    if stage in ("starting", "failed", "absent") or limit == "cancelled":
        return "infra_error", result["detail"] or f"the job's process ended while {stage}"
    if stage == "compile_error" and limit is None:
        return "compile_error", ""
    if limit is not None:
        return LIMIT_STATUS[limit], ""
    if code and not counted and stderr.rstrip().endswith(OUT_OF_MEMORY):
        return "memory_limit", ""  # the limit was on address space, which refuses instead of killing
    if result["cpu_s"] > job.limits.cpu_s and not job.num_calls:
        return "time_limit", "used more CPU time than allowed by the time it ended"
    return ("ok", "") if code == 0 else ("runtime_error", "")


def _limit(status: ExecutionStatus, fired: Limit | None) -> Limit | None:
    if status == "infra_error":
        return None
    return fired or {"memory_limit": "memory", "time_limit": "cpu"}.get(status)


def _kept(descriptor: int, length: int, cap: int) -> bytes:
    """All of it, or the head and the tail of what was written before the job was stopped."""
    if length <= cap:
        return os.pread(descriptor, length, 0) if length else b""
    head = cap // 2
    return os.pread(descriptor, head, 0) + os.pread(descriptor, cap - head, length - (cap - head))


def _files(descriptor: int, found: Sequence[tuple[str, int]]) -> dict[str, bytes]:
    contents, offset = {}, 0
    for name, size in found:
        contents[name] = os.pread(descriptor, size, offset)
        offset += size
    return contents
