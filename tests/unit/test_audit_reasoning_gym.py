"""Scorers of reasoning_gym as they are: the audit finds by itself which of them pay for junk, and passes the others."""

import pytest

from strop.audit.audit import Effort, audit_domain
from strop.core.protocols import Domain, NamedReward
from strop.core.types import SamplingParams
from strop.environments.single_turn import SingleTurn
from strop.rewards import ReasoningGymScore

pytest.importorskip("reasoning_gym")

from strop.tasks.reasoning_gym import ReasoningGym

EFFORT = Effort(bound=0.2, num_tasks=24, seconds=60.0, max_wait_s=10.0)
BROKEN = {
    "game_of_life_halting": "one token, formed",  # every answer that is not empty is right
    "coin_flip": "always 0, formed",  # a beginning of the right number is right
    "emoji_mystery": "look-alike of gold, formed",  # letters are compared place by place
    "game_of_life": "majority answer, formed",  # so are cells, nearly all of which are dead
}
SOUND = ["chain_sum", "gcd", "calendar_arithmetic", "letter_counting", "simple_equations"]


async def audited(generator, own_scorer):
    source = ReasoningGym(generator, "d", size=40)
    return await audit_domain(
        Domain(
            name="d",
            tasks=source,
            held_out=source,
            environment=SingleTurn,
            rewards=(NamedReward(name="accuracy", fn=ReasoningGymScore(own_scorer=own_scorer)),),
            sampling=SamplingParams(max_tokens=64),
        ),
        EFFORT,
    )


@pytest.mark.parametrize("generator", BROKEN)
async def test_scorers_that_pay_for_junk_are_found(generator):
    audit = await audited(generator, own_scorer=True)
    assert audit.verdict == "fail" and audit.gold_mean == 1.0
    assert BROKEN[generator] in {row.kind for row in audit.junk if row.low > row.limit}, audit.junk[:5]


@pytest.mark.parametrize("generator", [*BROKEN, *SOUND])
async def test_equality_with_the_answer_passes(generator):
    audit = await audited(generator, own_scorer=False)
    assert "fail" not in {finding.verdict for finding in audit.findings}, audit.findings


@pytest.mark.parametrize("generator", SOUND)
async def test_sound_scorers_pass(generator):
    audit = await audited(generator, own_scorer=True)
    assert "fail" not in {finding.verdict for finding in audit.findings}, audit.findings
