"""A table of text for a terminal or a Markdown page."""

from dataclasses import dataclass


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
