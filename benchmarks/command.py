"""Code that all benchmark commands share. After an error, they print one sentence and exit with code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gaussproto.cli import console
from gaussproto.errors import InputError


class Parser(argparse.ArgumentParser):
    """A parser that raises InputError for an invalid option."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (--help lists the options)")

    def add_data_root(self) -> None:
        """Add the option --data-root."""
        self.add_argument("--data-root", type=Path, help="folder with Omniglot (default: GAUSSPROTO_DATA)")


def parser(description: str | None) -> Parser:
    """Return a parser that keeps the line breaks of the description."""
    return Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a command and exit with the code that it returns, or with 2 after an InputError."""
    console.show_warnings()
    try:
        code = main()
    except InputError as error:
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code or 0)
