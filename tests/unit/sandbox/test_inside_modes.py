"""The modes of the jail as plain processes: honest programs, and programs that try to be paid for nothing."""

import pytest
from mode_jobs import run_calls, run_same_process, run_tests

from strop.sandbox.answers import UNREADABLE


def kinds(source, entry_point, *calls):
    _, answers, _, _ = run_calls(source, entry_point, *calls)
    return [(answer.kind, answer.value if answer.kind == "value" else answer.detail) for answer in answers]


def test_calls_answer_with_exact_types():
    source = "print('loading')\ndef f(x, y):\n    print(x)\n    return [x, (y,), {x: {y}}, None, 1.5]\n"
    load, answers, status, _ = run_calls(source, "f", (1, "a"), (2**80, b"b"))
    assert (load.kind, status) == ("value", 0)
    assert answers[0].value == [1, ("a",), {1: {"a"}}, None, 1.5]
    assert answers[1].value == [2**80, (b"b",), {2**80: {b"b"}}, None, 1.5]


def test_calls_start_clean():
    source = "seen = []\ndef f(xs):\n    xs.sort()\n    seen.extend(xs)\n    return list(seen)\n"
    assert kinds(source, "f", ([2, 1],), ([3],)) == [("value", [1, 2]), ("value", [3])]


@pytest.mark.parametrize(
    "source",
    [
        "class Solution:\n    def f(self, x: List[int]) -> Optional[int]:\n        self.n = getattr(self, 'n', 0) + 1\n"
        "        return [self.n, x]\n",
        "def f(x: Dict[str, Any]):\n    return [1, x]\n",
        "import typing as t\ndef g(x):\n    return [1, x]\nf = g\n",
        "from functools import lru_cache\n@lru_cache\ndef f(x):\n    return [1, x]\n",
        "if __name__ == '__main__':\n    raise SystemExit\nassert __name__ == 'solution'\nf = lambda x: [1, x]\n",
        "import sys\nassert sys.modules['solution'].__dict__ is globals()\ndef f(x):\n    return [1, x]\n",
    ],
)
def test_ways_to_write_a_function(source):
    assert kinds(source, "f", (4,), (5,)) == [("value", [1, 4]), ("value", [1, 5])]


def test_a_method_by_its_full_name():
    assert kinds("class A:\n    def f(self, x):\n        return x\n", "A.f", (4,)) == [("value", 4)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("x = 1", "defines no function 'f'"),
        ("f = 3", "defines no function 'f'"),
    ],
)
def test_what_does_not_load(source, said):
    load, answers, status, stderr = run_calls(source, "f", (1,))
    assert load.kind == "error" and said in load.detail and status == 1
    assert answers == () and said.split(":")[0] in stderr


def test_calls_that_give_nothing():
    source = (
        "import os, sys\ndef f(x):\n    if x == 0:\n        os._exit(0)\n    if x == 1:\n        sys.exit(0)\n"
        "    if x == 2:\n        os.kill(os.getpid(), 9)\n    if x == 3:\n        raise KeyError('k')\n"
        "    if x == 4:\n        os._exit(77)\n    if x == 5:\n        return f(x)\n    return x\n"
    )
    found = kinds(source, "f", *((x,) for x in range(7)))
    assert [kind for kind, _ in found] == ["none", "error", "none", "error", "none", "error", "value"]
    assert found[0][1] == "exit status 0 without an answer"
    assert found[1][1] == "SystemExit: 0"
    assert found[2][1] == "ended by signal 9"
    assert found[3][1] == "KeyError: 'k'"
    assert found[5][1].startswith("RecursionError")


LIES = """
class Lie:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __hash__(self): return hash(7)
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __abs__(self): return 0
    def __float__(self): return 7.0
    def __bool__(self): return True
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __round__(self, n=0): return 0
    def __repr__(self): return "7"
class LyingInt(int):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 7
    __sub__ = __rsub__ = lambda self, other: 0
class Meta(type):
    def __eq__(cls, other): return True
    def __hash__(cls): return hash(int)
class MetaLie(metaclass=Meta):
    def __eq__(self, other): return True
class Hang:
    def __repr__(self):
        while True: pass
    __str__ = __iter__ = __len__ = __repr__
    __class__ = property(lambda self: int)
"""


@pytest.mark.parametrize(
    "value", ["Lie()", "LyingInt(3)", "[LyingInt(3)]", "MetaLie()", "[1, MetaLie()]", "Hang()", "Lie"]
)
def test_objects_are_no_answers(value):
    [(kind, detail)] = kinds(LIES + f"def f(x):\n    return {value}\n", "f", (1,))
    assert kind == "none" and detail.startswith(UNREADABLE)


@pytest.mark.parametrize("value", ["x", "[0] * 10**7", "'a' * 10**7", "y"])
def test_huge_answers_are_none(value):
    source = f"def f(n):\n    x, y = [], []\n    x.append(x)\n    for _ in range(10**5): y = [y]\n    return {value}\n"
    [(kind, detail)] = kinds(source, "f", (1,))
    assert kind == "none" and detail.startswith(UNREADABLE)


FORGERIES = {
    "patched json": """
import json
json.dumps = lambda *a, **k: '7'
json.JSONEncoder.encode = lambda s, o: '7'
""",
    "patched encoder": """
import json.encoder
json.encoder.encode_basestring_ascii = lambda s: '7'
""",
    "junk in every descriptor": """
import os
for fd in range(3, 20):
    for junk in (b'\\xff' * 8, b'[' * 999, b'7\\n'):
        try: os.write(fd, junk)
        except OSError: break
""",
    "modules left in the folder": """
for n in ('json', 'plain', 'struct', 'solution'):
    open(n + '.py', 'w').write('x')
""",
    "our modules": """
import sys
for n in ('plain', 'calls', 'loading', 'link'):
    assert n not in sys.modules, n
""",
    "other arguments": """
import gc
for o in gc.get_objects():
    if type(o) is list and o and type(o[0]) is list: o[0][:] = [[9], {}]
""",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_never_give_the_right_answer(name):
    found = kinds(FORGERIES[name] + "def f(x):\n    return 0\n", "f", (1,), (2,))
    assert all(value != 7 for _, value in found)


def test_ignored_children_and_closed_descriptors_end():
    assert kinds("import signal\nsignal.signal(17, signal.SIG_IGN)\ndef f(x):\n    return x\n", "f", (1,), (2,)) == [
        ("value", 1),
        ("value", 2),
    ]
    source = "import os\nos.closerange(0, 50)\ndef f(x):\n    return x\n"
    assert kinds(source, "f", (1,)) == []


BUSY = """
import asyncio, concurrent.futures, multiprocessing, random, signal, subprocess, threading
threading_at_load
async def later(x):
    await asyncio.sleep(0.001)
    return x
def square(x): return x * x
def f(x):
    random.shuffle(found := list(range(x)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool: found = sorted(pool.map(square, found))
    found.append(asyncio.run(later(x)))
    with multiprocessing.get_context("fork").Pool(2) as pool: found += pool.map(square, [x])
    found.append(subprocess.run(["echo", "hi"], capture_output=True).stdout)
    signal.signal(signal.SIGUSR1, lambda *a: found.append("signalled"))
    signal.raise_signal(signal.SIGUSR1)
    return found
"""


@pytest.mark.parametrize("loading", ["", "threading.Thread(target=threading.Event().wait, daemon=True).start()"])
def test_a_call_may_use_threads_processes_and_signals(loading):
    found = kinds(BUSY.replace("threading_at_load", loading), "f", (3,), (2,))
    assert found == [("value", [0, 1, 4, 3, 9, b"hi\n", "signalled"]), ("value", [0, 1, 2, 4, b"hi\n", "signalled"])]


def test_many_calls_in_order():
    _, answers, _, _ = run_calls("def f(x):\n    return x\n", "f", *((n,) for n in range(300)))
    assert [answer.value for answer in answers] == list(range(300))


SOLUTION = (
    LIES
    + """
import collections
from decimal import Decimal
class Coded(ValueError):
    def __init__(self, code):
        super().__init__("bad")
        self.code = code
class Node:
    def __init__(self, value):
        self.value, self.next = value, None
class Vector:
    kind = "vector"
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, other): return Vector(self.x + other.x, self.y + other.y)
    def __mul__(self, k): return Vector(self.x * k, self.y * k)
    def __eq__(self, other): return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)
    def __hash__(self): return hash((self.x, self.y))
    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5
    def __repr__(self): return f"Vector({self.x}, {self.y})"
    def __iter__(self): return iter((self.x, self.y))
    def __contains__(self, number): return number in (self.x, self.y)
    def same(self): return self
    @classmethod
    def zero(cls): return cls(0, 0)
class Named(Vector): pass
def fail(code): raise Coded(code)
def sort_in_place(xs): xs.sort()
def count_up(n): yield from range(n)
def keyed(xs, key): return sorted(xs, key=key)
def show(x): print("shown", x)
def greet(): return "hello " + input("name? ")
def half(): return Decimal("0.5")
def letters(s): return collections.Counter(s)
LIMIT = 5
"""
)

HONEST = """
import contextlib, io, unittest
from decimal import Decimal
from unittest import mock
import solution
from solution import *
class Errors(unittest.TestCase):
    def test_own(self):
        with self.assertRaises(Coded) as caught: fail(7)
        self.assertEqual((caught.exception.code, str(caught.exception)), (7, "bad"))
        with self.assertRaises(ValueError): solution.fail(1)
        with self.assertRaisesRegex(TypeError, "argument"): sort_in_place()
class Objects(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.a = Vector(3, 4)
    def test_operators(self):
        self.assertEqual(self.a + Vector(1, 1), Vector(4, 5))
        self.assertEqual(self.a * 2, Vector(6, 8))
        self.assertEqual((abs(self.a), repr(self.a), list(self.a)), (5.0, "Vector(3, 4)", [3, 4]))
        self.assertIn(3, self.a)
        self.assertEqual(len({Vector(1, 2), Vector(1, 2)}), 1)
        self.assertNotEqual(self.a, 3)
    def test_classes(self):
        self.assertIsInstance(Named(1, 2), Vector)
        self.assertIsInstance(Vector(3, 4).same(), Vector)
        self.assertEqual((Vector.zero(), Vector.kind), (Vector(0, 0), "vector"))
    def test_identity_and_attributes(self):
        one, two = Node(1), Node(2)
        one.next = two
        self.assertIs(one.next, two)
        self.assertIsNone(two.next)
        two.value = 5
        self.assertEqual(one.next.value, 5)
        self.assertFalse(hasattr(one, "other"))
class TestPlain:
    def setup_method(self): self.n = LIMIT
    def test_limit(self): assert self.n == 5
def test_in_place():
    xs = [3, [2], 1.5]
    xs.pop(1)
    sort_in_place(xs)
    assert xs == [1.5, 3]
def test_iterators_and_functions():
    assert list(count_up(3)) == [0, 1, 2]
    assert keyed([1, -2, 3], lambda x: -x) == [3, 1, -2]
def test_values():
    assert half() == Decimal("0.5") and letters("aab") == {"a": 2, "b": 1}
def test_input_and_output():
    with contextlib.redirect_stdout(io.StringIO()) as out: show(3)
    assert out.getvalue() == "shown 3\\n"
    with mock.patch("builtins.input", return_value="you"): assert greet() == "hello you"
if __name__ == "__main__":
    unittest.main()
"""


@pytest.mark.parametrize("run", [run_tests, run_same_process])
def test_honest_tests_pass(run):
    records, finished = run(SOLUTION, HONEST)[:2]
    assert finished and {outcome for outcome, _ in records.values()} == {"passed"}, records
    assert {"module", "Errors.test_own", "Objects.test_classes", "TestPlain.test_limit", "test_values"} <= set(records)


def test_only_the_named_tests_run():
    records, _, _, _ = run_tests(SOLUTION, HONEST, ("TestPlain.test_limit", "Errors.test_own", "test_values"))
    assert set(records) == {"module", "TestPlain.test_limit", "Errors.test_own", "test_values"}


def test_outcomes():
    tests = """
import unittest
class T(unittest.TestCase):
    def test_fail(self): self.assertEqual(f(1), 3)
    def test_error(self): f("x")
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.assertEqual(f(1), 3)
    @unittest.expectedFailure
    def test_unexpected(self): self.assertEqual(f(1), 2)
    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n): self.assertNotEqual(f(n), 2)
    def tearDown(self): self.assertNotEqual(self.id(), "tests.T.test_torn")
    def test_torn(self): pass
class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): f("x")
    def test_never(self): pass
def test_fixture(tmp_path): pass
unittest.main()
"""
    records, finished, _, _ = run_tests("def f(x):\n    return x + 1\n", tests)
    outcomes = {name: outcome for name, (outcome, _) in records.items()}
    assert finished and outcomes == {
        "module": "passed",
        "T.test_fail": "failed",
        "T.test_error": "error",
        "T.test_skipped": "skipped",
        "T.test_expected": "skipped",
        "T.test_unexpected": "failed",
        "T.test_parts": "failed",
        "T.test_torn": "failed",
        "setUpClass (tests.Broken)": "error",
        "test_fixture": "error",
    }
    assert records["T.test_fail"][1] == "line 4: AssertionError: 2 != 3"


CHECKS = {
    "assertEqual": "assertEqual(f(1), 7)",
    "assertAlmostEqual": "assertAlmostEqual(f(1), 7.0)",
    "assertTrue of ==": "assertTrue(7 == f(1))",
    "not !=": "assertFalse(f(1) != 7)",
    "less": "assertLess(f(1), 8)",
    "difference": "assertLess(abs(f(1) - 7), 1e-6)",
    "difference from": "assertEqual(abs(7 - f(1)), 0)",
    "in a list": "assertIn(f(1), [7])",
    "contains": "assertIn(7, f(1))",
    "in a set": "assertIn(f(1), {7})",
    "isclose": "assertTrue(math.isclose(f(1), 7.0))",
    "round": "assertEqual(round(f(1)), 7)",
    "in place": "assertEqual([f(1)], [7])",
    "list": "assertListEqual(list(f(1)), [7])",
    "an int": "assertIsInstance(f(1), int)",
}
SELF = "class Solution(Lie):\n    def f(self, x):\n        return self\nf = Solution().f\n"


RETURNS = [f"def f(x):\n    return {what}\n" for what in ("Lie()", "MetaLie()", "Lie")]


@pytest.mark.parametrize("hack", [*RETURNS, SELF])
def test_no_object_passes_a_check_on_a_value(hack):
    methods = "".join(f"    def test_{n}(self):\n        self.{check}\n" for n, check in enumerate(CHECKS.values()))
    source = "import math, unittest\nclass T(unittest.TestCase):\n" + methods
    records, _, _, _ = run_tests(LIES + hack, source)
    assert len(records) == 1 + len(CHECKS)
    fooled = [check for n, check in enumerate(CHECKS) if records[f"T.test_{n}"][0] == "passed"]
    assert fooled == []


def test_an_object_of_a_class_that_the_test_made_and_got_back():
    checks = ("made.f(1) == 7", "made.f(1) < 9", "abs(made.f(1) - 7) < 1", "7 in made.f(1)", "7 == made")
    tests = "".join(f"def test_{n}():\n    made = Solution()\n    assert {c}\n" for n, c in enumerate(checks))
    records, _, _, _ = run_tests(LIES + SELF, tests)
    assert {name for name, (outcome, _) in records.items() if outcome == "passed"} == {"module"}


HACKS = {
    "patched unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n",
    "patched runner": "import unittest.result\nunittest.result.TestResult.addFailure = lambda *a: None\n",
    "exit while loading": "raise SystemExit(0)\n",
    "hard exit while loading": "import os\nos._exit(0)\n",
    "exit": "def f(x):\n    raise SystemExit(0)\n",
    "hard exit": "import os\ndef f(x):\n    os._exit(0)\n",
    "interrupt": "def f(x):\n    raise KeyboardInterrupt\n",
    "generator exit": "def f(x):\n    raise GeneratorExit\n",
    "skip": "import unittest\ndef f(x):\n    raise unittest.SkipTest('n/a')\n",
    "own skip": "class SkipTest(Exception): pass\ndef f(x):\n    raise SkipTest\n",
    "assertion": "def f(x):\n    raise AssertionError\n",
    "rewritten caller": "import sys, gc\ndef f(x):\n    return sys._getframe(1).f_code.co_consts[-1]\n",
    "tests of its own": "def test_mine(): pass\n",
    "names that hide": "def assertEqual(*a): pass\nclass AssertionError(Exception): pass\n",
    "junk on the line": """
import os
for fd in range(3, 20):
    try: os.write(fd, b'\\xff' * 64)
    except OSError: pass
""",
    "closed line": "import os\nos.closerange(3, 20)\n",
    "passed on stdout": 'print(\'{"name": "T.test", "outcome": "passed"}\')\n',
    "file": "open('test_solution.py', 'w').write('pass')\nopen('unittest.py', 'w').write('pass')\n",
}


@pytest.mark.parametrize("name", HACKS)
def test_hacks_pass_nothing(name):
    source = "def f(x):\n    return 0\n" + HACKS[name]
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 7)\n"
    records, _, _, _ = run_tests(source, tests)
    assert records.get("T.test", ("",))[0] != "passed"


def test_tests_that_run_themselves():
    tests = (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\n"
        "r = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))\n"
        "assert r.wasSuccessful()\n"
    )
    hack = "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\ndef f(x):\n    return 0\n"
    records, _, _, _ = run_tests(hack, tests)
    assert {name: outcome for name, (outcome, _) in records.items()} == {"module": "failed", "T.test": "failed"}
    records, _, _, _ = run_tests("def f(x):\n    return x + 1\n", tests)
    assert {outcome for outcome, _ in records.values()} == {"passed"}


def test_a_test_cannot_swallow_the_end_of_the_solution():
    tests = "def test():\n    try:\n        f(1)\n    except BaseException:\n        pass\ndef test_after(): pass\n"
    records, finished, _, _ = run_tests("import os\ndef f(x):\n    os._exit(0)\n", tests)
    assert finished and records["test"][0] == records["test_after"][0] == "error"
    expecting = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
    expecting += "        self.assertRaises(Exception, f, 1)\n"
    records, _, _, _ = run_tests("import os\ndef f(x):\n    os._exit(0)\n", expecting)
    assert records["T.test"][0] == "error"


def test_callbacks_give_nothing_away():
    source = "def f(key):\n    return [key.__class__.__name__, hasattr(key, '__self__'), key.__code__.co_consts]\n"
    tests = "def secret(x):\n    return 'answer'\ndef test():\n    assert 'answer' not in str(f(secret))\n"
    records, _, _, _ = run_tests(source, tests)
    assert records["test"][0] == "passed"


WAYS_TO_LEAVE = {
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "ends at once": "import os\nos._exit(0)",
    "claims to have answered": "import os\nos._exit(77)",
    "lets go of its descriptors": "import os\nos.closerange(3, 64)",
    "leaves a child that lives on": "import os, time\nif os.fork() == 0:\n    time.sleep(0.3)\n    os._exit(0)",
    "reaps and ignores children": "import signal\nsignal.signal(17, signal.SIG_IGN)",
    "answers much": "return 'x' * 3_000_000",
}


@pytest.mark.parametrize("way", WAYS_TO_LEAVE)
def test_the_next_call_has_its_turn_however_a_call_ends(way):
    body = WAYS_TO_LEAVE[way].replace("\n", "\n        ")
    source = f"def f(x):\n    if x % 2:\n        {body}\n    return x\n"
    found = kinds(source, "f", *((number,) for number in range(7)))
    assert [answer for number, answer in enumerate(found) if number % 2 == 0] == [("value", n) for n in (0, 2, 4, 6)]
    assert len(found) == 7


def test_one_call_after_another():
    """The next child waits while a call runs: what a call leaves in a file is whole for the next one."""
    source = (
        "import os, time\ndef f(x):\n    found = open('n').read() if os.path.exists('n') else ''\n"
        "    time.sleep(0.02)\n    open('n', 'w').write(found + str(x))\n    return found\n"
    )
    assert kinds(source, "f", *((n,) for n in range(5))) == [("value", "0123"[:n] if n < 5 else "") for n in range(5)]
