"""strop init: a small working recipe from the user's own data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from strop.core.errors import ConfigError

RECIPE = """\
# Made by `strop init`. Every key and its default: docs/configuration.md
name = {name}
seed = 0

[model]
path = "smollm2-135m-instruct"      # a folder, a hub id, or a model `strop model get` knows

[engine]
dtype = "bfloat16"

[learner]
dtype = "bfloat16"
learning_rate = 2e-5

[sampling]
max_tokens = 128

[evaluation]
num_tasks = 50

# Full marks for the right answer. Your own function: use = "my_module:my_reward"
[[rewards]]
name = "accuracy"
use = "exact"

[[domains]]
name = {name}
tasks = {{ use = "files", params = {{ path = {path}{columns} }} }}

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
) -> None:
    """Write FOLDER/run.toml, which trains on DATA with exact match as the reward."""
    from strop.tasks.files import Files

    name = folder.resolve().name
    columns = {k: v for k, v in (("prompt", prompt), ("reference", reference)) if v}
    source = Files(path=str(data), domain=name, **columns)
    target = folder / "run.toml"
    if target.exists():
        raise ConfigError(f"{target} exists; give another --folder, or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    extra = "".join(f", {key} = {_toml(value)}" for key, value in columns.items())
    target.write_text(RECIPE.format(name=_toml(name), path=_toml(str(data.resolve())), columns=extra))
    print(f"{target}: {len(source)} training tasks. Next: strop train {folder}")


def _toml(text: str) -> str:
    """`text` as a TOML string: a JSON string is one."""
    return json.dumps(text, ensure_ascii=False)
