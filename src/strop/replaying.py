"""Replay at work in an RL stage: which groups are kept, the groups themselves, and their place in checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strop.config.schema import RunConfig
from strop.core.errors import ConfigError
from strop.core.protocols import Algorithm
from strop.core.types import RolloutGroup
from strop.curriculum.replay import Replay
from strop.storage.checkpoints import Checkpoint
from strop.storage.values import pack, unpack

FILE = "replay.json"


@dataclass(kw_only=True)
class Replaying:
    """`groups` lie in memory under the keys of `state`, and in every checkpoint whole, with logprobs and versions."""

    rule: Replay
    state: Mapping[str, Any]
    groups: dict[str, RolloutGroup] = field(default_factory=dict)

    def replayed(self, version: int, num_groups: int, domains: Sequence[str] | None) -> list[RolloutGroup]:
        """What a step of `num_groups` fresh groups trains on beside them, for a learner at `version`.

        Of `domains` only, if given.
        """
        self.state, chosen = self.rule.choose(self.state, version=version, num_groups=num_groups, domains=domains)
        found = [self.groups[key] for key in chosen.replay]
        self._delete(chosen.delete)
        return found

    def observe(self, groups: Sequence[RolloutGroup]) -> None:
        """Keep those of a step's fresh groups that are worth it."""
        for group in groups:
            self.state, kept = self.rule.observe(self.state, group)
            if kept.put is not None:
                self.groups[kept.put] = group
            self._delete(kept.delete)

    def save(self, folder: Path) -> None:
        rows = {key: pack(group).decode() for key, group in self.groups.items()}
        (folder / FILE).write_text(json.dumps({"state": self.state, "groups": rows}))

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            del self.groups[key]


def open_replaying(config: RunConfig, algorithm: Algorithm, saved: Checkpoint | None) -> Replaying | None:
    """The replay of a stage, or as its checkpoint left it; None where the recipe asks for none."""
    wanted = config.curriculum.replay
    if wanted is None:
        return None
    if not algorithm.weighs_by_age:
        raise ConfigError(
            "curriculum.replay: the loss does not weigh tokens by how likely they were when they were sampled; set "
            'algorithm.importance = "token_tis", or take a loss that clips that ratio'
        )
    rule = Replay(**wanted.model_dump())
    if saved is None or not (saved.path / FILE).exists():
        return Replaying(rule=rule, state=rule.start())
    content = json.loads((saved.path / FILE).read_text())
    groups = {key: unpack(text.encode()) for key, text in content["groups"].items()}
    return Replaying(rule=rule, state=content["state"], groups=groups)
