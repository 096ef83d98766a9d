"""Compilation: a job of its own, done once per source and kept as a sealed memory file."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from strop.core.programs import Execution, Program
from strop.sandbox.jobs import Job
from strop.sandbox.languages import Language

KEPT_BYTES = 256 << 20
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Artifact:
    """A compiled program. Its descriptor closes with the last holder."""

    def __init__(self, content: bytes):
        self.descriptor = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.size = len(content)
        with open(self.descriptor, "wb", closefd=False) as file:
            file.write(content)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)

    def __del__(self) -> None:
        os.close(self.descriptor)


class Compiler:
    def __init__(self) -> None:
        self.kept: OrderedDict[str, Artifact] = OrderedDict()
        self.pending: dict[str, asyncio.Future[Artifact | Execution]] = {}

    def forget_pending(self) -> None:
        """Compilations of an event loop that is over."""
        self.pending.clear()

    async def artifact(
        self, language: Language, program: Program, run_job: Callable[[Job], Awaitable[Any]]
    ) -> Artifact | Execution:
        """The compiled program, or the Execution (compile_error or infra_error) that says why there is none."""
        key = hashlib.sha256(repr((language, program.source, sorted(program.files.items()))).encode()).hexdigest()
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key]
        pending = self.pending.get(key)
        if pending is not None:
            return await asyncio.shield(pending)
        task = asyncio.ensure_future(self._compile(key, language, program, run_job))
        self.pending[key] = task
        task.add_done_callback(lambda _: self.pending.pop(key, None))
        return await asyncio.shield(task)

    async def _compile(
        self, key: str, language: Language, program: Program, run_job: Callable[[Job], Awaitable[Any]]
    ) -> Artifact | Execution:
        assert language.artifact is not None
        source = Program(
            language=program.language, source=program.source, files=program.files, fetch=(language.artifact,)
        )
        done = await run_job(Job.native(source, language.compile_limits, language, language.compile, None))
        content = done.files.get(language.artifact)
        if done.status != "ok" or content is None:
            return done.plain() if done.status == "infra_error" else done.not_compiled()
        artifact = Artifact(content)
        self.kept[key] = artifact
        while sum(kept.size for kept in self.kept.values()) > KEPT_BYTES and len(self.kept) > 1:
            self.kept.popitem(last=False)
        return artifact
