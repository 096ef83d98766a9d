"""One rule for taking a program out of an answer."""

import time

import pytest
from code_rows import load_rows
from hypothesis import given
from hypothesis import strategies as st

from strop.core.fences import extract_code

RIGHT, DRAFT = "print(int(input())*3)\n", "print('draft')\n"


def block(text, tag="python", fence="```"):
    return f"{fence}{tag}\n{text}{fence}\n"


@pytest.mark.parametrize(
    "answer",
    [
        block(RIGHT),
        "First:\n\n" + block(DRAFT) + "\nBetter:\n\n" + block(RIGHT),
        block(RIGHT, 'python title="answer.py"'),
        block(RIGHT, "Python"),
        block(RIGHT, "py"),
        block(RIGHT, "python3.11"),
        block(RIGHT, " python"),
        block(RIGHT, "{.python}"),
        block(RIGHT, "python:main.py"),
        block(RIGHT, "language-python"),
        block(RIGHT, "python", "~~~"),
        block(RIGHT, "python", "````"),
        block(RIGHT, ""),
        block(RIGHT) + block("12\n", ""),
        block(RIGHT) + block("pip install x\n", "bash"),
        block(DRAFT, "bash") + block(RIGHT, ""),
        block(RIGHT, "text"),
        block(RIGHT) + block("", "python"),
        block(RIGHT) + block("  \n", "python"),
        "```python\n" + RIGHT,
        block(RIGHT).replace("\n", "\r\n"),
        "<think>\n" + block(DRAFT) + "</think>\n" + block(RIGHT),
        block(RIGHT) + "<think>\n" + block(DRAFT) + "</think>\n",
        block(RIGHT) + "<think>\n" + block(DRAFT),
        block(DRAFT) + "so\n</think>\n" + block(RIGHT),
        "Sure. <think>" + block(DRAFT) + "</think> " + "Here:\n" + block(RIGHT),
        "<THINK>\n" + block(DRAFT) + "</THINK>\n" + block(RIGHT),
        "1. The program:\n\n   ```python\n   print(int(input())*3)\n   ```\n",
        "1. ```python\n   print(int(input())*3)\n   ```\n",
        "- ```python\n  print(int(input())*3)\n  ```\n",
        "> ```python\n> print(int(input())*3)\n> ```\n",
        "\t```python\n\tprint(int(input())*3)\n\t```\n",
        "`code` and ``` in a line\n\n" + block(RIGHT),
        "```not an opening```\n\n" + block(RIGHT),
        RIGHT,
    ],
)
def test_the_program_of_an_answer(answer):
    assert extract_code(answer, "python") == RIGHT


def test_a_longer_fence_holds_a_shorter_one():
    text = "DOC = '''\n```\nsample\n```\n'''\n"
    assert extract_code(block(text, fence="````"), "python") == text
    assert extract_code(block(text, fence="~~~"), "python") == text


def test_indentation_within_the_program_stays():
    text = "if x:\n    y = 1\n\n    z = 2\n"
    indented = "".join("   " + line for line in block(text).splitlines(keepends=True))
    assert extract_code("1. So:\n\n" + indented, "python") == text.replace("\n\n", "\n\n")


def test_a_tag_within_the_program_is_no_reasoning():
    text = "import re\nprint(re.sub(r'<think>.*?</think>', '', input()))\n"
    assert extract_code(block(text), "python") == text


@pytest.mark.parametrize(
    ("language", "tag"),
    [
        ("cpp", "c++"),
        ("cpp", "C++17"),
        ("cpp", "cpp"),
        ("c++", "cpp"),
        ("c", "c"),
        ("c", "c99"),
        ("javascript", "js"),
        ("javascript", "node"),
        ("bash", "sh"),
        ("bash", "shell"),
        ("rust", "rs"),
        ("lua", "lua"),
    ],
)
def test_tags_of_languages(language, tag):
    assert extract_code(block("other\n", "python") + block("this\n", tag) + block("no\n", "text"), language) == "this\n"


@pytest.mark.parametrize(
    "answer",
    [
        *("", "  \n", "I do not know.", "<think>hm", "<think>hm</think>", "hm</think>"),
        *("```python\n```", "```", "a\0b", "(" * 9000),
    ],
)
def test_no_program(answer):
    assert extract_code(answer, "python") is None


def test_rows():
    rows = [row for row in load_rows() if row.response]
    assert rows
    for row in rows:
        assert extract_code(row.source, row.problem.language), row.id


@given(st.lists(st.sampled_from(["```", "~~~", "> ", "- ", "1. ", "\n", " ", "<think>", "</think>", "x", "python"])))
def test_any_text(parts):
    extract_code("".join(parts), "python")


@pytest.mark.parametrize(
    "answer",
    [
        "> " * 100_000,
        "- " * 100_000,
        "`" * 200_000,
        "<think>" * 50_000,
        "</think>" * 50_000,
        "```\n" * 50_000,
        " " * 200_000 + "x",
        "- > " * 50_000 + "x",
        "1. " * 50_000,
    ],
    ids=range(9),
)
def test_hostile_text_takes_little_time(answer):
    started = time.process_time()
    extract_code(answer, "python")
    assert time.process_time() - started < 2
