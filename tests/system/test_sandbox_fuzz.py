"""Whatever bytes a job writes, wherever it can write them, the supervisor has one well-formed outcome and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.core.errors import ConfigError, DataError
from strop.core.programs import Call, FunctionCase, Limits, Problem, Program
from strop.sandbox.grading import SandboxGrader
from strop.sandbox.jail import LocalSandbox

LIMITS = Limits(cpu_s=1.0, memory_bytes=256 << 20)
FRAMES = st.builds(
    lambda index, length, payload: index.to_bytes(4, "little") + length.to_bytes(4, "little") + payload,
    st.integers(0, 2**32 - 1) | st.integers(0, 3),
    st.integers(0, 2**32 - 1) | st.integers(0, 40),
    st.binary(max_size=40) | st.sampled_from([b'{"kind":"value","value":4}', b'{"kind":"value"}', b"[[[[", b"null"]),
)
NOISE = st.binary(max_size=300) | st.lists(FRAMES, max_size=4).map(b"".join)
EVERYWHERE = """
import os
noise = {noise!r}
def shout():
    for descriptor in range(1, 40):
        try:
            os.write(descriptor, noise)
        except OSError:
            pass
{when}
def double(x):
    {inside}
    return 2 * x + 1
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    made = LocalSandbox()
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


def fuzz(examples: int):  # type: ignore[no-untyped-def]
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples, deadline=None, suppress_health_check=quiet)


@fuzz(60)
@given(output=st.binary(max_size=2000), errors=st.binary(max_size=2000), status=st.integers(0, 255))
def test_output_arrives_byte_for_byte(sandbox: LocalSandbox, output: bytes, errors: bytes, status: int) -> None:
    source = f"import os\nos.write(1, {output!r})\nos.write(2, {errors!r})\nos._exit({status})"

    async def run() -> None:
        execution = await sandbox.run(Program(language="python", source=source), LIMITS)
        assert (execution.stdout, execution.stderr, execution.exit_code) == (output, errors, status)
        assert execution.status == ("ok" if status == 0 else "runtime_error")

    asyncio.run(run())


@fuzz(60)
@given(noise=NOISE, loading=st.booleans(), calling=st.booleans())
def test_a_wrong_function_never_passes(sandbox: LocalSandbox, noise: bytes, loading: bool, calling: bool) -> None:
    source = EVERYWHERE.format(noise=noise, when="shout()" if loading else "", inside="shout()" if calling else "pass")
    cases = tuple(FunctionCase(call=Call(args=(x,)), expected=2 * x) for x in (2, 5))

    async def run() -> None:
        problem = Problem(entry_point="double", cases=cases, limits=LIMITS)
        verdict = await SandboxGrader(sandbox).grade(problem, source)
        assert verdict.verdict not in ("passed", "infra_error"), verdict
        after = await sandbox.call(
            Program(language="python", source="def f(x): return x"), "f", [Call(args=(noise,))], LIMITS
        )
        assert after.answers[0].value == noise

    asyncio.run(run())


@fuzz(60)
@given(source=st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
def test_any_text_as_a_program_has_an_outcome(sandbox: LocalSandbox, source: str) -> None:
    async def run() -> None:
        execution = await sandbox.run(Program(language="python", source=source), LIMITS)
        assert execution.status in ("ok", "runtime_error", "compile_error")

    asyncio.run(run())


async def test_arguments_that_are_no_plain_data_are_one_line(sandbox: LocalSandbox) -> None:
    await sandbox.start()
    program = Program(language="python", source="def f(x): return x")
    with pytest.raises(DataError, match="plain data"):
        await sandbox.call(program, "f", [Call(args=(object(),))], LIMITS)
    big = ["x" * 1000] * 6000
    done = await sandbox.call(Program(language="python", source="f = len"), "f", [Call(args=(big,))], LIMITS)
    assert done.answers[0].value == 6000
