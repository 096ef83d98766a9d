"""What is said of an error in a user's code: one line, and where to look."""

import asyncio
import json
from pathlib import Path

import pytest

from strop.config.resolve import locate
from strop.core.errors import ConfigError, describe_error

HERE = Path(__file__).name


def lacks():
    return {}["answer"]


def in_a_library():
    return json.loads("{")


async def awaited():
    await asyncio.sleep(0)
    return lacks()


def many_lines():
    raise ValueError("one\ntwo\n" + "long " * 200)


def silent():
    raise StopIteration


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        (lacks, "KeyError: 'answer' (", lacks),
        (in_a_library, "JSONDecodeError: Expecting property name", in_a_library),
        (lambda: asyncio.run(awaited()), "KeyError: 'answer' (", lacks),
        (many_lines, "ValueError: one two long", many_lines),
        (silent, "StopIteration (", silent),
    ],
)
def test_an_error_is_one_line_with_the_place_in_the_users_code(code, said, line):
    with pytest.raises(Exception) as caught:
        code()
    described = describe_error(caught.value)
    number = line.__code__.co_firstlineno + 1
    assert described.startswith(said) and described.endswith(f"({HERE}, line {number})")
    assert "\n" not in described and len(described) < 260


def test_an_error_of_a_library_alone_names_no_place():
    assert describe_error(ValueError("no")) == "ValueError: no"


def test_a_module_that_fails_to_import_says_in_which_line(tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text("import math\n\nBEST = math.inff\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"own_rewards.*AttributeError.*\(own_rewards.py, line 3\)"):
        locate("own_rewards:fn", {}, "reward 'mine'")
