"""strop model get: fetch a model once."""

from __future__ import annotations

from typing import Annotated

import typer

model = typer.Typer(no_args_is_help=True, help="Models on this machine.")


@model.callback()
def about() -> None:
    """Models on this machine."""


@model.command()
def get(
    name: Annotated[str, typer.Argument(help="smollm2-135m-instruct, a hub id, or a folder")],
) -> None:
    """Fetch a model, check it and convert it once; print the folder that transformers loads."""
    from strop.build import MODELS
    from strop.storage.models import get_model

    print(get_model(name, MODELS))
