"""Which classes of a folder train and which test: named in a file, or chosen by their names. Without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from gaussproto.errors import InputError
from gaussproto.files import read_json

FORM = '{"train": [CLASS, ...], "test": [CLASS, ...]}'


class ClassSplit(BaseModel):
    """Names of classes. Without `train` all others train; with it, a class that is in neither is left out.

    >>> ClassSplit(test=("owl", "fox")).of(("ant", "bee", "fox", "owl"))
    ClassSplit(train=('ant', 'bee'), test=('fox', 'owl'))
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[str, ...] | None = None
    test: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> ClassSplit:
        for part in ("train", "test"):
            names = getattr(self, part)
            if names is None:
                continue
            if len(names) < 2:
                raise ValueError(f"{part} names {len(names)} classes, but training and test need two each: name more")
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"{part} names the class {twice!r} more than once: name each class once")
        both = sorted(set(self.train or ()) & set(self.test))
        if both:
            raise ValueError(
                f"the class {both[0]!r} is in both train and test: few-shot learning is tested on classes that it was "
                "not trained on, so give each to one side"
            )
        return self

    def of(self, classes: Sequence[str]) -> ClassSplit:
        """The same with `train` written out, in the order of these classes, which must hold all that are named."""
        unknown = sorted((set(self.train or ()) | set(self.test)) - set(classes))
        if unknown:
            raise InputError(
                f"the split names {len(unknown)} classes that are not in the folder, such as {unknown[0]!r}: its "
                f"classes are {', '.join(classes[:3])}{' and others' if len(classes) > 3 else ''}"
            )
        chosen = set(classes) - set(self.test) if self.train is None else set(self.train)
        if len(chosen) < 2:
            raise InputError(f"the split leaves {len(chosen)} classes to train on: name fewer under test")
        return ClassSplit(
            train=tuple(name for name in classes if name in chosen),
            test=tuple(name for name in classes if name in set(self.test)),
        )


def parse_split(value: Any) -> Any:
    """The path of a file becomes what it says."""
    if not isinstance(value, str | Path):
        return value
    tree = read_json(Path(value))
    if (
        not isinstance(tree, dict)
        or not {"test"} <= set(tree) <= {"train", "test"}
        or not all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in tree.values())
    ):
        raise InputError(f'{value} is no split of classes: write {FORM}, or only "test" and all others train')
    return tree


def choose_split(classes: Sequence[str], test_fraction: float, folder: str) -> ClassSplit:
    """Hold out about that share of the classes. A class's name decides, so it stays on its side when others come or go.

    Only where that would leave fewer than two classes on a side are the nearest moved.
    """

    def position(name: str) -> float:
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]) / 2**48

    if len(classes) < 4:
        raise InputError(
            f"{folder} has {len(classes)} classes: training and test need at least two each, so add classes"
        )
    order = sorted(classes, key=position)
    held_out = sum(position(name) < test_fraction for name in order)
    held_out = min(max(2, held_out), len(order) - 2)
    return ClassSplit(test=tuple(order[:held_out])).of(classes)
