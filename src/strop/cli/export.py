"""strop export: copy a run's model out, adapters merged if asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from strop.core.errors import ConfigError, DataError


def export(
    source: Annotated[Path, typer.Argument(help="a run folder, or a model or adapter folder inside one")],
    target: Annotated[Path, typer.Argument(help="the folder to write")],
    merge: Annotated[bool, typer.Option(help="merge a LoRA adapter into its base model")] = False,
) -> None:
    """Write a folder that AutoModelForCausalLM.from_pretrained loads (with --merge, also from a LoRA run)."""
    print(export_model(source, target, merge=merge))


def export_model(source: Path, target: Path, *, merge: bool = False) -> Path:
    """The last stage's model of a run, or the model or adapter in a folder, copied to `target`."""
    models = sorted(source.glob("[0-9]*-*/model"), key=lambda model: int(model.parent.name.partition("-")[0]))
    folder = models[-1] if models else source
    if target.exists():
        raise ConfigError(f"{target} exists; name a folder that does not")
    adapter = folder / "adapter_config.json"
    if merge and adapter.is_file():
        from strop.learner.policy import merge_adapter  # torch loads here
        from strop.storage.models import no_loading_bars

        with no_loading_bars():
            return merge_adapter(folder, target)
    if not adapter.is_file() and not (folder / "config.json").is_file():
        raise DataError(f"{source}: holds no model; give a run folder, or a model folder inside one")
    shutil.copytree(folder, target)
    return target
