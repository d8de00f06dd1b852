"""Labels of any hashable type: read them, find the classes, and write them as JSON."""

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from gaussproto.errors import InputError

PLAIN = (str, int, float, bool)  # a NumPy array holds these types exactly


def read_labels(y: Any) -> list[Hashable]:
    """Return the labels of a list, an array or a table column as Python values. Raise InputError for invalid ones.

    >>> read_labels(np.array([3, 1])), read_labels([("left", 2), "b"])
    ([3, 1], [('left', 2), 'b'])
    """
    if isinstance(y, str | bytes) or not (hasattr(y, "__array__") or isinstance(y, Iterable)):
        raise InputError(f"labels must be a list or an array with one label for each image (found {y!r})")
    labels = column_or_1d(np.asarray(y), warn=True).tolist() if hasattr(y, "__array__") else list(y)
    labels = [_checked(label.item() if isinstance(label, np.generic) else label) for label in labels]
    if labels and all(type(label) is float for label in labels):
        check_classification_targets(np.array(labels))
    return labels


def _checked(label: Any) -> Any:
    if label is None:
        raise InputError("a label is None: replace it with a class, or leave out its example")
    try:
        hash(label)
    except TypeError:
        kind = type(label).__name__
        raise InputError(f"labels must be hashable, for example text, numbers or tuples (found {kind})") from None
    if isinstance(label, float) and not math.isfinite(label):
        raise InputError(f"numeric labels must be finite (found {label}): replace it, or leave out its example")
    return label


def classes_of(labels: Iterable[Hashable]) -> list[Hashable]:
    """Return the distinct labels, sorted if they share a sortable type, otherwise in order of appearance.

    Raise InputError if a label appears in two types, for example 1 and "1", because that is probably a mistake.
    """
    labels = list(labels)
    types = {type(label) for label in labels}
    if len(types) == 1 and types <= {str, int, bool}:
        return sorted(set(labels))  # type: ignore[type-var]
    by_value: dict[Hashable, Hashable] = {}
    by_text: dict[str, Hashable] = {}
    for label in labels:
        for other in (by_value.setdefault(label, label), by_text.setdefault(str(label), label)):
            if _types(other) != _types(label):
                raise InputError(
                    f"the label {label!r} ({type(label).__name__}) also appears as {other!r} "
                    f"({type(other).__name__}): use the same type everywhere"
                )
    classes = list(by_value)
    if len({type(label) for label in classes}) == 1 and isinstance(classes[0], (*PLAIN, bytes, tuple)):
        with suppress(TypeError):  # tuples whose parts cannot be sorted
            return sorted(classes)  # type: ignore[type-var]
    return classes


def check_among(labels: Sequence[Hashable], classes: Sequence[Hashable]) -> None:
    allowed = set(classes)
    others = [label for label in dict.fromkeys(labels) if label not in allowed]
    if others:
        raise InputError(f"the label {others[0]!r} is not among `classes`: add it, or leave out `classes`")


def _types(label: Any) -> Any:
    return (tuple, *map(_types, label)) if type(label) is tuple else type(label)


def as_array(labels: Sequence[Hashable]) -> np.ndarray:
    """Return an array (N,) of text or numbers if that preserves the labels, otherwise of Python objects."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= set(PLAIN):
        array = np.array(labels)
        if array.tolist() == list(labels):  # NumPy strips null characters from the end of text
            return array
    return np.fromiter(labels, dtype=object, count=len(labels))  # np.array would turn tuples into rows


def to_json(labels: Sequence[Hashable]) -> str:
    """Write labels as JSON. Tuples become lists, which is unambiguous because no label can be a list."""
    if not {type(label) for label in labels} <= {str, int, bool}:
        for label in labels:
            _check_json(label, label)
    return json.dumps(list(labels), allow_nan=False)


def _check_json(part: Any, label: Hashable) -> None:
    if type(part) is tuple:
        for inner in part:
            _check_json(inner, label)
    elif type(part) not in (*PLAIN, type(None)) or part in (math.inf, -math.inf):
        raise InputError(
            f"cannot save the label {label!r} ({type(part).__name__}): use text, numbers, or tuples of them"
        )


def from_json(text: str | bytes) -> list[Hashable]:
    labels = json.loads(text)
    if not isinstance(labels, list):
        raise InputError(f"labels must be a list (found {type(labels).__name__})")
    if {type(label) for label in labels} <= {str, int, bool}:
        return labels  # nothing to check in the labels of a million classes
    return [_checked(_tuples(label)) for label in labels]


def _tuples(label: Any) -> Any:
    return tuple(map(_tuples, label)) if isinstance(label, list) else label
