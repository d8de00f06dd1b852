"""The output of the command line: tables, JSON and CSV on stdout; progress, messages and errors on stderr."""

import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gaussproto.errors import IN_PYTHON, visible
from gaussproto.progress import time_text
from gaussproto.table import write_csv

MANY_COLUMNS = 6  # a table with fewer is readable in any terminal
PLAIN_EVERY = 10.0  # seconds between progress lines if stderr is not a terminal

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


class Bars:
    """The progress of one or several tasks: bars on a terminal, otherwise a line from time to time."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._begun: dict[str, tuple[int, float]] = {}  # what was done before, and when the first progress came
        self._printed: dict[str, float] = {}
        self._done: dict[str, int] = {}

    def __call__(self, what: str, done: int, total: int | None = None, note: str = "") -> None:
        if self._progress is not None:
            if what not in self._tasks:
                self._tasks[what] = self._progress.add_task(visible(what), total=total, note="")
            return self._progress.update(self._tasks[what], completed=done, total=total, note=note)
        now = time.monotonic()
        if done < self._done.get(what, 0):  # the same task begins again
            for times in (self._started, self._begun, self._printed):
                times.pop(what, None)
        self._done[what] = done
        started = self._started.setdefault(what, now)
        begun, when = self._begun.setdefault(what, (done, now)) if done else (0, now)
        since = started if done == total else self._printed.get(what, started)
        if now - since >= PLAIN_EVERY:
            self._printed[what] = now
            say(self._line(what, done, total, note, (now - when) / max(1, done - begun)))
        return None

    @staticmethod
    def _line(what: str, done: int, total: int | None, note: str, pace: float) -> str:
        """Return a line of progress; `pace` is the time that one step takes, in seconds, or 0 if it is not known."""
        count = f"{what}: {done:,}" + (f" of {total:,}" if total else "")
        left = f"{time_text(pace * (total - done))} left" if total and pace and done < total else ""
        return "  ".join(filter(None, (count, note, left)))


@contextmanager
def progress_bars() -> Iterator[Bars]:
    """Yield `bars`. Call `bars(what, done, total, note)` to show progress."""
    name = TextColumn("{task.description}", markup=False)  # names of runs may look like markup
    note = TextColumn("{task.fields[note]}", style="cyan", markup=False)
    columns = name, BarColumn(bar_width=28), MofNCompleteColumn(), note, TimeRemainingColumn()
    with Progress(*columns, console=err) if err.is_terminal else nullcontext() as progress:
        yield Bars(progress)


def print_json(content: Any) -> None:
    print(json.dumps(content))


def print_csv(columns: list[str], rows: list[list[Any]]) -> None:
    write_csv(sys.stdout, [columns, *rows])


def print_table(
    title: str, columns: list[str], rows: Sequence[Sequence[str | Text]], right: int = 0, whole: int = 0
) -> None:
    """Print a table on stdout. Columns from index `right` on are right-aligned; the first `whole` never wrap."""
    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if right and i >= right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=i < whole)
    for row in rows:
        table.add_row(*map(_as_text, row))
    console = (
        out if out.is_terminal else Console(width=1000, highlight=False, emoji=False)
    )  # do not wrap lines in a pipe or a file
    if title:
        console.print(visible(title), style="bold", markup=False, soft_wrap=True)
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    if len(columns) >= MANY_COLUMNS and needed > console.width:
        return _print_records(console, columns, rows)
    return console.print(table)


def _print_records(console: Console, columns: list[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print each row as lines of `column  cell`: a wide table in a narrow terminal would break inside words."""
    for row in rows:
        record = Table.grid(padding=(0, 2))
        for name, cell in zip(columns, row, strict=True):
            record.add_row(Text(name, style="bold"), _as_text(cell))
        console.print(record)
        console.print()


def _as_text(cell: str | Text) -> Text:
    return Text(visible(cell)) if isinstance(cell, str) else cell  # names may look like markup


def number(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> number(1, "class"), number(2000, "class"), number(0, "file")
    ('1 class', '2,000 classes', '0 files')
    """
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}" + ("" if count == 1 else plural)


def say(message: str) -> None:
    err.print(visible(message), markup=False, soft_wrap=True)


def show_warnings() -> None:
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {str(message).removesuffix(IN_PYTHON)}")


def be_silent() -> None:
    """Show no progress, messages and warnings. Errors are still printed."""
    err.quiet = True


def fail(message: str) -> int:
    print(f"gaussproto: {visible(' '.join(message.split()))}", file=sys.stderr)
    return 2
