"""strop train: run a recipe."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from strop.config.load import load_recipe, parse_config
from strop.core.errors import ConfigError


def train(
    recipe: Annotated[Optional[Path], typer.Argument(help="a recipe: a folder with run.toml, or a TOML file")] = None,  # noqa: UP045
    overrides: Annotated[Optional[list[str]], typer.Argument(help="key.path=value, applied to the recipe")] = None,  # noqa: UP045
    resume: Annotated[Optional[Path], typer.Option(help="go on with this run folder; needs no RECIPE")] = None,  # noqa: UP045
    accept_reward: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="with --resume: go on though this reward has changed; may be given again"),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="print the resolved configuration and stop")] = False,
    quiet: Annotated[bool, typer.Option(help="no progress bar")] = False,
) -> None:
    """Run every stage of RECIPE, evaluate the model before and after each, and print what got better."""
    if recipe is not None:
        config = load_recipe(recipe, overrides or ())
    elif resume is not None:
        from strop.storage.records import stored_recipe

        config = parse_config(stored_recipe(resume), str(resume))
    else:
        raise ConfigError("give a recipe, or --resume and the folder of a run")
    if dry_run:
        print(json.dumps(config.model_dump(mode="json"), indent=2))
        return
    from strop.stages import start_run  # torch loads here, not when the command line only checks a recipe

    asyncio.run(start_run(config, resume=resume, accept_rewards=accept_reward or (), quiet=quiet))
