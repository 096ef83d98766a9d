"""The recipe of docs/code-domains.md is one."""

import re
from pathlib import Path

from strop.config.load import load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "code-domains.md"


def test_the_recipe_of_the_page_loads(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [recipe] = [block for block in blocks if "[[stages]]" in block]
    (tmp_path / "run.toml").write_text(recipe)
    config = load_recipe(tmp_path / "run.toml")
    assert [domain.name for domain in config.domains] == ["complete", "fix, two attempts", "calls", "humaneval"]
    assert [reward.use for reward in config.rewards] == ["code"]
