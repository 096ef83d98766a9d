"""Small programs to write: complete a function from its description, fix an expression with one fault.

Levels of `complete_function`: one step, two steps, two arguments, a condition, texts and lists. Levels of
`fix_expression`: one and two steps told in words, then one step, two steps and two arguments told by examples alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from strop.tasks.generated.expressions import (
    ONE,
    PAIRS,
    Arguments,
    Chain,
    Function,
    draw_cases,
    draw_chain,
    draw_conditional,
    draw_container,
    passes,
)

NAMES = ("f", "g", "h", "solve", "calc", "run")
NUM_PUBLIC, NUM_HIDDEN = 2, 3
Case = tuple[Arguments, Any]


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """`key` names the function apart from its wording and name; `answer` is one right program."""

    question: str
    answer: str
    key: str
    entry_point: str
    public: tuple[Case, ...]
    hidden: tuple[Case, ...]


CodeGenerator = Callable[[Random, int], CodeProblem]


def complete_function(draw: Random, level: int) -> CodeProblem:
    while True:
        function, rivals = _described(draw, level)
        public, hidden = (draw_cases(draw, function, n, rivals) for n in (NUM_PUBLIC, NUM_HIDDEN))
        if public is not None and hidden is not None:
            break
    name = draw.choice(NAMES)
    header = f"def {name}({', '.join(function.parameters)}): return ..."
    question = f"Complete `{header}` so that it {function.words}."
    return CodeProblem(question, function.code(name), function.expression, name, tuple(public), tuple(hidden))


def _described(draw: Random, level: int) -> tuple[Function, list[Callable[..., Any]]]:
    """A function of the level, with other functions that its cases must tell from it."""
    if level <= 2:
        chain = draw_chain(draw, ONE, level)
        return chain.function(draw), [Chain(ONE, (step,)).value for step in chain.steps if level == 2]
    if level == 3:
        chain = draw_chain(draw, draw.choice(PAIRS), 1)
        return chain.function(draw), [Chain(pair, chain.steps).value for pair in PAIRS if pair != chain.base]
    return draw_conditional(draw) if level == 4 else (draw_container(draw), [])


def fix_expression(draw: Random, level: int) -> CodeProblem:
    while True:
        base = ONE if level < 5 else draw.choice(PAIRS)
        chain = draw_chain(draw, base, 2 if level in (2, 4) else 1)
        faulty = draw.choice(chain.edits())
        function = chain.function(draw)
        public, hidden = (draw_cases(draw, function, n, [faulty.value]) for n in (NUM_PUBLIC, NUM_HIDDEN))
        if public is not None and hidden is not None and (level < 3 or _is_determined(faulty, public, hidden)):
            break
    name = draw.choice(NAMES)
    wanted = f"it {function.words}" if level < 3 else " and ".join(_example(name, case) for case in public)
    wrong = faulty.function(draw).code(name)
    question = f"Fix the one wrong operator or number in `{wrong}` so that {wanted}."
    return CodeProblem(question, function.code(name), function.expression, name, tuple(public), tuple(hidden))


def _is_determined(faulty: Chain, public: list[Case], hidden: list[Case]) -> bool:
    """Whether every single edit that agrees with the public cases agrees with the hidden ones."""
    return all(passes(edit.value, hidden) for edit in faulty.edits() if passes(edit.value, public))


def _example(name: str, case: Case) -> str:
    arguments, value = case
    return f"{name}({', '.join(map(repr, arguments))}) == {value!r}"
