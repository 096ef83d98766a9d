"""Sandbox servers as real processes, and the client over them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.core.errors import ConfigError, DataError
from strop.core.programs import Call, Limits, Program
from strop.sandbox.client import RemoteSandbox
from strop.sandbox.jail import LocalSandbox
from strop.testing import check_sandbox

SERVER = Path(__file__).with_name("plain_server.py")
LIMITS = Limits(cpu_s=10)


@dataclass
class Server:
    process: subprocess.Popen
    url: str

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30), self.process.stdout.read()


def launch(*arguments):
    command = [sys.executable, str(SERVER), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def start():
    """Starts servers that listen when this returns; all are ended with the test."""
    servers = []

    def start(*arguments):
        process = launch(*arguments)
        servers.append(Server(process, process.stdout.readline().strip()))
        assert servers[-1].url, process.stderr.read()
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.communicate()


def bash(source, **changes):
    return Program(language="bash", source=source, **changes)


def body(key="k", **program):
    return {"key": key, "program": {"language": "bash", "source": "echo hi", **program}, "limits": {"cpu_s": 5}}


async def until(true, seconds=10):
    end = time.monotonic() + seconds
    while not await true():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.02)


async def test_the_three_calls_answer_as_the_sandbox_behind_them(start):
    async with RemoteSandbox([start().url]) as sandbox:
        program = Program(
            language="python", source="import sys; sys.stdout.write(sys.stdin.read()[::-1])", stdin=b"abc"
        )
        execution = await sandbox.run(program, LIMITS)
        assert (execution.status, execution.stdout, execution.exit_code) == ("ok", b"cba", 0)
        execution = await sandbox.run(bash("printf '\\377'; exit 3"), LIMITS)
        assert (execution.status, execution.stdout, execution.exit_code) == ("runtime_error", b"\xff", 3)
        source = Program(language="python", source="def pair(a, b=1): return (a, [b])")
        calls = [Call(args=(1,)), Call(args=("x",), kwargs={"b": 2})]
        called = await sandbox.call(source, "pair", calls, LIMITS)
        assert [answer.value for answer in called.answers] == [(1, [1]), ("x", [2])]
        tested = await sandbox.test(source, "assert pair(1) == (1, [1])", ["one"], LIMITS)
        assert tested.finished and [(r.name, r.outcome) for r in tested.records] == [("one", "passed")]
        execution = await sandbox.run(bash("sleep 9"), Limits(cpu_s=0.1, wall_s=0.3))
        assert (execution.status, execution.limit) == ("time_limit", "wall")


async def test_the_local_sandbox_answers_the_same_through_a_server(start):
    python = [
        Program(language="python", source=source, stdin=b"in", args=("a",), files={"f": b"\xff"}, fetch=("out",))
        for source in (
            "import sys; print(sys.stdin.read(), sys.argv[1]); open('out', 'wb').write(open('f', 'rb').read())",
            "print(1/0)",
            "print('\ud800')",
            "while True: pass",
            "import sys; sys.stdout.write('x' * 3_000_000)",
        )
    ]
    source = Program(language="python", source="def f(x): return {x: (1, [b'y', 2.5, 10**30, {3}])}")
    calls, limits = [Call(args=(1,)), Call(args=([],)), Call(kwargs={"x": "\ud800"})], Limits(cpu_s=0.5)

    def seen(execution):
        return (
            execution.status,
            execution.exit_code,
            execution.signal,
            execution.stdout,
            execution.limit,
            execution.files,
        )

    async with LocalSandbox() as local, RemoteSandbox([start("--jail").url]) as remote:
        assert remote.tier == local.tier
        await check_sandbox(remote)
        for program in python:
            assert seen(await remote.run(program, limits)) == seen(await local.run(program, limits))
        here, there = [await sandbox.call(source, "f", calls, limits) for sandbox in (local, remote)]
        assert [answer.kind for answer in there.answers] == ["value", "error", "value"]
        assert there.answers == here.answers and seen(there.execution) == seen(here.execution)
        tests = "import unittest\nclass T(unittest.TestCase):\n def test_a(self): assert f(1)[1][0] == 1\n"
        here, there = [await sandbox.test(source, tests, [], limits) for sandbox in (local, remote)]
        assert (there.records, there.finished) == (here.records, True)
        assert there.records[-1].name == "T.test_a"
        for sandbox in (local, remote):
            with pytest.raises(DataError, match="no language is called 'cobol'"):
                await sandbox.run(Program(language="cobol", source=""), limits)


async def test_no_job_is_lost_or_doubled_when_a_server_dies(start):
    doomed, other = start("--jail", "--capacity", 3), start("--jail", "--capacity", 3)
    finished = 0

    async def one(sandbox, number):
        nonlocal finished
        execution = await sandbox.run(Program(language="python", source=f"print({number})"), LIMITS)
        finished += 1
        if finished == 100:
            doomed.process.send_signal(signal.SIGKILL)
        return execution

    async with RemoteSandbox([doomed.url, other.url]) as sandbox:
        done = await asyncio.gather(*(one(sandbox, number) for number in range(512)))
    assert finished == 512
    assert [execution.stdout for execution in done] == [b"%d\n" % number for number in range(512)]
    assert {execution.status for execution in done} == {"ok"}


async def test_a_server_that_hangs_loses_its_jobs_to_another(start):
    hanging, other = start(), start()
    async with RemoteSandbox([hanging.url, other.url], health_s=0.2, probe_s=0.5) as sandbox:
        jobs = [asyncio.create_task(sandbox.run(bash("sleep 0.5; echo done"), LIMITS)) for _ in range(8)]
        await asyncio.sleep(0.2)
        hanging.process.send_signal(signal.SIGSTOP)
        done = await asyncio.wait_for(asyncio.gather(*jobs), 20)
    assert [execution.stdout for execution in done] == [b"done\n"] * 8


async def test_no_server_is_an_infra_error_and_a_new_one_is_found(start):
    server = start()
    async with RemoteSandbox([server.url], patience_s=1, health_s=0.2) as sandbox:
        assert (await sandbox.run(bash("echo 1"), LIMITS)).status == "ok"
        server.process.kill()
        server.process.wait()
        began = time.monotonic()
        called = await sandbox.call(bash(""), "f", [Call()], LIMITS)
        assert called.execution.status == "infra_error" and server.url in called.execution.detail
        tested = await sandbox.test(bash(""), "", [], LIMITS)
        assert {tested.tester.status, tested.solution.status} == {"infra_error"}
        assert 0.5 < time.monotonic() - began < 6

        start("--port", server.url.rpartition(":")[2])

        async def answers():
            return (await sandbox.run(bash("echo 2"), LIMITS)).stdout == b"2\n"

        await until(answers)


async def test_jobs_wait_for_a_server_that_is_not_up_yet(start):
    first = start()
    port = first.url.rpartition(":")[2]
    first.end()
    async with RemoteSandbox([first.url], patience_s=30) as sandbox:
        job = asyncio.create_task(sandbox.run(bash("echo late"), LIMITS))
        await asyncio.sleep(0.3)
        start("--port", port)
        assert (await asyncio.wait_for(job, 20)).stdout == b"late\n"


async def test_a_fault_of_the_sandbox_is_tried_again_and_then_told(start):
    server = start()
    async with RemoteSandbox([server.url]) as sandbox:
        execution = await sandbox.run(Program(language="broken", source=""), LIMITS)
        assert execution.status == "infra_error"
        assert execution.detail == "OSError: no space left for the jail none at all"
        with pytest.raises(DataError, match="unknown language 'cobol'; known are bash, echo, python"):
            await sandbox.run(Program(language="cobol", source=""), LIMITS)
        assert (await sandbox.run(bash("echo 1"), LIMITS)).status == "ok"
        text = (await asyncio.to_thread(httpx2.get, f"{server.url}/metrics")).text
    assert 'strop_sandbox_jobs_total{path="/run",status="infra_error"} 4\n' in text
    assert 'strop_sandbox_jobs_total{path="/run",status="ok"} 1\n' in text
    assert 'strop_sandbox_refused_total{code="400"} 1\n' in text
    assert 'strop_sandbox_job_seconds_bucket{le="+Inf"} 5\n' in text and "strop_sandbox_running 0\n" in text


async def test_a_small_domain_is_not_starved(start):
    order = []

    async def one(sandbox, name):
        await sandbox.run(bash("sleep 0.01"), LIMITS)
        order.append(name)

    async with RemoteSandbox([start("--capacity", 1).url]) as sandbox:
        large = [asyncio.create_task(one(sandbox.for_domain("large"), "large")) for _ in range(60)]
        await asyncio.sleep(0.1)
        await asyncio.gather(*(one(sandbox.for_domain("small"), "small") for _ in range(5)))
        at = len(order)
        await asyncio.gather(*large)
    assert order.count("small") == 5 and len(order) == 65
    assert at < 35, "five jobs waited for more than their turn among sixty"


async def test_the_least_loaded_server_is_chosen(start):
    small, large = start("--capacity", 1), start("--capacity", 3)
    async with RemoteSandbox([small.url, large.url]) as sandbox, httpx2.AsyncClient() as http:
        jobs = [asyncio.create_task(sandbox.run(bash("sleep 30"), LIMITS)) for _ in range(4)]

        async def spread():
            healths = [(await http.get(f"{server.url}/health")).json() for server in (small, large)]
            return [(health["running"], health["waiting"]) for health in healths] == [(1, 0), (3, 0)]

        await until(spread)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


def test_beyond_loopback_a_token_is_required(start):
    process = launch("--host", "0.0.0.0")
    out, err = process.communicate(timeout=30)
    assert process.returncode != 0 and out == ""
    assert err.strip() == "listening on '0.0.0.0' is open to other machines: give a token, or use 127.0.0.1"
    taken = start().url.rpartition(":")[2]
    process = launch("--port", taken)
    assert f"cannot listen on 127.0.0.1:{taken}: Address already in use" in process.communicate(timeout=30)[1]
    server = start("--host", "0.0.0.0", "--token", "s3cret")
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    for headers in ({}, {"Authorization": "Bearer s3cre"}, {"Authorization": "s3cret"}):
        for path in ("/health", "/metrics", "/run", "/none"):
            assert httpx2.get(url + path, headers=headers).status_code == 401
    assert httpx2.get(f"{url}/health", headers={"Authorization": "Bearer s3cret"}).json()["tier"] == "unsafe"

    async def with_token(token):
        async with RemoteSandbox([url], token=token) as sandbox:
            return await sandbox.run(bash("echo 1"), LIMITS)

    assert asyncio.run(with_token("s3cret")).stdout == b"1\n"
    for wrong in ("other", None):
        with pytest.raises(ConfigError, match="token"):
            asyncio.run(with_token(wrong))


@pytest.mark.parametrize("size", [1 << 20, 3 << 20])
async def test_a_body_too_large_is_413(start, size):
    url = start("--max-body-bytes", 1 << 20).url
    async with httpx2.AsyncClient() as http:
        answer = await http.post(f"{url}/run", json=body(source="#" * size))
        assert answer.status_code == 413 and "1048576 bytes" in answer.json()["error"]

        async def pieces():
            for _ in range(size // 1000 + 1):
                yield b" " * 1000

        headers = {"Content-Type": "application/json"}
        assert (await http.post(f"{url}/run", content=pieces(), headers=headers)).status_code == 413
        assert (await http.post(f"{url}/run", json=body())).status_code == 200
    async with RemoteSandbox([url]) as sandbox:
        with pytest.raises(DataError, match="max_body_bytes"):
            await sandbox.run(bash("#" * size), LIMITS)


async def test_a_full_queue_is_429_and_clients_recover(start):
    url = start("--capacity", 1, "--max-queue", 1).url
    async with httpx2.AsyncClient(timeout=30) as http:
        sent = [http.post(f"{url}/run", json=body(key=f"{i}", source="sleep 0.5; echo ok")) for i in range(6)]
        answers = await asyncio.gather(*sent)
        assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429, 429]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers["retry-after"] == "1" and "waiting" in refused.json()["error"]
    async with RemoteSandbox([url]) as one, RemoteSandbox([url]) as two:
        jobs = [sandbox.run(bash(f"sleep 0.05; echo {i}"), LIMITS) for i in range(5) for sandbox in (one, two)]
        done = await asyncio.gather(*jobs)
    assert [execution.stdout for execution in done] == [b"%d\n" % i for i in range(5) for _ in range(2)]


async def test_an_answer_is_not_held_back_by_the_network_stack(start):
    async with httpx2.AsyncClient() as http:
        url, seconds = start().url, []
        for _ in range(30):
            began = time.monotonic()
            await http.get(f"{url}/health")
            seconds.append(time.monotonic() - began)
    assert statistics.median(seconds) < 0.03, "Nagle's algorithm and delayed acknowledgements take 40 ms"


async def test_one_key_is_one_job(start, tmp_path):
    url = start("--capacity", 4).url
    source = f"sleep 0.3; echo ran >> {tmp_path}/log; echo ok"
    async with httpx2.AsyncClient(timeout=30) as http:
        sent = [http.post(f"{url}/run", json=body(key="same", source=source)) for _ in range(4)]
        answers = await asyncio.gather(*sent)
        answers.append(await http.post(f"{url}/run", json=body(key="same", source=source)))
        assert {answer.status_code for answer in answers} == {200} and len({answer.text for answer in answers}) == 1
        assert (tmp_path / "log").read_text() == "ran\n"
        other = await http.post(f"{url}/run", json=body(key="same", source="echo other"))
        assert other.status_code == 409 and "same" in other.json()["error"]


async def test_a_client_that_leaves_cancels_its_job(start, tmp_path):
    url = start("--capacity", 1).url
    async with RemoteSandbox([url]) as sandbox, httpx2.AsyncClient() as http:

        async def running(number):
            return (await http.get(f"{url}/health")).json()["running"] == number

        job = asyncio.create_task(sandbox.run(bash(f"sleep 2; touch {tmp_path}/ran"), LIMITS))
        await until(lambda: running(1))
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        await until(lambda: running(0), 1)
        assert (await sandbox.run(bash("sleep 2; echo next"), LIMITS)).stdout == b"next\n"
    assert not (tmp_path / "ran").exists()


async def test_jobs_left_at_any_moment_leave_room_for_others(start):
    async with RemoteSandbox([start("--capacity", 2).url]) as sandbox:
        for steps in range(12):  # from before the request is made to while it is on its way
            jobs = [asyncio.create_task(sandbox.run(bash("sleep 5"), LIMITS)) for _ in range(6)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
        execution = await asyncio.wait_for(sandbox.run(bash("echo room"), LIMITS), 10)
    assert execution.stdout == b"room\n"


@pytest.mark.parametrize("urls", [[], ["127.0.0.1:8700"], ["http://a:b"]])
def test_a_wrong_address_is_one_line(urls):
    with pytest.raises(ConfigError, match="URL"):
        RemoteSandbox(urls)


async def test_a_server_told_to_stop_finishes_what_runs(start):
    server = start()
    async with httpx2.AsyncClient(timeout=30) as http:
        job = asyncio.create_task(http.post(f"{server.url}/run", json=body(source="sleep 1; echo whole")))
        await asyncio.sleep(0.4)
        ended = asyncio.create_task(asyncio.to_thread(server.end))
        assert (await job).status_code == 200
        assert await ended == (0, "closed\n")


@pytest.fixture(scope="module")
def fuzzed():
    process = launch("--max-body-bytes", 10_000)
    with httpx2.Client(base_url=process.stdout.readline().strip(), timeout=30) as http:
        yield http
    process.kill()
    process.communicate()


FIELDS = ["key", "program", "limits", "language", "source", "stdin", "files", "calls", "tests", "args", "cpu_s", "x"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("AAAA"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=20,
)


@st.composite
def nearly_right(draw):
    """A right body of one of the paths with one field of it replaced."""
    whole = body(key=draw(st.text(max_size=3)), language="echo")  # a command that no argument can turn against us
    whole |= draw(st.sampled_from([{}, {"entry_point": "f", "calls": []}, {"tests": "", "names": []}]))
    part = whole[draw(st.sampled_from(["program", "limits"]))] if draw(st.booleans()) else whole
    part[draw(st.sampled_from(FIELDS))] = draw(VALUES)
    return json.dumps(whole).encode()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/run", "/call", "/test"]),
    st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()) | nearly_right(),
)
def test_no_body_is_an_error_of_the_server(fuzzed, path, content):
    answer = fuzzed.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 409), answer.text
    if answer.status_code != 200:
        assert list(answer.json()) == ["error"] and "\n" not in answer.json()["error"]


def test_what_is_not_http_or_not_said_to_be_json_is_refused(fuzzed):
    assert fuzzed.post("/run", content=json.dumps(body()), headers={"Content-Type": "text/plain"}).status_code == 415
    assert fuzzed.get("/run").status_code == 405 and fuzzed.post("/nothing").status_code == 404
    address = (fuzzed.base_url.host, fuzzed.base_url.port)
    for raw in (
        b"\x00" * 100,
        b"POST /run HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        os.urandom(2000),
    ):
        with contextlib.suppress(ConnectionError), socket.create_connection(address, 5) as connection:
            connection.sendall(raw + b"\r\n\r\n")
            assert b" 500 " not in connection.recv(4096)
    assert fuzzed.get("/health").status_code == 200
