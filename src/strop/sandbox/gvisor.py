"""The second backend: each job in a gVisor container of its own, for those who fear faults of the host's kernel.

A job then talks to a kernel in user space (`runsc`), which no program shares with another. There is no zygote: a job
takes some 80 times as long as in the jail.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from strop.core.errors import ConfigError, InfraError
from strop.core.programs import Call, CallExecution, Execution, Limits, Program, Tier, UnitExecution
from strop.sandbox.bundles import make_root
from strop.sandbox.compiling import Compiler
from strop.sandbox.containers import Line, Runtime, memory_files, run_container
from strop.sandbox.folders import Folder
from strop.sandbox.jail import SandboxSettings
from strop.sandbox.jobs import Done, Job, execution_of, infra
from strop.sandbox.languages import Languages
from strop.sandbox.packages import interpreter_prefixes, package_mounts
from strop.sandbox.running import Runner, units_of

TIER: Tier = "gvisor"
TRIES = 3
PLATFORMS = ("systrap", "ptrace")  # kvm only where it is asked for: a nested one may hang
OPTIONS = ("--network=none", "--ignore-cgroups", "--file-access-mounts=exclusive", "--overlay2=none")
TRIAL = """
import os, sys
assert sys.stdin.read() == "trial", "stdin"
open("file", "w").write("x")
assert os.getuid() == 1000, "the job is root"
assert not os.access("/", os.W_OK), "the root is writable"
os.fork() or os._exit(0)
print("confined")
"""
BLAMED = "the container ended under the program three times, and under no other"


class GvisorSandbox:
    """A `core.protocols.Sandbox`. `settings.tier` is not asked: the tier of every result is gvisor.

    `runsc` is a path, or a name to find on PATH; `platform` is gVisor's own (None: the first of PLATFORMS that works).
    """

    def __init__(
        self, settings: SandboxSettings | None = None, *, runsc: str = "runsc", platform: str | None = None
    ) -> None:
        self.settings = settings or SandboxSettings()
        self.languages = Languages(self.settings.languages)
        self.cores = self.settings.jobs or len(os.sched_getaffinity(0))
        self.tier: Tier = TIER
        self.counts_memory = False
        self._runsc = runsc
        self._platforms = (platform,) if platform else PLATFORMS
        self._compiler = Compiler()
        self._runner = Runner(languages=self.languages, compiler=self._compiler, run_job=self.run_job)
        self._runtime: Runtime | None = None
        self._folder: Folder | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> GvisorSandbox:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def start(self) -> None:
        """Find a platform by a complete trial run. ConfigError says in one line why there is none."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._starting = asyncio.Lock()
            self._cores = asyncio.Semaphore(self.cores)
            self._compiler.forget_pending()
        async with self._starting:
            if self._runtime is not None:
                return
            found = shutil.which(self._runsc)
            if found is None:
                raise ConfigError(f"tier gvisor needs {self._runsc!r}, which is not installed; see docs/sandbox.md")
            refusals = []
            for platform in self._platforms:
                self._runtime = self._make_runtime(os.path.abspath(found), platform)
                reason = await self._refusal()
                if reason is None:
                    return
                refusals.append(f"{platform}: {reason}")
                self.close()
        raise ConfigError(f"tier gvisor does not work here ({'; '.join(refusals)}); see docs/sandbox.md")

    def _make_runtime(self, runsc: str, platform: str) -> Runtime:
        self._folder = Folder.make()
        folder = Path(self._folder.path)
        mounts, packages = package_mounts(self.settings.packages, self.settings.preload)
        (folder / "root").mkdir()
        shown = make_root(folder / "root", [*interpreter_prefixes(), *self.languages.mounts(), *mounts])
        own = ("--rootless",) if os.geteuid() != 0 else ()
        return Runtime(
            runsc=runsc,
            options=(f"--platform={platform}", *OPTIONS, *own),
            folder=folder,
            shown=tuple(shown),
            packages=tuple(packages),
        )

    async def _refusal(self) -> str | None:
        """Why a plain program does not run in a container here; None where it does."""
        job = Job.script(Program(language="python", source=TRIAL, stdin=b"trial"), Limits())
        try:
            done = await self._once(job, Line(), 0.0)
        except InfraError as error:
            return str(error)
        if done.status == "ok" and done.stdout == b"confined\n":
            return None
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return done.detail or (said[-1] if said else f"the trial ended as {done.status}")

    def close(self) -> None:
        self._runtime = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    async def run(self, program: Program, limits: Limits) -> Execution:
        await self.start()
        return await self._runner.run(program, limits)

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        await self.start()
        return await self._runner.call(program, entry_point, calls, limits)

    async def test(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, *, same_process: bool = False
    ) -> UnitExecution:
        await self.start()
        self._runner.only_python(program)
        if same_process:
            tester = await self.run_job(Job.same_process(program, tests, limits, names))
            return units_of(tester, tester)
        jobs = (Job.tester(tests, limits, names, channel=-1), Job.solution(program, limits, channel=-1))
        tester, solution = await self._run(jobs)
        return units_of(tester, solution)

    async def run_job(self, job: Job) -> Done:
        """Run one job when a core is free. A container that is lost is retried, then its program or the host blamed."""
        [done] = await self._run((job,))
        return done

    async def _run(self, jobs: tuple[Job, ...]) -> list[Done]:
        """The jobs together, on one core: of a pair, one waits while the other computes."""
        arrived = time.monotonic()
        reason = ""
        async with self._cores:
            queued = time.monotonic() - arrived
            for _ in range(TRIES):
                try:
                    return await self._together(jobs, queued)
                except InfraError as error:
                    reason = str(error)
            if self._runtime is not None and await self._refusal() is None:
                return [Done(status="runtime_error", tier=TIER, queue_s=queued, detail=BLAMED) for _ in jobs]
        return [infra(reason, TIER) for _ in jobs]

    async def _together(self, jobs: tuple[Job, ...], queued: float) -> list[Done]:
        lines = [Line() for _ in jobs]
        for line, peer in zip(lines, reversed(lines), strict=True):
            line.peer = peer if len(jobs) == 2 else None
        runs = [asyncio.ensure_future(self._once(job, line, queued)) for job, line in zip(jobs, lines, strict=True)]
        try:
            return await asyncio.gather(*runs)
        finally:
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    async def _once(self, job: Job, line: Line, queued: float) -> Done:
        runtime = self._runtime
        if runtime is None:
            raise InfraError("the sandbox is closed")
        with memory_files() as memory:
            result = await run_container(runtime, job, line, memory)
            done = execution_of(job, result, memory, TIER, queued)
        if done.status == "infra_error":
            raise InfraError(done.detail)
        return done
