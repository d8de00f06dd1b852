"""What `check` found as text, rows of a table, lines of CSV, JSON, entries of a page and moves of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gaussproto.cli.console import number

if TYPE_CHECKING:
    from gaussproto.classifier.check import Check, CheckedExample
    from gaussproto.data.moves import Move
    from gaussproto.report.check import Entry

CSV_COLUMNS = ["image", "label", "reason", "suspicion", "looks_like", "probability", "answer", "precision", "copy"]

PAIRS = 5  # of confused classes that are shown


class Unreadable(NamedTuple):
    """A file that cannot be read, in the folder of a class, and why."""

    file: Path
    label: str
    problem: str


def name_of(row: CheckedExample) -> str:
    return row.name or f"example {row.index}"


class Found(NamedTuple):
    """The result of a check, and the files that could not be read."""

    check: Check
    names: list[str]  # of all examples
    labels: list[Any]
    unreadable: list[Unreadable]

    def why(self, row: CheckedExample) -> str:
        """Return the reason of a suspicious example in a few words."""
        if row.reason == "looks like":
            return f"looks like {row.looks_like} (probability {row.probability:.2f})"
        if row.reason == "duplicate" and row.copy is not None:
            other = self.names[row.copy] or f"example {row.copy}"
            place = "in the same class" if self.labels[row.copy] == row.label else f"in class {self.labels[row.copy]}"
            return f"duplicate of {other}, {place}"
        if row.reason == "poor image" and row.precision is not None:
            return f"poor image (precision {row.precision:.2f} of the usual)"
        return {"blank": "blank: no ink was found", "alone": "alone in its class, so it cannot be checked"}.get(
            row.reason or "", ""
        )

    def rows(self, top: int) -> list[list[str]]:
        broken = [[str(file), label, f"unreadable: {problem}", "1.00"] for file, label, problem in self.unreadable]
        found = [[name_of(r), str(r.label), self.why(r), f"{r.suspicion:.2f}"] for r in self.check.suspicious]
        return [*broken, *found][:top]

    @property
    def listed(self) -> int:
        return len(self.unreadable) + len(self.check.suspicious)

    def summary(self) -> list[list[str]]:
        check = self.check
        counts = Counter(row.reason for row in check.suspicious)
        counts["unreadable"] = len(self.unreadable)
        kinds = ", ".join(f"{n} {reason}" for reason, n in counts.items() if n)
        total = len(check.examples) + len(self.unreadable)
        rows = [["examples", f"{total:,} in {number(check.classes, 'class')}"], ["accuracy", accuracy_text(check)]]
        if check.learning is not None:
            rows.append(["more examples", check.learning.text()])
        if check.confused:
            rows.append(["confused", "; ".join(confused_texts(check))])
        rows.append(["suspicious", f"{self.listed:,} of {total:,}" + (f" ({kinds})" if kinds else "")])
        return rows

    def csv_lines(self) -> Iterator[list[Any]]:
        for file, label, problem in self.unreadable:
            yield [str(file), label, f"unreadable: {problem}", "1.000000", "", "", "", "", ""]
        for row in self.check.examples:
            copy = "" if row.copy is None else self.names[row.copy] or row.copy
            numbers = f"{row.probability:.6f}", str(row.answer), "" if row.precision is None else f"{row.precision:.6f}"
            start = name_of(row), str(row.label), row.reason or "", f"{row.suspicion:.6f}", str(row.looks_like)
            yield [*start, *numbers, copy]

    def as_json(self) -> dict[str, Any]:
        check = self.check
        learning = check.learning
        fewer = None
        if learning is not None:
            fewer = learning._asdict() | {"advice": learning.text()}
        return {
            "classes": check.classes,
            "total_examples": len(check.examples),
            "suspicious": self.listed,
            "accuracy": check.accuracy,
            "interval": check.interval,
            "scored": check.scored,
            "confused": [pair._asdict() for pair in check.confused],
            "learning": fewer,
            "unreadable": [
                {"image": str(file), "label": label, "problem": problem} for file, label, problem in self.unreadable
            ],
            "examples": [
                {
                    "image": row.name,
                    "index": row.index,
                    "label": row.label,
                    "reason": row.reason,
                    "suspicion": row.suspicion,
                    "looks_like": row.looks_like,
                    "probability": row.probability,
                    "margin": None if row.margin != row.margin else row.margin,
                    "answer": row.answer,
                    "precision": row.precision,
                    "copy": row.copy,
                }
                for row in check.examples
            ],
        }

    def on_page(self) -> Iterator[Entry]:
        from gaussproto.report.check import Entry

        for file, label, problem in self.unreadable:
            yield Entry(str(file), label, "unreadable", f"unreadable: {problem}", 1.0)
        for row in self.check.suspicious:
            other, copy = "", ""
            if row.reason == "looks like":
                other = str(row.looks_like)
            elif row.reason == "duplicate" and row.copy is not None:
                other, copy = str(self.labels[row.copy]), self.names[row.copy]
            yield Entry(row.name, str(row.label), str(row.reason), self.why(row), row.suspicion, other, copy)

    def moves(self, root: Path) -> tuple[list[Move], list[str]]:
        """Return the moves that would repair a folder, and why. No class loses its last example."""
        from gaussproto.data.moves import ASIDE, Move, free_name

        left, taken = Counter(map(str, self.labels)), set[str]()
        moves: list[Move] = []
        reasons: list[str] = []

        def move(file: Path, folder: str, why: str) -> None:
            to = free_name(root, folder, file.name, taken)
            moves.append(Move(file.relative_to(root).as_posix(), to))
            reasons.append(why)

        for file, label, problem in self.unreadable:
            move(file, f"{ASIDE}/{label}", f"unreadable: {problem}")
        for row in self.check.suspicious:
            label = str(row.label)
            if left[label] < 2 or not (row.reason in ("blank", "looks like") or self._superfluous(row)):
                continue
            left[label] -= 1
            goal = f"{ASIDE}/{label}"
            if row.reason == "looks like":
                goal = str(row.looks_like)
                left[goal] += 1
            move(Path(row.name), goal, self.why(row))
        return moves, reasons

    def _superfluous(self, row: CheckedExample) -> bool:
        """Return whether an example is a copy that can go: in the wrong class, or of another one in its class."""
        if row.reason != "duplicate" or row.copy is None:
            return False
        from gaussproto.classifier.check import SUSPICIOUS

        return row.suspicion > SUSPICIOUS or self.labels[row.copy] == row.label


def accuracy_text(check: Check) -> str:
    if check.accuracy is None or check.interval is None:
        return "unknown: no class has two different examples"
    low, high = (f"{100 * end:.1f}" for end in check.interval)
    left_out = len(check.examples) - check.scored
    note = f" (without {left_out:,} alone in a class or with a copy in it)" if left_out else ""
    return f"{100 * check.accuracy:.1f} % ({low} to {high}) of {check.scored:,} examples{note}, each left out in turn"


def confused_texts(check: Check) -> list[str]:
    return [
        f"{pair.classes[0]} and {pair.classes[1]} ({sum(pair.mistaken)} of {sum(pair.examples)})"
        for pair in check.confused[:PAIRS]
    ]
