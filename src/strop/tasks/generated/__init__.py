"""Seeded generators of small problems, without dependencies: levels 1 (easy) to 5."""

from strop.tasks.generated.code_source import CODE_GENERATORS, GeneratedCode
from strop.tasks.generated.source import GENERATORS, Generated

__all__ = ["CODE_GENERATORS", "GENERATORS", "Generated", "GeneratedCode"]
