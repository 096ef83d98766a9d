"""Finds the tests in test source, runs them, and records each: asserts, test functions, test classes, unittest.

Frames on the answers pipe: `<II` index and length, then JSON; index FINISHED says that nothing is missing.
"""

import inspect
import json
import os
import struct
import sys
import types

from loading import describe, offer_typing, show

FINISHED = 0xFFFFFFFF
MODULE = "module"  # the name of the record of what stands outside any test
_HEADER = struct.Struct("<II")


class Recorder:
    """Writes the records. Once `broken()`, no test can have passed, whatever it caught."""

    def __init__(self, fd, broken=lambda: False):
        self.fd = fd
        self.broken = broken
        self.count = 0

    def write(self, name, outcome, detail=""):
        if outcome != "error" and self.broken():
            outcome, detail = "error", "the solution ended before it answered"
        text = json.dumps({"name": name, "outcome": outcome, "detail": detail[:500]})
        self._frame(self.count, text.encode())
        self.count += 1

    def finish(self):
        self._frame(FINISHED, b"{}")

    def _frame(self, index, payload):
        data = _HEADER.pack(index, len(payload)) + payload
        while data:
            data = data[os.write(self.fd, data) :]

    def check(self, name, test):
        """Run one function and record how it went."""
        try:
            test()
        except BaseException as error:
            self.write(name, *outcome_of(error))
        else:
            self.write(name, "passed")


def outcome_of(error):
    if type(error).__name__ in ("SkipTest", "Skipped"):
        return "skipped", describe(error)
    show(error)
    if isinstance(error, AssertionError):
        return "failed", _assertion(error)
    return "error", describe(error)


def _assertion(error):
    """With the line of the tests that failed, not that of the library which says so."""
    number, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "tests":
            number = trace.tb_lineno
        trace = trace.tb_next
    return describe(error) if number is None else f"line {number}: {describe(error)}"


def run_tests(code, names, wanted, recorder):
    """Run the module, then its tests, or of them those `wanted`. `names` are in scope of the tests."""
    module = types.ModuleType("tests")
    vars(module).update(names)
    module.__name__ = "tests"
    module.__file__ = code.co_filename
    sys.modules["tests"] = module
    offer_typing(code, vars(module))
    unittest = _unittest()
    recorder.check(MODULE, lambda: exec(code, vars(module)))
    for name, value in list(vars(module).items()):
        if names.get(name) is value and name in names:
            continue
        if isinstance(value, types.FunctionType) and name.startswith("test"):
            if not wanted or name in wanted:
                recorder.check(name, value)
        elif isinstance(value, type) and issubclass(value, unittest.TestCase):
            if value.__module__ == "tests":
                _run_case(unittest, value, wanted, recorder)
        elif isinstance(value, type) and name.startswith("Test") and value.__module__ == "tests":
            _run_class(value, wanted, recorder)


def _unittest():
    """unittest without its `main`: tests that call it below are run by us, and it would end the process."""
    import unittest

    unittest.main = lambda *args, **kwargs: None
    return unittest


def _run_case(unittest, case, wanted, recorder):
    loader = unittest.TestLoader()
    names = [n for n in loader.getTestCaseNames(case) if not wanted or f"{case.__name__}.{n}" in wanted]
    suite = unittest.TestSuite(case(name) for name in names)
    try:
        suite.run(_result_class(unittest)(recorder))
    except BaseException as error:
        recorder.write(case.__name__, *outcome_of(error))


def _result_class(unittest):
    class Result(unittest.TestResult):
        """Records a test when it ends: any failure of a part of it came before and counts."""

        def __init__(self, recorder):
            super().__init__()
            self.recorder = recorder
            self.outcome = None

        def startTest(self, test):
            super().startTest(test)
            self.outcome = None

        def stopTest(self, test):
            super().stopTest(test)
            self.recorder.write(_name(test), *(self.outcome or ("error", "the test did not end")))

        def note(self, test, outcome):
            if not isinstance(test, unittest.TestCase):  # set-up or tear-down of a class or module
                self.recorder.write(str(test), *outcome)
            elif self.outcome is None or self.outcome[0] in ("passed", "skipped"):
                self.outcome = outcome

        def addSuccess(self, test):
            if self.outcome is None:
                self.outcome = ("passed", "")

        def addError(self, test, err):
            self.note(test, outcome_of(err[1]))

        addFailure = addError

        def addSkip(self, test, reason):
            self.note(test, ("skipped", str(reason)))

        def addExpectedFailure(self, test, err):
            self.note(test, ("skipped", "failed as the test expects"))

        def addUnexpectedSuccess(self, test):
            self.note(test, ("failed", "passed although the test expects a failure"))

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.note(test, outcome_of(err[1]))

    return Result


def _name(test):
    return f"{type(test).__name__}.{test._testMethodName}"


def _run_class(kind, wanted, recorder):
    """A plain class of tests: a new object for each, with setup_method and teardown_method around it."""
    for name, _ in inspect.getmembers(kind, callable):
        if not name.startswith("test") or (wanted and f"{kind.__name__}.{name}" not in wanted):
            continue

        def test(name=name):
            one = kind()
            for step in ("setup_method", name, "teardown_method"):
                if hasattr(one, step):
                    getattr(one, step)()

        recorder.check(f"{kind.__name__}.{name}", test)
