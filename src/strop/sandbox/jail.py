"""The local sandbox: programs run in forks of confined zygotes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from strop.core.errors import ConfigError, InfraError
from strop.core.programs import Call, CallExecution, Execution, Limits, Program, Tier, UnitExecution
from strop.sandbox.compiling import Compiler
from strop.sandbox.jobs import Done, Job, execution_of, infra
from strop.sandbox.languages import Language, Languages
from strop.sandbox.packages import interpreter_prefixes, package_mounts
from strop.sandbox.running import Runner, units_of
from strop.sandbox.zygotes import Slot, SlotLost, Zygotes

AUTO: tuple[Tier, ...] = ("full", "rootless", "landlock")
TRIES = 2
DEFAULT_DISK = Limits().disk_bytes
TRIAL = """
import os, sys
assert sys.stdin.read() == "trial", "stdin"
open("file", "w").write("x")
try:
    os.setuid(0)
except OSError:
    pass
assert os.path.exists("/etc/shadow") is False or not os.access("/etc/shadow", os.R_OK), "host files are readable"
assert not os.access("/", os.W_OK), "the root is writable"
try:
    os.fork() or os._exit(0)
except OSError as error:
    sys.exit(f"fork: {error}")
print("confined")
"""


@dataclass(frozen=True, kw_only=True)
class SandboxSettings:
    """How a local sandbox is made.

    `tier` auto takes the strongest that works here. `jobs` is how many run at once (None: one per core). `packages`
    are installed distributions that programs may import, `preload` modules of them imported once for all jobs.
    `max_jobs_per_zygote` bounds the life of a zygote. Without any tier that works nothing runs, unless `allow_unsafe`.
    """

    tier: str = "auto"
    jobs: int | None = None
    packages: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    languages: tuple[Language, ...] = ()
    allow_unsafe: bool = False
    max_jobs_per_zygote: int = 20_000


class LocalSandbox:
    """Starts its processes at the first job (or at `start`), and ends them at `close` or with the process."""

    def __init__(self, settings: SandboxSettings | None = None):
        self.settings = settings or SandboxSettings()
        if self.settings.tier not in ("auto", *get_args(Tier)):
            raise ConfigError(f"no sandbox tier is called {self.settings.tier!r}; there are auto, {', '.join(AUTO)}")
        if self.settings.tier == "gvisor":
            raise ConfigError("tier gvisor is another backend: use strop.sandbox.gvisor.GvisorSandbox")
        self.languages = Languages(self.settings.languages)
        self.cores = self.settings.jobs or len(os.sched_getaffinity(0))
        self.refusals: dict[str, str] = {}
        self._zygotes: Zygotes | None = None
        self._compiler = Compiler()
        self._runner = Runner(languages=self.languages, compiler=self._compiler, run_job=self.run_job)
        self._counted = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def tier(self) -> Tier:
        """The tier in use; only known once started."""
        if self._zygotes is None:
            raise RuntimeError("the sandbox is not started")
        return self._zygotes.tier

    @property
    def counts_memory(self) -> bool:
        """Whether a memory cgroup holds the limit exactly; elsewhere it is sampled."""
        return self._counted

    async def __aenter__(self) -> LocalSandbox:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def start(self) -> None:
        """Find a tier by a complete trial run. ConfigError says for each why it does not work here."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._starting = asyncio.Lock()
            self._cores = asyncio.Semaphore(self.cores)
            self._compiler.forget_pending()
        async with self._starting:
            if self._zygotes is not None and self._zygotes.failure is None:
                self._zygotes.attach()
                return
            self.close()
            for tier in self._tiers():
                if await self._try(tier):
                    return
        reasons = "; ".join(f"{tier}: {reason}" for tier, reason in self.refusals.items())
        raise ConfigError(
            f"programs cannot be confined here ({reasons}); see docs/sandbox.md, or run them unconfined with"
            " allow_unsafe = true"
        )

    def _tiers(self) -> tuple[Tier, ...]:
        wanted = self.settings.tier
        if wanted == "unsafe" and not self.settings.allow_unsafe:
            raise ConfigError("tier unsafe runs programs unconfined; say allow_unsafe = true as well")
        tiers = AUTO if wanted == "auto" else (cast(Tier, wanted),)
        return (*tiers, "unsafe") if self.settings.allow_unsafe and wanted == "auto" else tiers

    async def _try(self, tier: Tier) -> bool:
        shown, packages = package_mounts(self.settings.packages, self.settings.preload)
        settings = {
            "prefixes": [*interpreter_prefixes(), *self.languages.mounts(), *shown],
            "packages": packages,
            "disk_bytes": DEFAULT_DISK,
            "max_jobs": self.settings.max_jobs_per_zygote,
        }
        self._zygotes = zygotes = Zygotes.start(tier, 2 * self.cores, settings)
        zygotes.attach()
        trial = await self.run_job(Job.script(Program(language="python", source=TRIAL, stdin=b"trial"), Limits()))
        confined = trial.status == "ok" and trial.stdout == b"confined\n"
        if confined or (tier == "unsafe" and trial.status != "infra_error"):
            self._counted = trial.counted
            return True
        said = trial.stderr.decode("utf-8", "replace").strip().splitlines()
        self.refusals[tier] = trial.detail or (said[-1] if said else f"the trial ended as {trial.status}")
        self.close()
        return False

    def close(self) -> None:
        if self._zygotes is not None:
            self._zygotes.close()
            self._zygotes = None

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
            tester = solution = await self.run_job(Job.same_process(program, tests, limits, names))
        else:
            tester, solution = await self._run_pair(program, tests, names, limits)
        return units_of(tester, solution)

    async def _run_pair(self, program: Program, tests: str, names: Sequence[str], limits: Limits) -> tuple[Done, Done]:
        """A tester and a solution with a channel between them; a fault of the sandbox in one makes both run again."""
        arrived = time.monotonic()
        async with self._cores:  # one core for both: while one computes, the other waits for it
            queued = time.monotonic() - arrived
            for _ in range(TRIES):
                pair = await self._pair(program, tests, names, limits, queued)
                if all(done.status != "infra_error" for done in pair):
                    break
        return pair

    async def _pair(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, queued: float
    ) -> tuple[Done, Done]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            jobs = (Job.tester(tests, limits, names, ours.fileno()), Job.solution(program, limits, theirs.fileno()))
            runs = [asyncio.ensure_future(self._attempt(job, queued)) for job in jobs]
            for run in runs:  # our copies keep the channel open, so that neither would see the other end
                run.add_done_callback(lambda _: _shut(ours))
            try:
                tester, solution = await asyncio.gather(*runs)
            finally:
                for run in runs:
                    run.cancel()
                await asyncio.gather(*runs, return_exceptions=True)
        return tester, solution

    async def run_job(self, job: Job) -> Done:
        """Run one job when a core is free. Infrastructure faults are retried, then reported as infra_error."""
        arrived = time.monotonic()
        async with self._cores:
            queued = time.monotonic() - arrived
            for _ in range(TRIES):
                done = await self._attempt(job, queued)
                if done.status != "infra_error":
                    break
        return done

    async def _attempt(self, job: Job, queued: float) -> Done:
        zygotes = self._zygotes
        if zygotes is None:
            return infra("the sandbox is closed", "full")
        try:
            async with self._slot(zygotes) as slot:
                result = await self._once(zygotes, slot, job)
                return execution_of(job, result, slot.memory, zygotes.tier, queued)
        except InfraError as error:
            return infra(str(error), zygotes.tier)

    @contextlib.asynccontextmanager
    async def _slot(self, zygotes: Zygotes) -> AsyncIterator[Slot]:
        slot = await zygotes.take()
        try:
            yield slot
        except (asyncio.CancelledError, SlotLost):
            raise  # it frees itself once its job is dead, or is gone
        except BaseException:
            zygotes.give(slot)
            raise
        else:
            zygotes.give(slot)

    async def _once(self, zygotes: Zygotes, slot: Slot, job: Job) -> Mapping[str, Any]:
        with job.descriptors() as (names, descriptors):
            return await zygotes.ask(slot, {**job.header(), "fds": names}, descriptors)


def _shut(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was first
        channel.shutdown(socket.SHUT_RDWR)
