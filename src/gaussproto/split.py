"""Split the classes of a folder into training and test classes: by a file, or by their names. Imports no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from gaussproto.errors import InputError
from gaussproto.files import read_json


class ClassSplit(BaseModel):
    """The names of the training and the test classes.

    Without `train`, all classes that are not in `test` are for training. With it, classes in neither are left out.

    >>> ClassSplit(test=("owl", "fox")).among(("ant", "bee", "fox", "owl"))
    ClassSplit(train=('ant', 'bee'), test=('fox', 'owl'))
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[str, ...] | None = None
    test: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> ClassSplit:
        parts = {"test": self.test} if self.train is None else {"train": self.train, "test": self.test}
        for part, names in parts.items():
            if len(names) < 2:
                raise ValueError(f"{part} must name at least two classes (found {len(names)}): add classes")
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"{part} names the class {twice!r} more than once: remove the repetition")
        if both := sorted(set(self.train or ()) & set(self.test)):
            raise ValueError(
                f"the class {both[0]!r} is in both train and test: a few-shot network is tested on classes that it was "
                "not trained on, so remove it from one of the two"
            )
        return self

    def among(self, classes: Sequence[str]) -> ClassSplit:
        """Write `train` out, sort both sides as in `classes`, and raise InputError if a name is not in `classes`."""
        if unknown := sorted({*(self.train or ()), *self.test} - set(classes)):
            raise InputError(
                f"the split names {len(unknown)} classes that are not in the folder, for example {unknown[0]!r}: use "
                f"the names of its class folders, {', '.join(classes[:3])}{' and others' if len(classes) > 3 else ''}"
            )
        chosen = set(classes) - set(self.test) if self.train is None else set(self.train)
        if len(chosen) < 2:
            raise InputError(
                f"the split must leave at least two classes to train on (found {len(chosen)}): name fewer under test"
            )
        return ClassSplit(
            train=tuple(name for name in classes if name in chosen),
            test=tuple(name for name in classes if name in set(self.test)),
        )


def parse_split(value: Any) -> Any:
    """Read the split if `value` is the path of a JSON file, otherwise return `value`."""
    if not isinstance(value, str | Path):
        return value
    tree = read_json(Path(value))
    if (
        not isinstance(tree, dict)
        or not {"test"} <= set(tree) <= {"train", "test"}
        or not all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in tree.values())
    ):
        raise InputError(
            f'{value} is not a split of classes: write {{"train": [CLASS, ...], "test": [CLASS, ...]}}; without '
            '"train", all other classes train'
        )
    return tree


def choose_split(classes: Sequence[str], test_fraction: float, folder: str) -> ClassSplit:
    """Hold out about `test_fraction` of the classes for testing.

    A hash of its name decides for each class, so a class stays on its side when others are added or removed. Classes
    change sides only if one side would otherwise have fewer than two.
    """

    def position(name: str) -> float:
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]) / 2**48

    if len(classes) < 4:
        raise InputError(
            f"{folder} must have at least four classes, two to train on and two to test on (found {len(classes)}): "
            "add classes"
        )
    held_out = sum(position(name) < test_fraction for name in classes)
    held_out = min(max(2, held_out), len(classes) - 2)
    return ClassSplit(test=tuple(sorted(classes, key=position)[:held_out])).among(classes)
