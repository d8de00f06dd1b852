"""The contact sheet: an HTML page with the answers of `gaussproto classify`, grouped by class."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gaussproto.data.picture import open_image
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename
from gaussproto.report.parts import rendered

SIDE = 128  # pixels of a picture
TITLES = {"unknown": "Unknown", "blank": "Blank", "unreadable": "Cannot be read"}


@dataclass(frozen=True)
class Answer:
    """One image and its answer."""

    path: str
    kind: str  # "class", "unknown", "blank" or "unreadable"
    label: str = ""
    probability: float = 0.0
    others: str = ""  # other classes, or why the image cannot be read

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True)
class Group:
    """The images that got the same answer, the least certain first."""

    title: str
    kind: str
    answers: list[tuple[Answer, str | None]]  # with the picture as a data URL


def write_sheet(answers: Sequence[Answer], path: Path, classes: int) -> None:
    """Write the page. It holds the pictures, so it can be moved."""
    text = rendered("sheet.html", groups=_groups(answers), total=len(answers), classes=classes)
    with write_then_rename(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _groups(answers: Sequence[Answer]) -> list[Group]:
    keys = sorted({(answer.kind, answer.label if answer.kind == "class" else "") for answer in answers}, key=_place)
    return [
        Group(
            label if kind == "class" else TITLES[kind],
            kind,
            [
                (answer, None if answer.kind == "unreadable" else picture_url(answer.path))
                for answer in sorted(answers, key=lambda answer: (answer.probability, answer.path))
                if answer.kind == kind and label in ("", answer.label)
            ],
        )
        for kind, label in keys
    ]


def _place(group: tuple[str, str]) -> tuple[int, str]:
    """Sort classes by name, and what has none after them."""
    kind, label = group
    return ["class", *TITLES].index(kind), label


def picture_url(file: str) -> str | None:
    """Return a small picture of an image file as a data URL, or None if it cannot be read."""
    try:
        image = open_image(Path(file), file).convert("RGB")
    except InputError:
        return None
    image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    buffer = io.BytesIO()
    image.save(buffer, format="webp", quality=80)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
