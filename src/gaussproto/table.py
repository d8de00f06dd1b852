"""A table of text, for a terminal or a page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # how to read it
    labels: int = 2  # columns before the numbers

    def markdown(self) -> str:
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
