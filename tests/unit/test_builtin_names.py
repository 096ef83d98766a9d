"""Every built-in name leads to something, and every public reward has one."""

import pytest

import strop.rewards
from strop.config.resolve import ENVIRONMENTS, PAIRS, REWARDS, TASKS, locate


@pytest.mark.parametrize(("table", "name"), [(t, n) for t in (TASKS, PAIRS, ENVIRONMENTS, REWARDS) for n in t])
def test_a_built_in_name_leads_somewhere(table, name):
    assert callable(locate(name, table, "test"))


def test_every_public_reward_has_a_name():
    classes = {name for name in strop.rewards.__all__ if name[0].isupper()}
    named = {target.rpartition(":")[2] for target in REWARDS.values()}
    assert classes <= named
