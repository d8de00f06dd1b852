"""The callback that reports the progress of long work."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]  # the task, the amount done, and the total if known


def time_text(seconds: float) -> str:
    """Format a duration.

    >>> time_text(40), time_text(130), time_text(9000)
    ('40 s', '2 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def silent(what: str, done: int, total: int | None) -> None:
    """Report no progress."""
