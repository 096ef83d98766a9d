"""The audit before training: what needs no model, within seconds, and once for each reward and domain of a run."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from strop.audit.audit import Effort, audit_domain
from strop.audit.findings import DomainAudit
from strop.config.schema import AuditConfig
from strop.core.errors import ConfigError
from strop.core.protocols import Domain

log = logging.getLogger(__name__)
MAX_WAIT_S = 10.0  # for one score; a reward may take longer in training
FILE = "audit.json"
NOT_REFUSED = ("applies", "time")  # the evaluation of the base model says the first


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """What a run's folder keeps of a domain's audit. `line` is None where nothing speaks against training."""

    key: str
    line: str | None
    num_tasks: int
    num_scores: int


async def audit_before_training(
    domains: Sequence[Domain],
    config: AuditConfig,
    described: Mapping[str, Any],
    folder: Path,
    *,
    trial: Sequence[str] = (),
) -> list[Passed]:
    """ConfigError that names the first domain which fails, what was found and the key to accept it by.

    Domains of `config.accept` and of `trial` (whose rewards are functions given in Python) are warned of instead.
    `described` is each domain's configuration as JSON; what was found of the same before, in `folder`, is not tried
    again.
    """
    known = _read(folder / FILE)
    found: dict[str, Passed] = {}
    ends_s = time.monotonic() + config.budget_s
    for number, domain in enumerate(domains):
        key = domain_key(domain, described[domain.name], config)
        passed = known.get(domain.name)
        if passed is None or passed.key != key:
            seconds = max(0.0, ends_s - time.monotonic()) / (len(domains) - number)
            passed = _passed(key, await audit_domain(domain, _effort(config, seconds)))
        found[domain.name] = passed
        if passed.line is None:
            continue
        told = f"domain {domain.name!r} fails its audit ({passed.num_tasks} tasks seen): {passed.line}"
        if domain.name not in config.accept and domain.name not in trial:
            raise ConfigError(
                f"{told}; mend its reward or tasks, see more with strop audit, or accept it by name: "
                f"audit.accept = {json.dumps([domain.name])}"
            )
        log.warning("%s", told)
    _write(folder / FILE, found)
    return list(found.values())


def _effort(config: AuditConfig, seconds: float) -> Effort:
    return Effort(bound=config.bound, num_tasks=config.num_tasks, seconds=seconds, max_wait_s=MAX_WAIT_S)


def _passed(key: str, audit: DomainAudit) -> Passed:
    lines = [f.text for f in audit.findings if f.verdict == "fail" and f.check not in NOT_REFUSED]
    return Passed(key=key, line=lines[0] if lines else None, num_tasks=audit.num_tasks, num_scores=audit.num_scores)


def domain_key(domain: Domain, described: Any, config: AuditConfig) -> str:
    """A hash of the domain's configuration, its rewards' code and the bound: what the audit's outcome follows from."""
    code = [(reward.name, reward.version, source_of(reward.fn)) for reward in domain.rewards]
    content = json.dumps([described, code, config.bound, config.num_tasks], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def source_of(code: Callable[..., Any]) -> str:
    """The source of the module that a reward comes from, or its name where there is no source."""
    while isinstance(code, partial):
        code = code.func
    target = code if inspect.isroutine(code) else type(code)
    try:
        module = inspect.getmodule(target)
        return inspect.getsource(target if module is None else module)
    except (OSError, TypeError):  # made in a notebook, or in C
        return f"{target.__module__}:{target.__qualname__}"


def _read(file: Path) -> dict[str, Passed]:
    if not file.is_file():
        return {}
    try:
        return {name: Passed(**content) for name, content in json.loads(file.read_text()).items()}
    except (ValueError, TypeError, AttributeError):  # of another version, or cut off: find out again
        return {}


def _write(file: Path, found: Mapping[str, Passed]) -> None:
    content = {
        name: {"key": p.key, "line": p.line, "num_tasks": p.num_tasks, "num_scores": p.num_scores}
        for name, p in found.items()
    }
    partial_file = file.with_name(f".{file.name}.partial")
    partial_file.write_text(json.dumps(content, indent=1))
    os.replace(partial_file, file)
