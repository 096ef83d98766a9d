"""One gVisor container from outside: started, given its job, listened to, and gone when this returns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strop.core.errors import InfraError
from strop.sandbox.bundles import config_of
from strop.sandbox.jobs import ANSWER_BYTES, Job
from strop.sandbox.packages import SearchFolder

JOB, CONTENTS, CHANNEL, HANG_UP, ALIVE, OUTPUT, RESULT = range(7)  # as in inside/contained.py
STREAMS = ("stdout", "stderr", "answers", "files")
START_S = 30.0
SILENT_S = 15.0  # the container says every second that it lives
END_S = 5.0
MAX_FRAME = 1 << 20
SPARE_BYTES = 4 << 20
_FRAME = struct.Struct("<II")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """How containers are started: the program, its global options, the root they share and the host's folders in it."""

    runsc: str
    options: tuple[str, ...]
    folder: Path
    shown: tuple[str, ...]
    packages: tuple[SearchFolder, ...]

    @property
    def command(self) -> list[str]:
        return [self.runsc, *self.options, f"--root={self.folder / 'state'}"]

    def header(self, job: Job, contents: Mapping[str, bytes]) -> bytes:
        sizes = [(name, len(content)) for name, content in contents.items()]
        own = {"contents": sizes, "channel": job.channel is not None, "packages": self.packages}
        return json.dumps({**job.header(), **own}).encode()


@dataclass(eq=False)
class Line:
    """The way into one container. `peer` is the other job's of a pair, `ready` once its channel can be written."""

    peer: Line | None = None
    writer: asyncio.StreamWriter | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def tell(self, kind: int, *payload: bytes) -> None:
        assert self.writer is not None
        with contextlib.suppress(ConnectionError):  # a container that ended says so by its result, or by having none
            self.writer.write(_FRAME.pack(kind, sum(map(len, payload))))
            for part in payload:
                self.writer.write(part)
            await self.writer.drain()

    async def pass_on(self, kind: int, data: bytes) -> None:
        await self.ready.wait()
        if self.writer is not None:
            await self.tell(kind, data)


@contextlib.contextmanager
def memory_files() -> Iterator[list[int]]:
    made = [os.memfd_create(name, os.MFD_CLOEXEC) for name in STREAMS]
    try:
        yield made
    finally:
        for descriptor in made:
            os.close(descriptor)


async def run_container(runtime: Runtime, job: Job, line: Line, memory: Sequence[int]) -> Mapping[str, Any]:
    """The result that the container gave; its outputs are in `memory`. InfraError when it gave none."""
    name = f"strop-{uuid.uuid4().hex[:12]}"
    bundle = runtime.folder / name
    bundle.mkdir()
    (bundle / "config.json").write_text(config_of(runtime.folder / "root", runtime.shown, job.limits.disk_bytes))
    process = await asyncio.create_subprocess_exec(
        *runtime.command,
        "run",
        f"--bundle={bundle}",
        name,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    words = asyncio.ensure_future(_last_words(process))
    try:
        result = await _converse(runtime, job, line, process, memory)
        if result is None:
            raise InfraError(f"a container ended without a result: {await words or 'it said nothing'}")
        return result
    finally:
        line.writer = None
        line.ready.set()
        await asyncio.shield(asyncio.ensure_future(_end(runtime, process, words, name, bundle)))


async def _converse(
    runtime: Runtime, job: Job, line: Line, process: asyncio.subprocess.Process, memory: Sequence[int]
) -> Mapping[str, Any] | None:
    assert process.stdin is not None and process.stdout is not None
    contents = job.contents()
    if job.artifact is not None:
        contents["artifact"] = os.pread(job.artifact.descriptor, job.artifact.size, 0)
    line.writer = process.stdin
    await line.tell(JOB, runtime.header(job, contents))
    await line.tell(CONTENTS, *contents.values())
    line.ready.set()
    caps = [cap + SPARE_BYTES for cap in (*[job.limits.output_bytes] * 2, ANSWER_BYTES, job.limits.disk_bytes)]
    patience = START_S
    while True:
        frame = await _read_frame(process.stdout, patience)
        patience = SILENT_S
        if frame is None:
            return None
        kind, payload = frame
        if kind == RESULT:
            result: Mapping[str, Any] = json.loads(payload)
            return result
        if kind == OUTPUT:
            which = payload[0]
            caps[which] -= os.write(memory[which], payload[1:])
            if caps[which] < 0:
                return None
        elif kind in (CHANNEL, HANG_UP) and line.peer is not None:
            await line.peer.pass_on(kind, payload)


async def _read_frame(reader: asyncio.StreamReader, patience: float) -> tuple[int, bytes] | None:
    """None where the container ended, fell silent or said what none of ours would say."""
    try:
        async with asyncio.timeout(patience):
            kind, length = _FRAME.unpack(await reader.readexactly(_FRAME.size))
            return (kind, await reader.readexactly(length)) if length <= MAX_FRAME else None
    except (asyncio.IncompleteReadError, TimeoutError):
        return None


async def _last_words(process: asyncio.subprocess.Process) -> str:
    """The last line on stderr of the runtime or of the first process in the container."""
    assert process.stderr is not None
    kept = b""
    while part := await process.stderr.read(1 << 16):
        kept = (kept + part)[-4096:]
    lines = kept.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else ""


async def _end(
    runtime: Runtime, process: asyncio.subprocess.Process, words: asyncio.Future[str], name: str, bundle: Path
) -> None:
    """Killing `runsc run` ends its sandbox, which would outlive nothing; the rest is records on disk."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    if process.returncode != 0:
        remove = await asyncio.create_subprocess_exec(
            *runtime.command, "delete", "--force", name, stdout=-3, stderr=-3, start_new_session=True
        )
        await remove.wait()
    words.cancel()
    with contextlib.suppress(OSError):
        (bundle / "config.json").unlink()
        bundle.rmdir()
