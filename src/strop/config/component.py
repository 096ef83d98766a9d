"""How a recipe names code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from strop.config.section import Section


class Component(Section):
    """Code to use: a built-in name or `module:attribute`, with the keyword arguments it is made with."""

    use: str | Callable[..., Any]
    params: dict[str, Any] = Field({})
