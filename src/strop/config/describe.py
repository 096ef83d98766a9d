"""The configuration reference, made from the schema: `python -m strop.config.describe > docs/configuration.md`."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from strop.config import curriculum, schema
from strop.config.section import Section

HEAD = """\
# Configuration

A recipe is one TOML file. An unknown key is an error that names the near one. Every key can be set on the command line,
list items by name or number: `strop train RECIPE learner.learning_rate=1e-5 stages.rl.steps=50`. This page is made from
`config/` by `python -m strop.config.describe`.
"""


def describe() -> str:
    """The page as Markdown: a table of keys, types and defaults for each section."""
    pages = [HEAD]
    found = {**vars(schema), **vars(curriculum)}  # a section that both name comes once
    for section in found.values():
        if inspect.isclass(section) and issubclass(section, Section) and section is not Section:
            pages.append(_section(section))
    return "\n".join(pages)


def _section(section: type[BaseModel]) -> str:
    lines = [f"## {section.__name__}", ""]
    text = inspect.getdoc(section) if section.__doc__ else None
    lines += [text, ""] if text else []
    lines += ["| key | type | default |", "| --- | --- | --- |"]
    for name, field in section.model_fields.items():
        lines.append(f"| `{name}` | {_type(field.annotation)} | {_default(field.default)} |")
    return "\n".join([*lines, ""])


def _type(annotation: Any) -> str:
    text = inspect.formatannotation(annotation)
    text = re.sub(r"typing\.|collections\.abc\.|strop\.config\.\w+\.", "", text)
    return text.replace("|", "\\|")


def _default(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    return "its defaults" if isinstance(default, BaseModel) else f"`{default!r}`"


if __name__ == "__main__":
    print(describe(), end="")
