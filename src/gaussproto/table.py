"""A table of text for a terminal or a Markdown page, and cells of text that are safe in a spreadsheet."""

from dataclasses import dataclass
from typing import Any


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
    """
    if not isinstance(cell, str) or len(cell) < 2 or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
        return cell
    except ValueError:
        return f"'{cell}"
