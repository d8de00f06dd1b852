"""The command `gaussproto`. It imports torch only in the commands that need it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gaussproto import provenance
from gaussproto.cli import console
from gaussproto.cli.check import check
from gaussproto.cli.classify import classify
from gaussproto.cli.data import data, presets
from gaussproto.cli.embed import embed
from gaussproto.cli.enroll import enroll
from gaussproto.cli.evaluate import evaluate
from gaussproto.cli.gallery import gallery
from gaussproto.cli.reproduce import reproduce
from gaussproto.cli.run import calibrate, export, report, train
from gaussproto.cli.serve import serve
from gaussproto.cli.suggest import suggest
from gaussproto.errors import InputError, ReportedElsewhere
from gaussproto.files import reason
from gaussproto.training.memory import keep_freed_memory

app = typer.Typer(
    help="Few-shot image classification with Gaussian prototypical networks.",
    epilog="Start with `gaussproto classify --support my_images new.png` to classify an image by your examples, "
    "or with `gaussproto train demo` to train a network in about a minute.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
OUT_OF_MEMORY = ("out of memory", "allocate memory")  # in the errors of torch
UsageError = typer.BadParameter.__base__


@app.callback()
def gaussproto(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"gaussproto {provenance.version()}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit


COMMANDS = (
    classify, check, enroll, suggest, embed, serve, train, evaluate, report, calibrate, export, reproduce, presets,
    data,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)
app.add_typer(gallery, name="gallery")


def main() -> None:
    """Run the command. Print a user's mistake as one line on stderr and exit with code 2."""
    # Threads that wait for each other in a loop slow down every program on a busy machine: let them sleep soon.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    console.show_warnings()
    sys.path.append(str(Path.cwd()))  # to find the user's own distance, encoder or data as module:name
    keep_freed_memory()
    try:
        code = app(standalone_mode=False)
    except ReportedElsewhere:
        code = 2
    except InputError as error:
        code = console.fail(str(error))
    except UsageError as error:  # type: ignore[misc]
        place = error.ctx.command_path if error.ctx else "gaussproto"
        problem = error.format_message().replace("Value error, ", "").rstrip(".")
        code = console.fail(f"{problem} (see `{place} --help`)")
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the reader of our output has ended, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        place = f"use {error.filename}" if error.filename else "write the output"
        code = console.fail(f"cannot {place} ({reason(error)}): check the path, its permissions and the free space")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        code = console.fail(f"not enough memory ({reason(error)}): use smaller images, batches or networks")
    code = code if isinstance(code, int) else 0
    if "TORCHELASTIC_RUN_ID" in os.environ:  # a process of torchrun
        from gaussproto.training.ranks import end_rank

        end_rank(code)
    sys.exit(code)
