"""Everything a learner needs to go on exactly: weights, optimizer, counters and the random state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from strop.learner.learner import TorchLearner


def save(learner: TorchLearner, folder: Path) -> None:
    """Write into `folder`, which exists. The caller makes it atomic."""
    trained = {n: p for n, p in learner.policy.named_parameters() if p.requires_grad}
    torch.save({"weights": trained, "optimizer": learner.optimizer.state_dict()}, folder / "learner.pt")
    torch.save(torch.get_rng_state(), folder / "random.pt")
    counters = {"version": learner.version, "num_updates": learner.num_updates, "num_skipped": learner.num_skipped}
    (folder / "learner.json").write_text(json.dumps(counters))


@torch.no_grad()
def load(learner: TorchLearner, folder: Path) -> None:
    """Restore weights, optimizer, counters and the random state."""
    saved = torch.load(folder / "learner.pt", map_location="cpu", weights_only=True)
    own = dict(learner.policy.named_parameters())
    for name, tensor in saved["weights"].items():
        own[name].copy_(tensor)
    learner.optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(torch.load(folder / "random.pt", weights_only=True))
    counters = json.loads((folder / "learner.json").read_text())
    learner.num_updates, learner.num_skipped = counters["num_updates"], counters["num_skipped"]


def read_version(folder: Path) -> int:
    return int(json.loads((folder / "learner.json").read_text())["version"])
