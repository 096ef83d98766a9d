"""Public fakes, one for each protocol, and a conformance check for each: for tests of Strop and of what users add."""

from strop.testing.checks import check_environment, check_learner, check_renderer, check_sampler, check_weight_receiver
from strop.testing.fakes import ByteRenderer, CountingLearner, EchoEnvironment, ListSource, ScriptedSampler
from strop.testing.sandbox import FakeSandbox, check_grader, check_sandbox

__all__ = [
    "ByteRenderer",
    "CountingLearner",
    "EchoEnvironment",
    "FakeSandbox",
    "ListSource",
    "ScriptedSampler",
    "check_environment",
    "check_grader",
    "check_learner",
    "check_renderer",
    "check_sampler",
    "check_sandbox",
    "check_weight_receiver",
]
