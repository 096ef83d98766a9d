"""A run goes through dying verifiers, a judge that talks nonsense and a server that is away, and learns none of it."""

import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import httpx2
import pytest
from test_tiny_run import recipe, run
from verifier_at_work import deadly

from strop.algorithms.advantage import Grpo
from strop.core.errors import InfraError
from strop.core.types import Score
from strop.scoring.workers import Canary, WorkerPool
from strop.storage.records import read_rollouts

HERE = Path(__file__).parent
STEPS, GROUPS, SIZE = 4, 2, 4


@pytest.fixture
def judge_url():
    command = [sys.executable, str(HERE.parent / "judge_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            always = {"always": {"garbage": 0.05}}
            httpx2.post(f"{url}/behave", json=always, verify=False, timeout=60).raise_for_status()
            yield url
        finally:
            process.kill()


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    made = WorkerPool(target="verifier_at_work:verify", canary=Canary(([2],), 1.0), workers=2, deadline_s=20.0)
    yield made
    made.close()


class KillEverySecond(threading.Thread):
    """Kills one worker of the pool a second, busy or not."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.pool, self.over, self.kills = pool, threading.Event(), 0

    def run(self):
        while not self.over.wait(1.0):
            with self.pool._state.lock:
                alive = [w.process for w in self.pool._state.all if w.process.poll() is None]
            if alive:
                alive[0].kill()
                self.kills += 1


class Watched:
    """An advantage that notes which rollouts each batch is made of."""

    def __init__(self):
        self.trained = []

    def __call__(self, groups, outputs, scale):
        self.trained.append([(group.ticket, rollout.index) for group in groups for rollout in group.trainable])
        return Grpo()(groups, outputs, scale)


def first_ids(rollout):
    return [int(token) for token in rollout.turns[-1].completion.token_ids]


def test_a_run_with_killed_workers_and_garbage_trains_every_group_and_nothing_that_failed(
    tiny_model, tmp_path, pool, judge_url
):
    async def verified(rollout, task):
        found = await pool.call(first_ids(rollout))
        if found.outcome == "infra":
            raise InfraError(found.detail)
        return Score(
            value=found.value if found.outcome == "scored" else 0.0, outcome=found.outcome, detail=found.detail
        )

    def away(rollout, task):
        if rollout.index == 3 and rollout.turns[-1].completion.token_ids[0] % 2:
            raise ConnectionError("the server is away")
        return 0.0

    watched = Watched()
    judge = {"endpoint": f"{judge_url}/v1", "model": "m", "response_format": "json_schema", "rubric": ["Is it good?"]}
    content = recipe(tiny_model, tmp_path, evaluation={"num_tasks": 1}, audit={"accept": ["sum"], "budget_s": 0.01})
    content["domains"] = content["domains"][:1]
    content["rewards"] = [
        {"name": "accuracy", "use": verified, "timeout_s": 120},
        {"name": "quality", "use": "judge", "weight": 0.5, "params": {**judge, "backoff_s": 0.02}},
        {"name": "away", "use": away, "weight": 0.0},
    ]
    rl = {"stage": "rl", "steps": STEPS, "groups_per_step": GROUPS, "group_size": SIZE}
    content["stages"] = [{**rl, "algorithm": {"keep": "all", "advantage": watched}}]
    killer = KillEverySecond(pool)
    killer.start()
    try:
        folder = run(content)
    finally:
        killer.over.set()
    assert killer.kills >= 2
    rows = {(row["ticket"], row["index"]): row for row in read_rollouts(folder / "1-rl" / "rollouts")}
    assert len(rows) == STEPS * GROUPS * SIZE
    trained = {key for batch in watched.trained for key in batch}
    assert [len({ticket for ticket, _ in batch}) for batch in watched.trained] == [GROUPS] * STEPS
    failed = {key for key, row in rows.items() if "infra" in {score["outcome"] for score in row["scores"].values()}}
    assert failed and all(rows[key]["total"] is None for key in failed)
    assert trained == set(rows) - failed
    counted = defaultdict(int)
    for key in trained:
        accuracy = rows[key]["scores"]["accuracy"]
        ids = rows[key]["token_ids"][0]
        said = [token for token, drawn in zip(ids, rows[key]["loss_mask"][0], strict=True) if drawn]
        counted[deadly(said), accuracy["outcome"]] += 1
        assert accuracy["value"] == (0.0 if accuracy["outcome"] == "crash" else float(said[0] % 2 == 0))
    assert counted[True, "crash"] and not counted[True, "scored"]  # who kills the verifier earns nothing by it
    assert counted[False, "scored"] > counted[False, "crash"]
