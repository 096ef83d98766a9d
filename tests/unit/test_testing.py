"""The public fakes keep the promises of their protocols."""

import numpy as np

from strop.core.types import Message, Task
from strop.testing import (
    ByteRenderer,
    CountingLearner,
    EchoEnvironment,
    ScriptedSampler,
    check_environment,
    check_learner,
    check_renderer,
    check_sampler,
    check_weight_receiver,
)

PROMPT = np.array([1, 70, 0, 2], np.int32)
MESSAGES = (Message(role="user", content="hi"),)


async def test_fakes(tmp_path):
    await check_sampler(ScriptedSampler(lambda ids, params: f"n{params.seed}"), PROMPT)
    await check_weight_receiver(ScriptedSampler(lambda ids, params: "yes"), lambda: iter(()), PROMPT, version=2)
    await check_environment(lambda: EchoEnvironment(2), Task(id="t", domain="d", prompt=MESSAGES), ["a", "b"])
    renderer = ByteRenderer()
    await check_renderer(renderer, ScriptedSampler(lambda ids, params: "yes"), MESSAGES)
    taught = [renderer.teach([*MESSAGES, Message(role="assistant", content="yes")])]
    await check_learner(CountingLearner, taught, tmp_path)
