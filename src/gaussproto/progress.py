"""The callback that long work reports to."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]  # what is being done, how much is done, how much there is if known


def silent(what: str, done: int, total: int | None) -> None:
    """Report no progress."""
