"""strop export: copy a run's model out, adapters merged if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    source: Annotated[Path, typer.Argument(help="a run folder, or a model or adapter folder inside one")],
    target: Annotated[Path, typer.Argument(help="the folder to write")],
    merge: Annotated[bool, typer.Option(help="merge a LoRA adapter into its base model")] = False,
) -> None:
    """Write a folder that AutoModelForCausalLM.from_pretrained loads (with --merge, also from a LoRA run)."""
    from strop.stages import export_model

    print(export_model(source, target, merge=merge))
