"""HumanEval in the sandbox: every published solution passes, and none with its last statement broken."""

import ast
import asyncio
import json

import pytest

from strop.core.errors import ConfigError, DataError
from strop.core.problems import problem_from_json
from strop.sandbox.grading import SandboxGrader
from strop.sandbox.jail import LocalSandbox
from strop.tasks.humaneval import HumanEval


def row(entry_point, prompt, solution, test):
    return {
        "task_id": f"Own/{entry_point}",
        "prompt": prompt,
        "canonical_solution": solution,
        "test": test,
        "entry_point": entry_point,
    }


OWN = [
    row(
        "pairs",
        '''from typing import List


def pairs(xs: List[int], total: int) -> int:
    """How many pairs have this sum."""
''',
        """    seen = 0
    for i, x in enumerate(xs):
        seen += xs[i + 1:].count(total - x)
    return seen
""",
        """METADATA = {'author': 'x'}

def check(candidate):
    assert candidate([1, 2, 3], 4) == 1
    assert candidate([2, 2, 2], 4) == 3, 'all'
    assert candidate([], 1) == 0
    assert True, 'trivial'
""",
    ),
    row(
        "area",
        '''import math

def area(r: float) -> float:
    """Area of a circle."""
''',
        "    return math.pi * r ** 2\n",
        """def check(candidate):
    assert abs(candidate(1.0) - 3.14159265) < 1e-6
    assert math.fabs(candidate(2) - 12.5663706) < 1e-6
""",
    ),
    row(
        "back",
        '''def turn(s):
    """Moves the first letter to the end."""
    return s[1:] + s[:1]


def back(s):
    """Undoes turn."""
''',
        "    return s[-1:] + s[:-1]\n",
        """def check(candidate):
    from random import choice
    import string
    for n in range(20):
        text = ''.join(choice(string.ascii_lowercase) for _ in range(n))
        assert candidate(turn(text)) == text
    assert candidate('bca') == 'abc'
""",
    ),
    row(
        "split",
        '''def split(xs):
    """Even and odd numbers, as a tuple of two lists."""
''',
        """    even = [x for x in xs if x % 2 == 0]
    odd = [x for x in xs if x % 2]
    return even, odd
""",
        """def check(candidate):
    assert candidate([1, 2, 3]) == ([2], [1, 3])
    assert candidate([]) == ([], [])
    assert tuple(candidate([4])) == ([4], [])
""",
    ),
    row(
        "grow",
        '''def grow(x, y):
    """Adds."""
''',
        """    total = x + y
    return total
""",
        """def check(candidate):
    import random
    for _ in range(10):
        x, y = random.randint(0, 9), random.randint(0, 9)
        assert candidate(x, y) == x + y
""",
    ),
]


def broken(source, entry_point):
    """The program with the last statement of its function replaced."""
    module = ast.parse(source)
    [*_, function] = [n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == entry_point]
    function.body[-1] = ast.Return(ast.Constant(None))
    return ast.unparse(ast.fix_missing_locations(module))


async def verdicts(source):
    """The verdict of each published solution, and of each broken one."""
    problems = [problem_from_json(source[i].reference) for i in range(len(source))]
    solutions = source.canonical_solutions()
    async with LocalSandbox() as sandbox:
        grader = SandboxGrader(sandbox)
        right = [grader.grade(p, s) for p, s in zip(problems, solutions, strict=True)]
        wrong = [grader.grade(p, broken(s, p.entry_point)) for p, s in zip(problems, solutions, strict=True)]
        found = await asyncio.gather(*right, *wrong)
    return found[: len(source)], found[len(source) :]


def check(source, right, wrong):
    ids = [source[i].id for i in range(len(source))]
    assert {i: v for i, v in zip(ids, right, strict=True) if v.verdict != "passed" or v.trust != "strong"} == {}
    assert [i for i, v in zip(ids, wrong, strict=True) if v.verdict in ("passed", "infra_error")] == []


async def test_problems_of_this_kind(tmp_path):
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, OWN)))
    source = HumanEval("d", str(tmp_path / "own.jsonl"))
    try:
        check(source, *await verdicts(source))
    except ConfigError as error:
        pytest.skip(f"no sandbox tier here: {error}")


async def test_every_published_solution_passes_and_no_broken_one():
    try:
        source = HumanEval("d")
    except DataError as error:
        pytest.skip(str(error))
    assert len(source) == 164
    try:
        check(source, *await verdicts(source))
    except ConfigError as error:
        pytest.skip(f"no sandbox tier here: {error}")
