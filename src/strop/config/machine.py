"""What `auto` stands for on this machine, in the sections that say where and how a model is computed."""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from strop.config.schema import EngineConfig, LearnerConfig

Computed = TypeVar("Computed", EngineConfig, LearnerConfig)
CPU_INFO = Path("/proc/cpuinfo")
BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})  # Intel, AMD and Intel, Arm
log = logging.getLogger(__name__)


def on_this_machine(config: Computed) -> Computed:
    """`config` with its device and dtype chosen.

    A device of `auto` is CUDA where there is one, else the CPU. A dtype of `auto` is bfloat16 where the device has
    instructions for it, else float32. A CPU without them is about a hundred times slower in bfloat16 than in float32,
    so asking for it there by name is warned of.
    """
    import torch  # here, so that reading a recipe stays quick

    cuda = torch.cuda.is_available()
    device = ("cuda" if cuda else "cpu") if config.device == "auto" else config.device
    on_cpu = torch.device(device).type == "cpu"
    fast = multiplies_bfloat16() if on_cpu else not cuda or torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = ("bfloat16" if fast else "float32") if config.dtype == "auto" else config.dtype
    if dtype == "bfloat16" and not fast:
        log.warning("%s has no instructions for bfloat16 and is very slow in it: set dtype = 'auto'", device)
    return config.model_copy(update={"device": device, "dtype": dtype})


@lru_cache
def multiplies_bfloat16(cpu_info: Path = CPU_INFO) -> bool:
    """Whether this CPU has instructions that multiply bfloat16; False where the system does not say."""
    if not cpu_info.is_file():
        return False
    lines = cpu_info.read_text().splitlines()
    return any(BFLOAT16_FLAGS & {*line.split()} for line in lines if line.startswith(("flags", "Features")))
