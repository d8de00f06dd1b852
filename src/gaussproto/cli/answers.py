"""The answers of `classify` as rows of a table, entries of a contact sheet and names of folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

if TYPE_CHECKING:
    from gaussproto.report.sheet import Answer

SHOWN = 5e-4  # the least probability on a contact sheet
BLANK = "blank"  # an image without ink


def kind_of(answer: dict[str, Any]) -> str | None:
    """Return why an image gets no class, or None."""
    return BLANK if answer["blank"] else "unknown" if answer["unknown"] else None


def on_sheet(answer: dict[str, Any]) -> Answer:
    from gaussproto.report.sheet import Answer

    if "problem" in answer:
        return Answer(answer["image"], "unreadable", others=answer["problem"])
    best, *others = answer["top"]
    shown = [best, *others] if kind_of(answer) else others
    text = ", ".join(
        f"{entry['label']} {100 * entry['probability']:.1f} %" for entry in shown if entry["probability"] >= SHOWN
    )
    kind = kind_of(answer) or "class"
    return Answer(answer["image"], kind, str(best["label"]), best["probability"], text)


def folders_of(answers: list[dict[str, Any]]) -> Iterator[tuple[Path, str]]:
    """Yield each file and the folder that --copy-to puts it into."""
    for answer in answers:
        folder = "unreadable" if "problem" in answer else kind_of(answer) or str(answer["top"][0]["label"])
        yield Path(answer["image"]), folder


def row_of(answer: dict[str, Any]) -> list[str | Text]:
    if "problem" in answer:
        return [answer["image"], Text("unreadable", style="italic"), "", answer["problem"]]
    best, *others = [(str(entry["label"]), f"{entry['probability']:.3f}") for entry in answer["top"]]
    if kind := kind_of(answer):
        nearest = ", ".join(map(" ".join, (best, *others)))
        return [answer["image"], Text(kind, style="italic"), "", f"nearest: {nearest}"]
    return [answer["image"], *best, ", ".join(map(" ".join, others))]
