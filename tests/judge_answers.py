"""Rollouts and tasks for tests of judging."""

import numpy as np

from strop.core.types import Completion, Message, Rollout, Task, Turn


def said(*texts, index=0):
    """A rollout of one turn for each text; to all but the last something was replied."""
    turns = tuple(
        Turn(
            input_ids=[1],
            continues=number > 0,
            completion=Completion(token_ids=[5], logprobs=np.zeros(1), versions=[0], finish_reason="stop"),
            message=Message(role="assistant", content=text),
            replies=(Message(role="user", content=f"reply {number}"),) if number < len(texts) - 1 else (),
        )
        for number, text in enumerate(texts)
    )
    return Rollout(task_id="t", index=index, turns=turns, status="ok")


def asked(prompt="What is the capital of France?", reference="Paris", **data):
    return Task(id="t7", domain="d", prompt=(Message(role="user", content=prompt),), reference=reference, data=data)
