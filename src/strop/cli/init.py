"""strop init: a small working recipe from the user's own data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from strop.core.errors import ConfigError, DataError
from strop.core.types import Task

MIN_HELD_OUT = 10  # fewer say little of a model, so a larger share of small data is held out
MAX_HELD_OUT_SHARE = 0.3
RECIPE = """\
# Made by `strop init`. Every key and its default: docs/configuration.md
name = {name}
seed = 0

[model]
path = "smollm2-135m-instruct"      # a folder, a hub id, or a model `strop model get` knows

[engine]
dtype = "auto"

[learner]
dtype = "auto"
learning_rate = 2e-5

[sampling]
max_tokens = 128

[evaluation]
num_tasks = 50

# Full marks for the right answer. Your own function: use = "my_module:my_reward"
[[rewards]]
name = "accuracy"
use = {reward}

[[domains]]
name = {name}
tasks = {{ use = "files", params = {{ {params} }} }}

[[stages]]
stage = "rl"
steps = 20
groups_per_step = 8
group_size = 8
save = {{ every_steps = 5 }}
"""


def init(
    data: Annotated[Path, typer.Argument(help="your tasks: a JSONL or Parquet file")],
    folder: Annotated[Path, typer.Option(help="where the recipe goes")] = Path("my-recipe"),
    prompt: Annotated[str, typer.Option(help="the column with the prompt; recognised when left out")] = "",
    reference: Annotated[str, typer.Option(help="the column with the right answer; recognised when left out")] = "",
    reward: Annotated[str, typer.Option(help="exact, or your own function as module:function")] = "exact",
) -> None:
    """Write FOLDER/run.toml, which trains on DATA with exact match or your own function as the reward."""
    from strop.tasks.files import Files

    name = folder.resolve().name
    columns = {k: v for k, v in (("prompt", prompt), ("reference", reference)) if v}
    params: dict[str, str | float] = {"path": str(data.resolve()), **columns}
    num_train = check_data(data, reward, Files(**params, domain=name))
    num_held_out, share = len(Files(**params, domain=name, split="held_out")), 0.1
    while num_held_out < MIN_HELD_OUT and share < MAX_HELD_OUT_SHARE:
        share = params["held_out_share"] = round(share + 0.1, 1)
        num_train = len(Files(**params, domain=name))
        num_held_out = len(Files(**params, domain=name, split="held_out"))
    if not num_train or not num_held_out:
        raise DataError(f"{data}: too few different prompts to train on some and hold out others; add rows")
    target = folder / "run.toml"
    if target.exists():
        raise ConfigError(f"{target} exists; give another --folder, or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    written = ", ".join(f"{key} = {_toml(value)}" for key, value in params.items())
    target.write_text(RECIPE.format(name=_toml(name), params=written, reward=_toml(reward)))
    print(
        f"{target}: {num_train} training tasks, {num_held_out} held out. Next: strop train {shlex.quote(str(folder))}"
    )


def check_data(data: Path, reward: str, tasks: Sequence[Task]) -> int:
    """The number of tasks; DataError when exact match would have nothing to compare with."""
    if reward == "exact" and len(tasks) and all(tasks[i].reference is None for i in range(len(tasks))):
        raise DataError(
            f"{data}: no row has a right answer; name its column with --reference, or give --reward my_module:my_reward"
        )
    return len(tasks)


def _toml(value: str | float) -> str:
    """`value` in TOML: JSON strings and numbers are."""
    return json.dumps(value, ensure_ascii=False)
