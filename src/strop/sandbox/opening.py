"""From a recipe's `[sandbox]` section to a running sandbox."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable

from strop.config.schema import SandboxConfig
from strop.core.errors import ConfigError
from strop.core.protocols import Sandbox
from strop.sandbox.jail import LocalSandbox, SandboxSettings
from strop.sandbox.languages import Language

TOKEN = "STROP_SANDBOX_TOKEN"
SandboxOf = Callable[[str], Sandbox]  # the sandbox as one domain sees it, by the domain's name


@contextlib.asynccontextmanager
async def open_sandbox(config: SandboxConfig) -> AsyncIterator[SandboxOf]:
    """A sandbox that has passed its trial run, closed at the end. ConfigError says why there can be none.

    Over servers, domains that wait for a free place get it in turn, however many jobs each has.
    """
    if config.servers:
        try:
            from strop.sandbox.client import RemoteSandbox
        except ModuleNotFoundError as error:
            raise ConfigError(f"sandbox.servers needs {error.name}: pip install 'strop[server]'") from error
        async with RemoteSandbox(config.servers, token=config.token or os.environ.get(TOKEN)) as remote:
            yield remote.for_domain
    elif config.tier == "gvisor":
        from strop.sandbox.gvisor import GvisorSandbox

        async with GvisorSandbox(settings_of(config)) as contained:
            yield lambda domain: contained
    else:
        async with LocalSandbox(settings_of(config)) as local:
            yield lambda domain: local


def settings_of(config: SandboxConfig) -> SandboxSettings:
    return SandboxSettings(
        tier=config.tier,
        jobs=config.jobs,
        packages=config.packages,
        preload=config.preload,
        languages=tuple(Language(**language.model_dump()) for language in config.languages),
        allow_unsafe=config.allow_unsafe,
    )
