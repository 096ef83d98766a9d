"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from strop.config.schema import LearnerConfig


def learning_rate(update: int, config: LearnerConfig, total_updates: int) -> float:
    """The rate of update number `update`, counted from 0: warm-up, then the schedule, which ends at `total_updates`."""
    if update < config.warmup_steps:
        return config.learning_rate * (update + 1) / config.warmup_steps
    span = max(1, total_updates - config.warmup_steps)
    done = min(1.0, (update - config.warmup_steps) / span)
    match config.schedule:
        case "constant":
            return config.learning_rate
        case "linear":
            return config.learning_rate * (1.0 - done)
        case "cosine":
            return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))


def make_optimizer(parameters: Iterable[Tensor], config: LearnerConfig) -> torch.optim.AdamW:
    """AdamW over the master weights; weight decay spares vectors (norms and biases)."""
    trained = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
