"""Labels of any hashable type: read, told apart, put in order, written as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from gaussproto.errors import InputError

PLAIN = (str, int, float, bool)  # types that an array of their own holds exactly


def read_labels(y: Any) -> list[Hashable]:
    """A list, an array or a column of a table as Python values; what cannot be a label is an error.

    >>> read_labels(np.array([3, 1])), read_labels([("left", 2), "b"])
    ([3, 1], [('left', 2), 'b'])
    """
    if isinstance(y, str | bytes) or not (hasattr(y, "__array__") or isinstance(y, Iterable)):
        raise InputError(f"labels must be a list or an array, one for each image (found {y!r})")
    labels = column_or_1d(np.asarray(y), warn=True).tolist() if hasattr(y, "__array__") else list(y)
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for label in labels:
        _check(label)
    if labels and all(type(label) is float for label in labels):
        check_classification_targets(np.array(labels))
    return labels


def _check(label: Any) -> None:
    if label is None:
        raise InputError("a label is None, which stands for no class: leave that image out or give it a label")
    try:
        hash(label)
    except TypeError:
        kind = type(label).__name__
        raise InputError(f"labels must be hashable, such as text, numbers or tuples (found a {kind})") from None
    if isinstance(label, float) and not math.isfinite(label):
        raise InputError(f"a label is not a finite number ({label}): leave that image out or give it a label")


def classes_of(labels: Iterable[Hashable]) -> list[Hashable]:
    """Each class once: sorted if they are of one type that sorts, else in the order in which they came.

    The same label in two types is refused, since one of them is a slip: 1 and "1", 1 and 1.0.
    """
    by_value: dict[Hashable, Hashable] = {}
    by_text: dict[str, Hashable] = {}
    for label in labels:
        same = by_value.setdefault(label, label)
        alike = by_text.setdefault(str(label), label)
        if _types(same) != _types(label) or type(alike) is not type(label):
            other = same if _types(same) != _types(label) else alike
            raise InputError(
                f"the label {label!r} ({type(label).__name__}) is also there as {other!r} ({type(other).__name__}): "
                "write it in one type"
            )
    classes = list(by_value)
    if len({type(label) for label in classes}) == 1 and isinstance(classes[0], (*PLAIN, bytes, tuple)):
        try:
            return sorted(classes)  # type: ignore[type-var]
        except TypeError:
            return classes  # tuples of what does not sort
    return classes


def check_among(labels: Sequence[Hashable], classes: Sequence[Hashable]) -> None:
    """Say so if a label is not among the classes that were announced."""
    others = [label for label in dict.fromkeys(labels) if label not in classes]
    if others:
        raise InputError(f"the label {others[0]!r} is not among `classes` as given: add it, or leave `classes` out")


def _types(label: Any) -> Any:
    return (tuple, *map(_types, label)) if type(label) is tuple else type(label)


def as_array(labels: Sequence[Hashable]) -> np.ndarray:
    """(N,): an array of text or numbers if it holds exactly these labels, else of Python objects."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= set(PLAIN):
        array = np.array(labels)
        if array.tolist() == list(labels):  # NumPy cuts zeros at the end of text
            return array
    array = np.empty(len(labels), dtype=object)
    for i, label in enumerate(labels):  # one by one: a tuple is one label, not a row
        array[i] = label
    return array


def to_json(labels: Sequence[Hashable]) -> str:
    """Labels as JSON; tuples are lists there, which no label can be."""
    for label in labels:
        _check_json(label, label)
    return json.dumps(list(labels), allow_nan=False)


def _check_json(part: Any, label: Hashable) -> None:
    if type(part) is tuple:
        for inner in part:
            _check_json(inner, label)
    elif type(part) not in (*PLAIN, type(None)) or part in (math.inf, -math.inf):
        raise InputError(
            f"a file cannot carry the label {label!r} ({type(part).__name__}): use text, numbers, or tuples of them"
        )


def from_json(text: str) -> list[Hashable]:
    """What `to_json` wrote, in the same types."""
    labels = [_tuples(label) for label in json.loads(text)]
    for label in labels:
        _check(label)
    return labels


def _tuples(label: Any) -> Any:
    return tuple(map(_tuples, label)) if isinstance(label, list) else label
