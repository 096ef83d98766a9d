"""Seeded generators of small problems, without dependencies: levels 1 (easy) to 5 (function calls: 3)."""

from strop.tasks.generated.call_source import GeneratedCalls
from strop.tasks.generated.catalogue import GENERATORS, GROUPS
from strop.tasks.generated.code_source import CODE_GENERATORS, GeneratedCode
from strop.tasks.generated.prompt_source import (
    INSTRUCTION_GENERATORS,
    PROMPT_GENERATORS,
    SAFETY_GENERATORS,
    GeneratedPrompts,
)
from strop.tasks.generated.source import Generated

__all__ = [
    "CODE_GENERATORS",
    "GENERATORS",
    "GROUPS",
    "INSTRUCTION_GENERATORS",
    "PROMPT_GENERATORS",
    "SAFETY_GENERATORS",
    "Generated",
    "GeneratedCalls",
    "GeneratedCode",
    "GeneratedPrompts",
]
