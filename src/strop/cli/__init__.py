"""The command line: one file per verb. Errors that are the user's to mend are one line and exit code 2."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from strop.cli.audit import audit
from strop.cli.compare import compare
from strop.cli.data import data
from strop.cli.domains import domains
from strop.cli.evaluate import evaluate
from strop.cli.export import export
from strop.cli.init import init
from strop.cli.model import model
from strop.cli.rollouts import rollouts
from strop.cli.sandbox import sandbox
from strop.cli.train import train
from strop.cli.verify import verify
from strop.core.errors import StropError

ABOUT = "Post-training reinforcement learning for language models: SFT, joint RL over many domains, honest evaluation."

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=ABOUT)
app.command()(train)
app.command("eval")(evaluate)
app.command()(audit)
app.command()(compare)
app.command()(rollouts)
app.command()(domains)
app.command()(export)
app.command()(init)
app.add_typer(data, name="data")
app.add_typer(model, name="model")
app.add_typer(sandbox, name="sandbox")
app.add_typer(verify, name="verify")


def main(arguments: list[str] | None = None) -> None:
    """The `strop` command; ends in SystemExit, with code 2 for what the user can mend."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of one part must not spin on another's cores
    try:
        app(args=arguments)
    except StropError as error:
        _end(str(error))
    except OSError as error:  # a path of the user's, or a full disk
        place = f"{error.filename}: " if error.filename is not None else ""
        _end(f"{place}{error.strerror or error}; check the path, its permissions and the free space")
    except KeyboardInterrupt:
        print("strop: stopped; go on with strop train --resume and the run folder", file=sys.stderr)
        raise SystemExit(130) from None


def _end(message: str) -> NoReturn:
    """One line, whatever a library or a user's code put into the message."""
    print("strop: " + " ".join(message.split()), file=sys.stderr)
    raise SystemExit(2) from None
