"""Hand-built groups for tests of algorithms."""

import numpy as np

from strop.core.types import Completion, Message, Reward, Rollout, RolloutGroup, Score, Task, Turn


def completion(ids, logprobs=None, versions=None, reason="stop"):
    count = len(ids)
    return Completion(
        token_ids=ids,
        logprobs=np.full(count, -1.0) if logprobs is None else logprobs,
        versions=np.zeros(count) if versions is None else versions,
        finish_reason=reason,
    )


def rollout(index, total, *, lengths=(2,), status="ok", given=(3,), scores=None, weights=None, continues=True):
    """One turn for each of `lengths`, after as many given ids; `total` None is an infrastructure failure."""
    turns = tuple(
        Turn(
            input_ids=np.arange(10, 10 + given[min(n, len(given) - 1)]),
            continues=continues and n > 0,
            completion=completion(np.arange(50, 50 + length)),
            message=Message(role="assistant", content="x"),
        )
        for n, length in enumerate(lengths)
    )
    if scores is None:
        one = Score(value=None, outcome="infra") if total is None else Score(value=float(total))
        scores, weights = {"accuracy": one}, {"accuracy": 1.0}
    reward = Reward(scores=scores, weights=weights or dict.fromkeys(scores, 1.0))
    return Rollout(task_id="t", index=index, turns=turns, status=status, reward=reward)


def group(totals, *, ticket=0, domain="d", **options):
    task = Task(id=f"t{ticket}", domain=domain, prompt=(Message(role="user", content="q"),))
    members = tuple(rollout(i, total, **options) for i, total in enumerate(totals))
    return RolloutGroup(ticket=ticket, attempt=0, task=task, rollouts=members)
