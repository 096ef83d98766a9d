"""Mode `tester`: the test source in a job of its own, against a solution it can only send plain data to."""

import sys

import proxies
from link import Ended
from units import Recorder, run_tests


def run(job, code, fds):
    """Run the tests and write a record of each to fds["answers"]; returns the exit status of the job."""
    solution = proxies.Solution(fds["channel"])
    recorder = Recorder(fds["answers"], broken=lambda: solution.link.ended)
    try:
        module = solution.module()
    except Ended as error:
        recorder.write("solution", "error", str(error))
    else:
        run_tests(code, vars(module), job["names"], recorder)
    recorder.finish()
    sys.stdout.flush()
    return 0
