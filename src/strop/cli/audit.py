"""strop audit: find out whether rewards tell right from wrong, before anything is trained on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console

from strop.audit.findings import DomainAudit
from strop.audit.report import audits_json, failed, print_audits
from strop.config.load import load_recipe
from strop.config.schema import RunConfig
from strop.core.errors import ConfigError

if TYPE_CHECKING:
    from strop.core.protocols import Domain

MAX_WAIT_S = 60.0  # for one score


def audit(
    recipe: Annotated[Path, typer.Argument(help="the recipe whose domains are audited")],
    overrides: Annotated[Optional[list[str]], typer.Argument(help="key.path=value, applied to the recipe")] = None,  # noqa: UP045
    domain: Annotated[Optional[list[str]], typer.Option(help="only this domain; may be given again")] = None,  # noqa: UP045
    samples: Annotated[int, typer.Option(min=0, help="of the model, where a domain has no gold answers; 0: none")] = 8,
    json: Annotated[bool, typer.Option("--json", help="print all that was found as JSON")] = False,
) -> None:
    """Give each domain of RECIPE right answers and junk, and say what its reward paid. Code 2: one fails."""
    config = load_recipe(recipe, overrides or ())
    audits = asyncio.run(_audit(config, domain or (), samples))
    if json:
        print(audits_json(audits, config.audit.accept))
    else:
        print_audits(Console(), audits, config.audit.accept)
    if failed(audits, config.audit.accept):
        raise typer.Exit(2)


async def _audit(config: RunConfig, only: Sequence[str], samples: int) -> list[DomainAudit]:
    from strop import build  # torch loads here

    names = [domain.name for domain in config.domains]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise ConfigError(f"--domain {unknown[0]!r}: there is no such domain; there are {', '.join(names)}")
    if only:
        config = config.model_copy(update={"domains": tuple(d for d in config.domains if d.name in only)})
    async with build.open_sandbox_for(config) as (usable, sandbox_of):
        domains = [
            domain
            for transfer in (False, True)
            for domain in build.build_domains(usable, transfer=transfer, sandbox_of=sandbox_of)
        ]
        found = [await _audit_one(usable, domain) for domain in domains]
        unsure = [domain for domain, audit in zip(domains, found, strict=True) if not audit.num_golds]
        if unsure and samples:
            found = await _sampled(usable, domains, found, samples)
    return found


async def _audit_one(config: RunConfig, domain: Domain) -> DomainAudit:
    from strop.audit.audit import Effort, audit_domain

    settings = config.audit
    effort = Effort(
        bound=settings.bound, num_tasks=settings.num_tasks, seconds=settings.domain_s, max_wait_s=MAX_WAIT_S
    )
    return await audit_domain(domain, effort)


async def _sampled(
    config: RunConfig, domains: Sequence[Domain], audits: Sequence[DomainAudit], samples: int
) -> list[DomainAudit]:
    """The audits, those without gold answers with the spread of the model's samples."""
    from strop import build
    from strop.audit.spread import with_spread

    folder = build.model_folder(config)
    renderer = build.build_renderer(config, folder)
    async with build.build_engine(config, folder, renderer) as engine:
        attempt = build.build_attempt(config, engine, renderer, config.evaluation.seed)
        return [
            audit if audit.num_golds else await with_spread(audit, domain, attempt, samples)
            for domain, audit in zip(domains, audits, strict=True)
        ]
