"""Solved tasks rest, and come back after a while or when their domain is forgotten.

Pure: what is solved is JSON, and the state of one ticket says the same of another ticket as every state from which that
one can be assigned: a turn (to rest, or back to use) that ticket u brings about counts for the tickets after u + lag.

    solved   {domain: {task id: {clean, turns}}}, of the tasks that were passed clean or that rest
    clean    groups in a row in which every attempt passed
    turns    [[ticket, until]]: rests from that ticket on for tickets below `until`; 0 is back in use
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from strop.core.errors import ConfigError

Solved = Mapping[str, Mapping[str, Mapping[str, Any]]]
PASS = 1.0  # a score that counts as solved


@dataclass(frozen=True, kw_only=True)
class Retirement:
    """A task retires after `clean_groups` groups in a row without a failure, and rests for `rest_tickets` tickets.

    Then it is due again: one more clean group sends it back to rest, a failure brings it back into use. 5 to 10% of
    solved tasks are to stay in use as probes: `kept_share` of the ids, chosen by their hash, never retire
    (algorithms.md 3.6).
    """

    rest_tickets: int
    clean_groups: int = 3
    kept_share: float = 0.05

    def __post_init__(self) -> None:
        if min(self.clean_groups, self.rest_tickets) < 1:
            raise ConfigError("retirement: clean_groups and the rest must be at least 1")
        if not 0 <= self.kept_share <= 1:
            raise ConfigError(f"retirement.kept_share must be from 0 to 1, got {self.kept_share}")

    def record(
        self, solved: Solved, domain: str, task_id: str, ticket: int, scores: tuple[float, ...], lag: int
    ) -> Solved:
        """`solved` after the scores [G] of the group of `ticket`; one without a score changes nothing."""
        tasks = solved.get(domain, {})
        before = tasks.get(task_id)
        clean = all(score >= PASS for score in scores)
        if not scores or (before is None and not clean):
            return solved
        count = (before["clean"] if before else 0) + 1 if clean else 0
        turns = list(before["turns"]) if before else []
        if count >= self.clean_groups and not self._always_kept(task_id):
            turns.append([ticket, ticket + self.rest_tickets])
        elif turns and turns[-1][1]:
            turns.append([ticket, 0])
        return _with(solved, domain, task_id, {"clean": count, "turns": _needed(turns, ticket - lag)})

    def rests(self, solved: Solved, domain: str, task_id: str, ticket: int, lag: int) -> bool:
        """Whether the task is not to be given to `ticket`, which is at most `lag` after those observed."""
        record = solved.get(domain, {}).get(task_id)
        known = [until for at, until in record["turns"] if at < ticket - lag] if record else []
        return bool(known) and ticket < known[-1]

    def bring_back(self, solved: Solved, domain: str, ticket: int, lag: int) -> Solved:
        """All tasks of `domain` are in use again, their clean groups count anew; by what was known before `ticket`."""
        for task_id, record in solved.get(domain, {}).items():
            turns = _needed([*record["turns"], [ticket, 0]], ticket - lag)
            solved = _with(solved, domain, task_id, {"clean": 0, "turns": turns})
        return solved

    def _always_kept(self, task_id: str) -> bool:
        return int.from_bytes(blake2b(task_id.encode(), digest_size=8).digest(), "big") / 2**64 < self.kept_share


def _needed(turns: list[list[int]], known: int) -> list[list[int]]:
    """`turns` without those that no ticket still to be assigned looks at: before the last one below `known`."""
    settled = sum(at < known for at, _ in turns)
    kept = turns[max(0, settled - 1) :]
    return [] if all(until == 0 for _, until in kept) else kept


def _with(solved: Solved, domain: str, task_id: str, record: Mapping[str, Any]) -> Solved:
    tasks = {**solved.get(domain, {}), task_id: record}
    if not record["clean"] and not record["turns"]:
        del tasks[task_id]
    return {**solved, domain: tasks}
