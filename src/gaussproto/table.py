"""A table of text for a terminal or a Markdown page, and CSV whose cells are safe in a spreadsheet."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # how to read the table
    labels: int = 2  # number of columns before the numbers
    missing: tuple[str, ...] = ()  # rows without a measurement, which the table omits

    @property
    def missing_text(self) -> str:
        return f"Not run yet: {', '.join(self.missing)}." if self.missing else ""

    def markdown(self) -> str:
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def no_formula(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run as a formula. Numbers stay as they are.

    >>> no_formula("=1+1"), no_formula("-1.5"), no_formula("a=b"), no_formula("+")
    ("'=1+1", '-1.5', 'a=b', '+')

    Such text that has an apostrophe already gets another, so different texts stay different.

    >>> no_formula("'=1+1"), no_formula("'tis")
    ("''=1+1", "'tis")
    """
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell.lstrip("'")) else cell


def _is_formula(text: str) -> bool:
    if len(text) < 2 or not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(text)
        return False
    except ValueError:
        return True


def write_csv(file: TextIO, rows: Iterable[Sequence[Any]]) -> None:
    r"""Write rows of cells without formulas, in lines that end in \n.

    >>> import sys
    >>> write_csv(sys.stdout, [["=1+1", "a, b"], [2, ""]])
    '=1+1,"a, b"
    2,
    """
    lines = csv.writer(_LineFeeds(file), lineterminator="\r\n")
    lines.writerows([no_formula(cell) for cell in row] for row in rows)


class _LineFeeds:
    r"""Ends lines in \n. The writer itself ends them in \r\n, because only then does it quote cells with \r."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, line: str) -> None:
        self.file.write(line.removesuffix("\r\n") + "\n")
