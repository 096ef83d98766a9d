"""Sandboxes beside each other on one machine, of the same tier or not, never touch each other's jobs."""

from __future__ import annotations

import asyncio

import pytest

from strop.core.errors import ConfigError
from strop.core.programs import Limits, Program
from strop.sandbox.jail import LocalSandbox, SandboxSettings

LIMITS = Limits(cpu_s=2.0, memory_bytes=256 << 20, processes=8)
SLEEPS = "import time\ntime.sleep(0.2)\nprint('whole')"
ENDS = "import os\nif os.fork() == 0:\n    import time\n    time.sleep(60)"


@pytest.mark.parametrize("tier", ["full", "rootless", "landlock"])
@pytest.mark.parametrize("other", ["full", "rootless", "landlock"])
async def test_jobs_of_one_sandbox_survive_the_ends_of_anothers(tier: str, other: str) -> None:
    first, second = (LocalSandbox(SandboxSettings(tier=name)) for name in (tier, other))
    try:
        await first.start()
        await second.start()
    except ConfigError as error:
        pytest.skip(str(error))
    try:
        sleeping = [first.run(Program(language="python", source=SLEEPS), LIMITS) for _ in range(2 * first.cores)]
        ending = [second.run(Program(language="python", source=ENDS), LIMITS) for _ in range(20)]
        done = await asyncio.gather(*sleeping, *ending)
        assert [execution.status for execution in done] == ["ok"] * len(done), [e.detail for e in done]
        zygotes = first._zygotes
        assert zygotes is not None and zygotes.failure is None
        assert all(execution.stdout == b"whole\n" for execution in done[: len(sleeping)])
    finally:
        first.close()
        second.close()
