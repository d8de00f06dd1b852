"""What the command line shows a person: progress, tables, one-line errors; all but tables and JSON on stderr."""

from __future__ import annotations

import csv
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

PLAIN_EVERY = 10.0  # seconds between progress lines when nobody watches a terminal

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class Bars:
    """Progress of one or several pieces of work: bars on a terminal, a line now and then elsewhere."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._printed: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int | None = None, note: str = "") -> None:
        """Report that `done` of `total` of some work is done."""
        now = time.monotonic()
        started = self._started.setdefault(what, now)
        ended = done == total
        if self._progress is not None:
            if what not in self._tasks:
                self._tasks[what] = self._progress.add_task(what, total=total, note="")
            self._progress.update(self._tasks[what], completed=done, total=total, note=note)
        elif (ended and now - started > PLAIN_EVERY) or now - self._printed.get(what, started) >= PLAIN_EVERY:
            self._printed[what] = now
            err.print(f"{what}: {done:,}" + (f" of {total:,}" if total else "") + (f"  {note}" if note else ""))


@contextmanager
def progress_bars() -> Iterator[Bars]:
    """Within, `bars(what, done, total, note)` shows progress."""
    if not err.is_terminal:
        yield Bars(None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("[cyan]{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:
        yield Bars(progress)


def print_json(content: Any) -> None:
    """One JSON object on stdout, for machines."""
    print(json.dumps(content))


def print_csv(columns: list[str], rows: list[list[Any]]) -> None:
    """Lines of comma-separated values on stdout, the names of the columns first."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([columns, *rows])


def print_table(title: str, columns: list[str], rows: Sequence[Sequence[str | Text]], right: int = 0) -> None:
    """A table on stdout; the columns from number `right` on stand to the right."""
    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if right and i >= right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))  # names may look like markup
    console = out if out.is_terminal else Console(width=1000, highlight=False)  # a pipe has no width: let no line wrap
    if title:
        console.print(title, style="bold", markup=False, soft_wrap=True)
    console.print(table)


def say(message: str) -> None:
    """A line for a person, on stderr."""
    err.print(message, markup=False, soft_wrap=True)


def show_warnings() -> None:
    """Warnings as one line each."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    warnings.showwarning = show


def fail(message: str) -> int:
    """One line on stderr; the exit code of a user's mistake."""
    print(f"gaussproto: {' '.join(message.split())}", file=sys.stderr)
    return 2
