"""Which of the policy's own good groups are kept and trained on again.

Pure: the state is JSON and names groups by key; the groups themselves, with their recorded logprobs and versions, lie
in a store that the caller owns. A group is replayed whole: successes without the failures beside them have no baseline
and push the entropy down (ExGRPO, 2510.02245; RLEP, 2507.07451). What is replayed is off-policy by its age, so it
needs a loss with importance weights of the recorded logprobs, and the step's staleness check must leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor
from typing import Any

from strop.core.errors import ConfigError
from strop.core.types import RolloutGroup

State = Mapping[str, Any]
MAX_SHARE = 0.25  # beyond it replay drowns what the policy does now (algorithms.md 3.6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What the caller does to its store: put the observed group under `put`, if any, and delete `delete`."""

    put: str | None = None
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Groups to add to a step, by key, and what has become too old and is to be deleted."""

    replay: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Keeps up to `max_per_domain` groups, each with a reward of at least `min_reward` and one below it.

    At most `share` of a step's groups are replayed, counted from the start; a group at most `max_replays` times, and
    only while no token of it is more than `max_staleness` versions old.
    """

    share: float = 0.1
    min_reward: float = 1.0
    max_per_domain: int = 32
    max_replays: int = 2
    max_staleness: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.share <= MAX_SHARE:
            raise ConfigError(f"replay.share must be from 0 to {MAX_SHARE}, got {self.share}")
        if min(self.max_per_domain, self.max_replays, self.max_staleness) < 1:
            raise ConfigError("replay: max_per_domain, max_replays and max_staleness must be at least 1")

    def start(self) -> dict[str, Any]:
        return {"entries": [], "due": 0.0}

    def observe(self, state: State, group: RolloutGroup) -> tuple[dict[str, Any], Kept]:
        """Keep `group` where it is worth it. A task has one group, its newest; a full domain gives up its oldest."""
        totals = [rollout.total for rollout in group.trainable]
        known = [total for total in totals if total is not None]
        if not known or max(known) < self.min_reward or min(known) >= self.min_reward:
            return dict(state), Kept()
        key = f"{group.ticket}-{group.attempt}"
        entry: dict[str, Any] = {
            "key": key,
            "domain": group.task.domain,
            "task_id": group.task.id,
            "version": oldest_version(group),
            "replays": 0,
        }
        own = [e for e in state["entries"] if e["domain"] == entry["domain"]]
        gone = [e for e in own if e["task_id"] == entry["task_id"]]
        others = [e for e in own if e["task_id"] != entry["task_id"]]
        gone += others[: max(0, len(others) + 1 - self.max_per_domain)]
        kept = [e for e in state["entries"] if e not in gone]
        delete = tuple(e["key"] for e in gone if e["key"] != key)
        return {**state, "entries": [*kept, entry]}, Kept(put=key, delete=delete)

    def choose(
        self, state: State, *, version: int, num_groups: int, domains: Sequence[str] | None = None
    ) -> tuple[dict[str, Any], Chosen]:
        """What a step of `num_groups` fresh groups adds, for a learner at `version`; of `domains` only, if given.

        Domains take turns, so that none crowds out another; within a domain the least replayed, then the newest. What
        is not used of the share is not saved up.
        """
        stale = [e for e in state["entries"] if version - e["version"] > self.max_staleness]
        fresh = [e for e in state["entries"] if e not in stale]
        allowed = [e for e in fresh if domains is None or e["domain"] in domains]
        due = state["due"] + self.share * num_groups
        count = floor(due + 1e-9)
        chosen = in_turns([e for e in reversed(allowed) if e["replays"] < self.max_replays])[:count]
        keys = [e["key"] for e in chosen]
        entries = [{**e, "replays": e["replays"] + (e["key"] in keys)} for e in fresh]
        after = {**state, "entries": entries, "due": max(0.0, due - count)}
        return after, Chosen(replay=tuple(keys), delete=tuple(e["key"] for e in stale))


def in_turns(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first of each domain, the second of each, and so on; within a domain by replays, then as given."""
    ordered = sorted(entries, key=lambda e: (e["domain"], e["replays"]))
    ranked = [(n, e) for _, group in groupby(ordered, key=lambda e: e["domain"]) for n, e in enumerate(group)]
    return [e for _, e in sorted(ranked, key=lambda pair: (pair[1]["replays"], pair[0]))]


def oldest_version(group: RolloutGroup) -> int:
    """The version of the oldest sampled token of the group's trainable rollouts."""
    turns = [turn for rollout in group.trainable for turn in rollout.turns if len(turn.completion.versions)]
    return min(int(turn.completion.versions.min()) for turn in turns)
