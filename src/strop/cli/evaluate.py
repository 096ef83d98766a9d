"""strop eval: evaluate a model on the held-out tasks of a recipe."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Optional

import typer

from strop.config.load import load_recipe


def evaluate(
    recipe: Annotated[Path, typer.Argument(help="the recipe whose domains are evaluated")],
    overrides: Annotated[Optional[list[str]], typer.Argument(help="key.path=value, applied to the recipe")] = None,  # noqa: UP045
    model: Annotated[Optional[str], typer.Option(help="folder or hub id; the recipe's model by default")] = None,  # noqa: UP045
    output: Annotated[Optional[Path], typer.Option(help="write the report as JSON here")] = None,  # noqa: UP045
) -> None:
    """Accuracy per domain with confidence intervals, pass@k, truncation and cost."""
    changed = [*(overrides or ()), *([f"model.path={model}"] if model is not None else ())]
    config = load_recipe(recipe, changed)
    from strop.stages import evaluate_model

    asyncio.run(evaluate_model(config, output))
