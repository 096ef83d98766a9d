import subprocess
import sys

import pytest

from strop.core.problems import problem_from_json
from strop.tasks.generated import CODE_GENERATORS, GeneratedCode
from strop.tasks.teaching import conversation

LEVELS = [(name, level) for name in sorted(CODE_GENERATORS) for level in range(1, 6)]


def program_of(task):
    lines = conversation(task)[-1].content.splitlines()
    assert lines[0] == "```python" and lines[-1] == "```"
    return "\n".join(lines[1:-1])


def passes(source, problem):
    """Runs code of this project's own making, or of the tests below."""
    names = {}
    exec(source, names)
    return all(names[problem.entry_point](*case.call.args) == case.expected for case in problem.cases)


def tasks(name, level, size=60, **options):
    source = GeneratedCode(name, "d", level=level, size=size, **options)
    return [source[i] for i in range(len(source))]


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_worked_responses_pass_and_shortcuts_do_not(name, level):
    for task in tasks(name, level, public=True):
        source, hidden = program_of(task), problem_from_json(task.reference)
        public = problem_from_json(task.data["public"])
        assert len(hidden.cases) == 3 and len(public.cases) == 2
        assert passes(source, hidden) and passes(source, public)
        header = source.partition("return")[0]
        parameters = header.partition("(")[2].partition(")")[0].split(", ")
        for shortcut in [*parameters, *(repr(case.expected) for case in hidden.cases)]:
            assert not passes(f"{header}return {shortcut}", hidden)


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_prompts_and_answers_are_short(name, level):
    for task in tasks(name, level):
        assert len(task.prompt[0].content) < 260 and len(task.data["response"]) < 100
        assert task.level == level and "public" not in task.data


@pytest.mark.parametrize("level", range(1, 6))
def test_the_shown_expression_is_wrong_and_examples_are_the_public_cases(level):
    for task in tasks("fix_expression", level, public=True):
        shown = task.prompt[0].content.split("`")[1]
        public = problem_from_json(task.data["public"])
        assert not passes(shown, problem_from_json(task.reference)) and not passes(shown, public)
        if level >= 3:
            for case in public.cases:
                call = f"{public.entry_point}({', '.join(map(repr, case.call.args))}) == {case.expected!r}"
                assert call in task.prompt[0].content


@pytest.mark.parametrize("name", sorted(CODE_GENERATORS))
def test_one_function_is_never_in_both_splits_whatever_its_wording(name):
    found = {}
    for split, seed in (("train", 0), ("held_out", 5)):
        drawn = [t for level in (1, 2, 3, 5) for t in tasks(name, level, 100, split=split, seed=seed)]
        found[split] = {program_of(task).partition("return")[2] for task in drawn}
        assert len({task.id for task in drawn}) == len(drawn)
    assert found["train"] and found["held_out"] and not found["train"] & found["held_out"]


def test_the_reference_is_plain_json_that_repeats_in_another_process():
    code = "from strop.tasks.generated import GeneratedCode as G; print(G('fix_expression', 'd', level=4, size=5)[4])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(GeneratedCode("fix_expression", "d", level=4, size=5)[4])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"generator": "complete_functoin"}, "did you mean 'complete_function'"),
        ({"generator": "fix_expression", "level": 0}, "level must be from 1 to 5"),
    ],
)
def test_wrong_parameters_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        GeneratedCode(**options, domain="d")
