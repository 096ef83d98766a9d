"""The audit before training: what needs no model, within seconds, and once for each reward and domain of a run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strop.audit.audit import Effort, audit_domain
from strop.audit.findings import DomainAudit
from strop.config.schema import AuditConfig, DomainConfig, RunConfig
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


async def audit_before_training(domains: Sequence[Domain], config: RunConfig, folder: Path) -> list[Passed]:
    """ConfigError that names the first domain of an RL stage which fails, what was found, and the key to accept it by.

    Domains that `audit.accept` names, and those whose signal is a function given in Python, where the one who wrote it
    is there to read, are warned of instead. What `folder` holds of the same reward and domain is not tried again.
    """
    known = _read(folder / FILE)
    found: dict[str, Passed] = {}
    ends_s = time.monotonic() + config.audit.budget_s
    sections = {section.name: section for section in config.domains}
    learned = [domain for domain in domains if _is_learned(domain.name, config)]
    for number, domain in enumerate(learned):
        section = sections[domain.name]
        key = domain_key(domain, section, config.audit)
        passed = known.get(domain.name)
        if passed is None or passed.key != key:
            seconds = max(0.0, ends_s - time.monotonic()) / (len(learned) - number)
            passed = _passed(key, await audit_domain(domain, _effort(config.audit, seconds)))
        found[domain.name] = passed
        if passed.line is None:
            continue
        told = f"domain {domain.name!r} fails its audit ({passed.num_tasks} tasks seen): {passed.line}"
        given = [r.use for r in section.rewards or config.rewards if r.name == domain.signal]
        if domain.name not in config.audit.accept and all(isinstance(use, str) for use in given):
            raise ConfigError(
                f"{told}; mend its reward or tasks (strop audit shows more), or accept it by name: "
                f"audit.accept = {json.dumps([domain.name])}"
            )
        log.warning("%s", told)
    _write(folder / FILE, found)
    return list(found.values())


def _is_learned(name: str, config: RunConfig) -> bool:
    """Whether an RL stage pays by the domain's rewards."""
    return any(stage.stage == "rl" and (stage.domains is None or name in stage.domains) for stage in config.stages)


def _effort(config: AuditConfig, seconds: float) -> Effort:
    return Effort(bound=config.bound, num_tasks=config.num_tasks, seconds=seconds, max_wait_s=MAX_WAIT_S)


def _passed(key: str, audit: DomainAudit) -> Passed:
    lines = [f.text for f in audit.findings if f.verdict == "fail" and f.check not in NOT_REFUSED]
    return Passed(key=key, line=lines[0] if lines else None, num_tasks=audit.num_tasks, num_scores=audit.num_scores)


def domain_key(domain: Domain, section: DomainConfig, config: AuditConfig) -> str:
    """A hash of what the outcome follows from: the domain's configuration, its rewards' versions, and the bound."""
    described = section.model_dump(mode="json", fallback=lambda code: type(code).__qualname__)
    versions = [(reward.name, reward.weight, reward.version) for reward in domain.rewards]
    content = json.dumps([described, versions, config.bound], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


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
