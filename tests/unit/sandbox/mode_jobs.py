"""Runs the modes of the jail without the jail: each job a plain process of this interpreter, its descriptors set up."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from strop.sandbox.answers import read_answers, read_records
from strop.sandbox.inside.plain import encode

INSIDE = Path(__file__).parents[3] / "src" / "strop" / "sandbox" / "inside"
START = """
import json, sys
sys.path.insert(0, sys.argv[1])
import calls, same_process, solution, tester
modes = {m.__name__: m for m in (calls, same_process, solution, tester)}
sys.path.pop(0)
for name in ("plain", "link", "loading", "proxies", "units", *modes):
    sys.modules.pop(name, None)
mode, job, source, fds = sys.argv[2], *map(json.loads, sys.argv[3:6])
code = compile(source, mode + "_source.py", "exec")
sys.exit(modes[mode].run(job, code, fds))
"""


def start(mode, job, source, fds):
    argv = [sys.executable, "-I", "-S", "-c", START, str(INSIDE), mode, *map(json.dumps, (job, source, fds))]
    return subprocess.Popen(
        argv,
        pass_fds=tuple(fds.values()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tempfile.mkdtemp(),
    )


def memory_file(content=b""):
    descriptor = os.memfd_create("job")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def content_of(descriptor):
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    os.close(descriptor)
    return data


def run_calls(source, entry_point, *calls):
    """(how the loading went, answers, exit status, stderr); a call is a tuple of arguments."""
    given, answers = memory_file(encode([[list(args), {}] for args in calls])), memory_file()
    job = start("calls", {"entry_point": entry_point}, source, {"input": given, "answers": answers})
    _, stderr = job.communicate(timeout=20)
    os.close(given)
    return *read_answers(content_of(answers), len(calls)), job.returncode, stderr.decode()


def run_tests(source, tests, names=()):
    """(records by name as (outcome, detail), finished, exit status of the solution, stdout of the tester)."""
    ours, theirs = socket.socketpair()
    answers = memory_file()
    tester = start("tester", {"names": names}, tests, {"answers": answers, "channel": ours.fileno()})
    solution = start("solution", {}, source, {"channel": theirs.fileno()})
    ours.close()
    theirs.close()
    stdout, stderr = tester.communicate(timeout=20)
    assert tester.returncode == 0, stderr.decode()
    solution.communicate(timeout=20)
    records, finished = read_records(content_of(answers))
    assert len({record.name for record in records}) == len(records)
    return {r.name: (r.outcome, r.detail) for r in records}, finished, solution.returncode, stdout.decode()


def run_same_process(source, tests, names=()):
    given, answers = memory_file(tests.encode()), memory_file()
    job = start("same_process", {"names": names}, source, {"input": given, "answers": answers})
    job.communicate(timeout=20)
    os.close(given)
    records, finished = read_records(content_of(answers))
    return {r.name: (r.outcome, r.detail) for r in records}, finished
