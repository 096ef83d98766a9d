"""From a model folder to a running engine."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from strop.config.schema import EngineConfig
from strop.core.errors import ConfigError, DataError
from strop.engines.renderer import ChatRenderer
from strop.engines.torch_engine import TorchEngine


def load_engine(
    folder: Path, config: EngineConfig, renderer: ChatRenderer, *, max_context: int | None = None
) -> TorchEngine:
    """An engine over the transformers model in `folder`, on the configured device and in its dtype."""
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, config.dtype))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: not a causal language model that transformers loads: {error}") from error
    limit = model.config.max_position_embeddings
    if max_context is not None and max_context > limit:
        raise ConfigError(f"model.max_context is {max_context}, but the model in {folder} allows {limit}")
    return TorchEngine(
        model.to(choose_device(config.device)),
        end_ids=renderer.end_ids,
        decode=renderer.decode,
        config=config,
        max_context=max_context or limit,
    )


def choose_device(device: str) -> torch.device:
    """`auto` is CUDA where there is one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"engine.device = {device!r} is no device; use auto, cpu or cuda") from error
