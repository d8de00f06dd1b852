"""The answers of a classifier as JSON, as lines of CSV and as a table of pyarrow, with a row for each class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaussproto.classifier.confidence import TopClasses

COLUMNS = ["image", "rank", "label", "probability", "distance", "unknown", "problem"]
NO_INK = "found no ink"


def answers_of(found: TopClasses) -> Iterator[dict[str, Any]]:
    """Yield for each image its nearest classes, nearest first, and whether it is unknown."""
    labels, d, p = (each.tolist() for each in found[:3])
    for i, (name, unknown, blank) in enumerate(zip(found.names, found.unknown, found.blank, strict=True)):
        classes = zip(labels[i], p[i], d[i], strict=True)
        top = [{"label": label, "probability": share, "distance": far} for label, share, far in classes]
        yield {"image": name, "unknown": bool(unknown), "blank": bool(blank), "top": top}


def csv_lines(answers: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for answer in answers:
        if "problem" in answer:
            yield [answer["image"], "", "", "", "", "", answer["problem"]]
            continue
        for rank, entry in enumerate(answer["top"], start=1):
            numbers = (f"{entry[key]:.6f}" for key in ("probability", "distance"))
            problem = NO_INK if answer["blank"] else ""
            yield [answer["image"], rank, str(entry["label"]), *numbers, str(answer["unknown"]).lower(), problem]


def answer_schema() -> Any:
    import pyarrow as pa

    types = [pa.string(), pa.int32(), pa.string(), pa.float64(), pa.float64(), pa.bool_(), pa.string()]
    return pa.schema(list(zip(COLUMNS, types, strict=True)))


def answer_table(answers: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    rows: list[list[Any]] = []
    for answer in answers:
        if "problem" in answer:
            rows.append([answer["image"], None, None, None, None, None, answer["problem"]])
            continue
        for rank, entry in enumerate(answer["top"], start=1):
            numbers = entry["probability"], entry["distance"], answer["unknown"]
            problem = NO_INK if answer["blank"] else None
            rows.append([answer["image"], rank, str(entry["label"]), *numbers, problem])
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)), schema=answer_schema())
