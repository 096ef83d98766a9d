"""What `auto` stands for: chosen by what the processor says of itself, never by trying."""

import logging
from types import SimpleNamespace

import pytest
import torch

from strop.config import machine
from strop.config.schema import EngineConfig, LearnerConfig

CPUS = {
    "flags\t\t: fpu avx avx2 fma\n": False,
    "flags\t\t: fpu avx512f avx512_bf16\n": True,
    "flags\t\t: fpu amx_bf16 amx_tile\n": True,
    "Features\t: fp asimd i8mm bf16\n": True,
    "Features\t: fp asimd\n": False,
    "model name\t: a CPU called bf16\nflags\t\t: fpu\n": False,
    "": False,
}


@pytest.mark.parametrize(("said", "fast"), CPUS.items())
def test_bfloat16_is_read_off_the_flags_of_the_cpu(said, fast, tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(said)
    assert machine.multiplies_bfloat16(file) is fast


def test_a_system_that_says_nothing_has_no_bfloat16(tmp_path):
    assert machine.multiplies_bfloat16(tmp_path / "none") is False


@pytest.mark.parametrize("section", [EngineConfig, LearnerConfig])
@pytest.mark.parametrize(("fast", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_auto_is_what_the_cpu_is_fast_in(section, fast, dtype, monkeypatch):
    monkeypatch.setattr(machine, "multiplies_bfloat16", lambda: fast)
    assert machine.on_this_machine(section(dtype="auto", device="cpu")).dtype == dtype
    for given in ("float32", "float64"):
        assert machine.on_this_machine(section(dtype=given, device="cpu")).dtype == given


@pytest.mark.parametrize(("cuda", "fast", "dtype"), [(True, True, "bfloat16"), (True, False, "float32")])
def test_auto_is_the_gpu_where_there_is_one(cuda, fast, dtype, monkeypatch):
    supported = SimpleNamespace(is_available=lambda: cuda, is_bf16_supported=lambda including_emulation: fast)
    monkeypatch.setattr(torch, "cuda", supported)
    chosen = machine.on_this_machine(EngineConfig(dtype="auto"))
    assert (chosen.device, chosen.dtype) == ("cuda", dtype)


def test_bfloat16_by_name_on_a_cpu_without_it_is_obeyed_and_warned_of(monkeypatch, caplog):
    monkeypatch.setattr(machine, "multiplies_bfloat16", lambda: False)
    with caplog.at_level(logging.WARNING):
        assert machine.on_this_machine(LearnerConfig(dtype="bfloat16", device="cpu")).dtype == "bfloat16"
    assert "dtype = 'auto'" in caplog.text
