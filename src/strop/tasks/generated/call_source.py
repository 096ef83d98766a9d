"""Generated function calls as a task source: pick the tool, fill in its arguments, or say that none fits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from strop.core.seeds import derive_seed
from strop.core.types import JSON, Message, Task
from strop.tasks.generated.source import distinct_problems, question_hash
from strop.tasks.levels import check_level, nearest_level

LEVELS = (1, 2, 3)
INSTRUCTION = 'Call as <tool_call>{"name": ..., "arguments": {...}}</tool_call>, or reply in words if no tool fits.'
NO_TOOL = "No tool fits."
# fmt: off
THINGS = (
    "apple", "bread", "chair", "lamp", "pear", "plum", "spoon", "table", "towel", "vase", "cup", "desk", "fork", "mug",
    "pan", "pen", "rope", "sock", "stamp", "tent",
)
# fmt: on
ASIDES = ("Is {a} a nice word?", "Who invented the {a}?", "Which colour has a {a}?", "Thank you for the {a}!")
STUB = """PRICES = {prices}
STOCK = {stock}

def price(item):
    return PRICES[item]

def stock(item):
    return STOCK[item]

def cost(item, count):
    return PRICES[item] * count
"""
TOOLS = ("price(item)", "stock(item)", "cost(item, count)")


@dataclass(frozen=True, slots=True)
class CallProblem:
    """`calls` are (name, arguments, value); none where no tool fits. `key` is the right answer whatever the wording."""

    question: str
    key: str
    calls: tuple[tuple[str, Mapping[str, Any], int], ...]
    stub: str


@dataclass(frozen=True)
class GeneratedCalls:
    """Questions about a shop with up to three tools, answered by calls; in one of five no tool fits.

    Level 1 has the tools `price` and `stock`, level 2 also `cost`, level 3 asks for two calls. The reference says what
    each call must return when run against the stub in `data["stub"]`, whose values are drawn anew for every task.
    """

    domain: str
    level: int = 1
    split: Literal["train", "held_out"] = "train"
    size: int = 1000
    seed: int = 0
    _problems: tuple[CallProblem, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_level(self.level, self.levels)
        draw = Random(derive_seed(self.seed, "function_calls", self.level, self.split))
        found = distinct_problems(lambda: draw_problem(draw, self.level), self.size, self.split)
        object.__setattr__(self, "_problems", tuple(found))

    @property
    def levels(self) -> tuple[int, ...]:
        return LEVELS

    def at_level(self, level: int) -> GeneratedCalls:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return len(self._problems)

    def __getitem__(self, index: int) -> Task:
        problem = self._problems[index]
        tools = ", ".join(TOOLS[: 2 if self.level == 1 else 3])
        calls: list[JSON] = [{"name": name, "returns": value} for name, _, value in problem.calls]
        return Task(
            id=f"calls-{question_hash(problem.question)}",
            domain=self.domain,
            prompt=(Message(role="user", content=f"{problem.question}\nTools: {tools}. {INSTRUCTION}"),),
            reference={"calls": calls},
            level=self.level,
            data={"stub": problem.stub, "response": response(problem.calls)},
        )


def draw_problem(draw: Random, level: int) -> CallProblem:
    """One question, its calls, and a stub in which no two things have the same price or stock."""
    prices = dict(zip(THINGS, draw.sample(range(11, 500), len(THINGS)), strict=True))
    stock = dict(zip(THINGS, draw.sample(range(501, 999), len(THINGS)), strict=True))
    stub = STUB.format(prices=prices, stock=stock)
    if draw.random() < 0.2:
        a, b = draw.sample(THINGS, 2)
        question = f"A customer with a {b} asks: {draw.choice(ASIDES).format(a=a)}"
        return CallProblem(question, question, (), stub)
    wanted = [_draw_call(draw, level, prices, stock) for _ in range(2 if level == 3 else 1)]
    question = " ".join(said for said, _ in wanted)
    calls = tuple(call for _, call in wanted)
    return CallProblem(question, response(calls), calls, stub)


def _draw_call(
    draw: Random, level: int, prices: Mapping[str, int], stock: Mapping[str, int]
) -> tuple[str, tuple[str, Mapping[str, Any], int]]:
    """A question and the call that answers it."""
    item, count = draw.choice(THINGS), draw.randrange(2, 100)
    day = draw.choice(("", " now", " today", " this week", " in our shop"))
    calls: tuple[tuple[Sequence[str], tuple[str, Mapping[str, Any], int]], ...] = (
        (("What is the price of a {item}", "How much is one {item}"), ("price", {"item": item}, prices[item])),
        (("How many of {item} are in stock", "What is the stock of {item}"), ("stock", {"item": item}, stock[item])),
        (("What do {count} of {item} cost",), ("cost", {"item": item, "count": count}, prices[item] * count)),
    )
    wordings, call = draw.choice(calls[: 2 if level == 1 else 3])
    return draw.choice(wordings).format(item=item, count=count) + f"{day}?", call


def response(calls: Sequence[tuple[str, Mapping[str, Any], int]]) -> str:
    """The worked answer: the calls as text, in the form that the renderer reads, or words."""
    said = [json.dumps({"name": name, "arguments": dict(arguments)}) for name, arguments, _ in calls]
    return "\n".join(f"<tool_call>{call}</tool_call>" for call in said) or NO_TOOL
