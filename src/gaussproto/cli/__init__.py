"""The command `gaussproto`: parses, calls, prints. Torch is imported only by the commands that need it."""

import sys

import typer

from gaussproto.cli import console
from gaussproto.cli.classify import classify, enroll
from gaussproto.cli.data import data, presets
from gaussproto.cli.reproduce import reproduce
from gaussproto.cli.run import calibrate, evaluate, export, report, train
from gaussproto.errors import InputError
from gaussproto.training.memory import keep_freed_memory

app = typer.Typer(
    help="Few-shot image classification with Gaussian prototypical networks.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
UsageError = typer.BadParameter.__base__

for command in (data, presets, train, evaluate, calibrate, report, reproduce, classify, enroll, export):
    app.command()(command)


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2."""
    console.show_warnings()
    keep_freed_memory()
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        code = console.fail(str(error))
    except UsageError as error:  # type: ignore[misc]
        code = console.fail(f"{error.format_message()} (see `gaussproto --help`)")
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
