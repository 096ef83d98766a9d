"""A reward's version changes with its code and parameters, and with nothing else."""

import importlib
import sys
from functools import partial

import pytest

from strop.config.component import Component
from strop.config.versions import version_of
from strop.rewards import ExactMatch, HasAnswer, from_trl

CODE = "def helper(x):\n    return x\n\ndef reward(rollout, task):\n    return helper(1.0)\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module, loaded anew after each change of its text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = []

    def load(code):
        name = f"rewards_of_mine_{len(loaded)}"
        (tmp_path / f"{name}.py").write_text(code)
        loaded.append(name)
        return importlib.import_module(name).reward

    yield load
    for name in loaded:
        del sys.modules[name]


def of(target, **params):
    return version_of(Component(use="x", params=params), target)


def test_the_same_code_and_parameters_give_the_same_version():
    assert of(ExactMatch, case_sensitive=True) == of(ExactMatch, case_sensitive=True)


def test_parameters_and_code_change_it(module):
    versions = [
        of(ExactMatch),
        of(ExactMatch, case_sensitive=True),
        of(module(CODE)),
        of(module(CODE.replace("return x", "return 2 * x"))),  # what the reward calls counts as well
    ]
    assert len(set(versions)) == 4
    assert of(module(CODE)) == versions[2]


def test_code_without_a_source_has_a_version():
    assert len(of(len)) == len(of(HasAnswer())) == 16


def test_a_function_among_the_parameters_counts_by_its_code(module):
    one, other = module(CODE), module(CODE.replace("1.0", "0.5"))
    assert of(ExactMatch, judge=one) != of(ExactMatch, judge=other)


def test_what_a_partial_or_a_wrapper_holds_counts(module):
    one, other = module(CODE), module(CODE.replace("1.0", "0.5"))
    assert of(from_trl(one)) != of(from_trl(other)) and of(from_trl(one)) == of(from_trl(one))
    assert of(from_trl(one)) != of(from_trl(one, plain=True))
    assert of(partial(one, bonus=1)) != of(partial(other, bonus=1))
    assert of(partial(one, bonus=1)) != of(partial(one, bonus=2))
    assert of(ExactMatch()) != of(ExactMatch(case_sensitive=True))


def test_objects_without_a_text_of_their_own_do_not_make_a_new_version_in_every_process():
    assert of(ExactMatch, client=object()) == of(ExactMatch, client=object())


@pytest.mark.parametrize("name", ["rules", "config", "path"])
def test_a_file_among_the_parameters_counts_by_what_it_holds(tmp_path, name):
    file = tmp_path / "rules.toml"
    file.write_text("one")
    first = of(ExactMatch, **{name: str(file)})
    assert of(ExactMatch, **{name: str(file)}) == of(ExactMatch, **{name: file}) == first
    file.write_text("two")
    assert of(ExactMatch, **{name: str(file)}) != first
    assert of(ExactMatch, **{name: "x" * 5000}) != of(ExactMatch, **{name: "y"})
    written_later = of(ExactMatch, cache_file=str(file))
    file.write_text("three")
    assert of(ExactMatch, cache_file=str(file)) == written_later


def test_a_folder_among_the_parameters_counts_by_what_it_holds(tmp_path):
    """A reward model that was trained again under the same path is another reward."""
    (tmp_path / "deep").mkdir()
    weights = tmp_path / "deep" / "weights"
    weights.write_bytes(b"one")
    first = of(ExactMatch, path=str(tmp_path))
    assert of(ExactMatch, path=str(tmp_path)) == first
    weights.write_bytes(b"two")
    assert of(ExactMatch, path=str(tmp_path)) != first


@pytest.mark.parametrize(
    ("changed", "counts"), [("helper", True), ("deep", True), ("sub/__init__", True), ("other", False)]
)
def test_modules_of_the_package_count_where_they_are_imported(tmp_path, monkeypatch, changed, counts):
    folder = tmp_path / f"package_{changed.replace('/', '_')}"
    (folder / "sub").mkdir(parents=True)
    sources = {
        "__init__": "",
        "reward": "from .helper import help\nfrom . import sub\ndef reward(rollout, task):\n    return help()\n",
        "helper": f"import {folder.name}.deep as deep\ndef help():\n    return deep.VALUE\n",
        "deep": "VALUE = 1.0\n",
        "sub/__init__": "X = 1\n",
        "other": "Y = 1\n",
    }
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    reward = importlib.import_module(f"{folder.name}.reward").reward
    first = of(reward)
    (folder / f"{changed}.py").write_text(sources[changed] + "# changed\n")
    assert (of(reward) != first) is counts
