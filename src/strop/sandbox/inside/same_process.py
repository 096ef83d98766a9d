"""Mode `same_process`: solution and tests in one process. Weak: the program can change the tests and the records.

`code` is the solution's; the tests come in fds["input"].
"""

import os
import sys

from loading import describe, load, show
from units import Recorder, run_tests


def run(job, code, fds):
    """Load the program, run the tests beside it and write their records; returns the exit status of the job."""
    recorder = Recorder(fds["answers"])
    with os.fdopen(fds["input"], encoding="utf-8") as file:
        tests = compile(file.read(), "tests.py", "exec")
    try:
        module = load(code)
    except BaseException as error:
        show(error)
        recorder.write("solution", "error", describe(error))
        recorder.finish()
        return 1
    names = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    run_tests(tests, names, job["names"], recorder)
    recorder.finish()
    sys.stdout.flush()
    return 0
