"""The documents are true to the code."""

import re
from pathlib import Path

from strop.config.describe import describe
from strop.config.load import load_recipe

ROOT = Path(__file__).parents[2]


def test_the_configuration_reference_is_made_from_the_schema():
    assert (ROOT / "docs" / "configuration.md").read_text() == describe()


def test_every_recipe_loads():
    recipes = sorted((ROOT / "recipes").glob("*/run.toml"))
    assert recipes
    for recipe in recipes:
        load_recipe(recipe)


def test_links_between_documents_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*/README.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
