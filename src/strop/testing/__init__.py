"""Public fakes, one for each protocol, and a conformance check for each: for tests of Strop and of what users add."""

from strop.testing.checks import check_environment, check_learner, check_renderer, check_sampler, check_weight_receiver
from strop.testing.fakes import ByteRenderer, CountingLearner, EchoEnvironment, ListSource, ScriptedSampler

__all__ = [
    "ByteRenderer",
    "CountingLearner",
    "EchoEnvironment",
    "ListSource",
    "ScriptedSampler",
    "check_environment",
    "check_learner",
    "check_renderer",
    "check_sampler",
    "check_weight_receiver",
]
