"""The page of `gaussproto check`: how good the examples are, and pictures of the suspicious ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gaussproto.classifier.check import Check
from gaussproto.files import write_then_rename
from gaussproto.report.parts import rendered
from gaussproto.report.sheet import picture_url

SHOWN = 200  # suspicious examples with pictures
NEIGHBOURS = 3  # pictures of a class beside an example
TITLES = {
    "unreadable": "Cannot be read",
    "blank": "Blank images",
    "duplicate": "Duplicates",
    "looks like": "Looks like another class",
    "poor image": "Poor images",
    "alone": "Alone in their class",
}
ADVICE = {
    "unreadable": "Replace or remove these files.",
    "blank": "No ink was found in these images: they are empty, or too blurred or faint.",
    "duplicate": "The same image is also elsewhere. Two copies in different classes are a sure error: at least one is "
    "wrong.",
    "looks like": "Without the image, its class is less like it than another class. It may be in the wrong folder, or "
    "the two classes look alike.",
    "poor image": "The network trusts these images far less than the others. They count for less in their class.",
    "alone": "A class needs two examples before one of them can be checked.",
}


@dataclass(frozen=True)
class Entry:
    """A suspicious example."""

    path: str
    label: str
    reason: str
    why: str
    suspicion: float
    other: str = ""  # the class that it looks like, or that holds its copy
    copy: str = ""  # the file of its copy

    @property
    def name(self) -> str:
        return Path(self.path).name or "example"


class Card(NamedTuple):
    """A suspicious example with its picture and those of two classes."""

    entry: Entry
    picture: str | None
    of_class: list[str]
    of_other: list[str]


class Group(NamedTuple):
    """The suspicious examples with the same reason."""

    reason: str
    title: str
    advice: str
    total: int
    cards: list[Card]


def write_check(
    path: Path, source: str, check: Check, entries: Sequence[Entry], good: Sequence[tuple[str, str]], accuracy: str,
    confused: Sequence[str],
) -> None:  # fmt: skip
    """Write the page. It holds the pictures, so it can be moved.

    Args:
        path: the HTML file.
        source: the folder or gallery that was checked.
        check: what was found.
        entries: the suspicious examples, the most suspicious first.
        good: the file and the class of other examples, the best first.
        accuracy: the accuracy as text.
        confused: the confused classes as text.
    """
    examples = defaultdict[str, list[str]](list)
    for file, label in good:
        if file and len(examples[label]) < NEIGHBOURS:
            examples[label].append(file)
    text = rendered(
        "check.html",
        source=source,
        total=len(check.examples) + sum(entry.reason == "unreadable" for entry in entries),
        check=check,
        groups=list(_groups(entries, examples)),
        suspicious=len(entries),
        shown=min(SHOWN, len(entries)),
        accuracy=accuracy,
        confused=confused,
    )
    with write_then_rename(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _groups(entries: Sequence[Entry], examples: dict[str, list[str]]) -> Iterator[Group]:
    shown = set(entries[:SHOWN])
    url = cache(picture_url)
    for reason, title in TITLES.items():
        some = [entry for entry in entries if entry.reason == reason]
        cards = [
            Card(
                entry,
                url(entry.path) if entry.path and reason != "unreadable" else None,
                _pictures(url, examples.get(entry.label, [])),
                _pictures(url, [entry.copy] if entry.copy else examples.get(entry.other, [])),
            )
            for entry in some
            if entry in shown
        ]
        if some:
            yield Group(reason, title, ADVICE[reason], len(some), cards)


def _pictures(url: Callable[[str], str | None], files: Sequence[str]) -> list[str]:
    return [picture for picture in map(url, files) if picture]
