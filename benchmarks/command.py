"""What the commands of all benchmarks share: an error is one sentence, and the exit code is then 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gaussproto.cli import console
from gaussproto.errors import InputError


class Parser(argparse.ArgumentParser):
    """Raises InputError for a wrong option."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (--help lists the options)")

    def add_data_root(self) -> None:
        """Add the option --data-root."""
        self.add_argument("--data-root", type=Path, help="folder with Omniglot; default: GAUSSPROTO_DATA")


def parser(description: str | None) -> Parser:
    """A parser that shows the description as it is written."""
    return Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a command and exit with the code that it returns; with 2 after a wrong input."""
    console.show_warnings()
    try:
        code = main()
    except InputError as error:
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code or 0)
