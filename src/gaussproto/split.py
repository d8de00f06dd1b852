"""Split the classes of a folder into training and test classes, by a JSON file or by a hash. Imports no torch."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from gaussproto.errors import InputError
from gaussproto.files import read_json


class ClassSplit(BaseModel):
    """The names of the training and the test classes.

    Without `train`, all classes that are not in `test` are training classes. With it, classes in neither are skipped.

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
                raise ValueError(
                    f"the split must name at least two classes in {part} (found {len(names)}): add classes"
                )
            if len(set(names)) < len(names):
                twice = Counter(names).most_common(1)[0][0]
                raise ValueError(f"the split names the class {twice!r} more than once in {part}: remove the duplicate")
        if both := sorted(set(self.train or ()) & set(self.test)):
            raise ValueError(
                f"the split names the class {both[0]!r} in both train and test: remove it from one of them, because a "
                "few-shot network is tested on new classes"
            )
        return self

    def among(self, classes: Sequence[str]) -> ClassSplit:
        """Return the split with `train` filled in and both parts in the order of `classes`.

        Raise InputError if the split names a class that is not in `classes`.
        """
        if unknown := sorted({*(self.train or ()), *self.test} - set(classes)):
            raise InputError(
                f"the split must name only classes of the data (found {len(unknown)} unknown, for example "
                f"{unknown[0]!r}): use the names of its classes, for example {', '.join(classes[:3])}"
            )
        chosen = set(classes) - set(self.test) if self.train is None else set(self.train)
        if len(chosen) < 2:
            raise InputError(
                f"the split must leave at least two training classes (found {len(chosen)}): name fewer test classes"
            )
        return ClassSplit(
            train=tuple(name for name in classes if name in chosen),
            test=tuple(name for name in classes if name in set(self.test)),
        )


def parse_split(value: Any) -> Any:
    """Return the content of the JSON file if `value` is a path, otherwise `value`."""
    if not isinstance(value, str | Path):
        return value
    tree = read_json(Path(value))
    if (
        not isinstance(tree, dict)
        or not {"test"} <= set(tree) <= {"train", "test"}
        or not all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in tree.values())
    ):
        raise InputError(
            f'{value} is not a split of classes: write {{"train": [CLASS, ...], "test": [CLASS, ...]}}, or only "test" '
            "to train on all other classes"
        )
    return tree


def choose_split(classes: Sequence[str], test_fraction: float, folder: str) -> ClassSplit:
    """Hold out `test_fraction` of the classes for testing, rounded, with at least two classes in each part.

    The classes with the lowest hash of their names are held out, so the choice does not depend on their order.

    >>> choose_split(("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"), 0.25, "animals").test
    ('bee', 'elk')
    """
    if len(classes) < 4:
        raise InputError(
            f"{folder} must have at least four classes, two for training and two for testing (found {len(classes)}): "
            "add classes"
        )
    ranked = sorted(classes, key=lambda name: hashlib.sha256(name.encode()).digest())
    held_out = min(max(2, int(test_fraction * len(classes) + 0.5)), len(classes) - 2)
    return ClassSplit(test=tuple(ranked[:held_out])).among(classes)
