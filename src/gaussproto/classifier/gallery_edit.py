"""Change the classes and examples of galleries. No function needs the weights of the network, or changes its input."""

import warnings
from ast import literal_eval
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np

from gaussproto.classifier.examples import not_known
from gaussproto.classifier.gallery import Gallery, Settings
from gaussproto.data.labels import classes_of
from gaussproto.errors import InputError, did_you_mean
from gaussproto.formulas.embedded import Embedded

# The settings that change the embeddings.
ALIKE = {"image_size_used": "image size", "ink_used": "ink", "prepare_used": "preparation", "views": "views"}
CHOSEN = ("distance", "temperature", "reject", "weights")  # settings that the user may choose for each gallery
FILLED = ("source", "calibration", "features", "feature_names", "profile")  # settings that a gallery may lack


class Merged(NamedTuple):
    """Several galleries in one."""

    gallery: Gallery
    known: int  # number of duplicates that were skipped
    joined: list[Hashable]  # classes that several galleries have
    overruled: list[str]  # settings of which the galleries have different values; the first gallery decides


def find_class(gallery: Gallery, text: str) -> Hashable:
    """Return the label with this text. Raise InputError if there is none, or several."""
    found = [label for label in gallery.classes if str(label) == text]
    if not found:
        hint = did_you_mean(text, gallery.classes, "`gaussproto gallery list` shows the classes")
        raise InputError(f"unknown class {text!r}: {hint}")
    if len(found) > 1:
        kinds = " and ".join(type(label).__name__ for label in found)
        remedy = "create the gallery again with labels of one type"
        raise InputError(f"the class {text!r} is ambiguous (found {kinds}): {remedy}")
    return found[0]


def find_examples(gallery: Gallery, file: str) -> list[int]:
    """Return the examples of a file, by its path as stored, or by the end of this path, for example its name."""
    exact = [i for i, name in enumerate(gallery.names) if name == file]
    if exact and file:
        return exact
    parts = PurePath(file).parts
    found = [i for i, name in enumerate(gallery.names) if parts and PurePath(name).parts[-len(parts) :] == parts]
    paths = list(dict.fromkeys(gallery.names[i] for i in found))
    if not paths:
        ends = (text for name in gallery.names if name for text in (name, PurePath(name).name))
        hint = did_you_mean(file, ends, "`gaussproto gallery list --examples` shows the files")
        raise InputError(f"no example is from the file {file!r}: {hint}")
    if len(paths) > 1:
        some = f"{len(paths)} examples, such as {paths[0]!r} and {paths[1]!r}"
        raise InputError(f"the file {file!r} is ambiguous (found {some}): pass the whole path")
    return found


def remove(gallery: Gallery, classes: Iterable[str] = (), files: Iterable[str] = ()) -> Gallery:
    """Return the gallery without these classes and without the examples of these files."""
    labels = {find_class(gallery, text) for text in classes}
    examples = {i for file in files for i in find_examples(gallery, file)}
    keep = [i for i, label in enumerate(gallery.labels) if label not in labels and i not in examples]
    kept = [gallery.labels[i] for i in keep]
    _check_two_remain(kept)
    blank = None if gallery.blank is None else gallery.blank[keep]
    return Gallery(gallery.settings, gallery.embedded[keep], kept, [gallery.names[i] for i in keep], blank)


def rename(gallery: Gallery, old: str, new: str, join: bool = False) -> Gallery:
    """Return the gallery with another name for a class. With `join`, the examples go to a class that exists."""
    before = find_class(gallery, old)
    others = [label for label in gallery.classes if label != before]
    if not new:
        raise InputError(f"the new name of the class {old!r} must not be empty: choose another name")
    if new == old:
        raise InputError(f"the new name of the class {old!r} must be another one (found {new!r}): choose another name")
    after = find_class(gallery, new) if join else _read_label(new, others, before)
    if not join and (new in map(str, others) or after in others):  # 0 is False
        remedy = f"pass --join to add the examples of {old!r} to it, or choose another name"
        raise InputError(f"the class {new!r} exists already: {remedy}")
    labels = [after if label == before else label for label in gallery.labels]
    _check_two_remain(labels)
    return gallery._replace(labels=labels)


def merge(galleries: Sequence[tuple[Path, Gallery]]) -> Merged:
    """Return the examples of all galleries in one. The first gallery decides the settings that the user may choose.

    An example that an earlier gallery has in the same class is skipped.
    """
    (first, result), *others = galleries
    known, joined, overruled = 0, dict[Hashable, None](), dict[str, None]()
    for path, gallery in others:
        _check_fits(first, result, path, gallery)
        new = not_known(result.embedded.x, result.labels, gallery.embedded.x, gallery.labels)
        known += len(gallery.labels) - len(new)
        classes = set(result.labels)
        joined |= dict.fromkeys(label for label in gallery.classes if label in classes)
        ours, theirs = result.settings, gallery.settings
        blank = None
        if result.blank is not None and gallery.blank is not None:
            blank = np.concatenate([result.blank, gallery.blank[new]])
        overruled |= dict.fromkeys(name for name in CHOSEN if getattr(ours, name) != getattr(theirs, name))
        result = Gallery(
            _filled(ours, theirs),
            Embedded.join([result.embedded, gallery.embedded[new]], np.concatenate),
            [*result.labels, *(gallery.labels[i] for i in new)],
            [*result.names, *(gallery.names[i] for i in new)],
            blank,
        )
    return Merged(result, known, list(joined), list(overruled))


def _check_two_remain(labels: Sequence[Hashable]) -> None:
    classes = set(labels)
    if len(classes) < 2:
        left = f"only {next(iter(classes))!r}" if classes else "none"
        raise InputError(f"at least two classes must remain (this would leave {left}): keep another class")


def _read_label(text: str, others: Sequence[Hashable], before: Hashable) -> Hashable:
    """Return the label of a text: of the type that the other labels share if it can be read so, otherwise the text."""
    kinds = {type(label) for label in others}
    kind = kinds.pop() if len(kinds) == 1 else type(before)
    errors = ValueError, SyntaxError, TypeError, MemoryError, RecursionError
    with suppress(*errors), warnings.catch_warnings(action="ignore"):
        label: Hashable = text if kind is str else literal_eval(text)
        hash(label)
        if type(label) is kind and str(label) == text:  # a class is found by its text
            return label
    return text


def _check_fits(a: Path, ours: Gallery, b: Path, theirs: Gallery) -> None:
    """Raise InputError unless the embeddings in two galleries can be compared."""
    x, y = ours.settings, theirs.settings
    if x.digest != y.digest:
        weights = " and ".join(f"{each.source or 'a network in memory'}, digest {each.digest[:12]}" for each in (x, y))
        remedy = "create one of them again with the weights of the other"
        raise InputError(f"{a} and {b} were made with different weights ({weights}): {remedy}")
    for name, what in ALIKE.items():
        if getattr(x, name) != getattr(y, name):
            found = f"{what} {getattr(x, name)} and {getattr(y, name)}"
            raise InputError(f"{a} and {b} were made with different settings ({found}): create one of them again")
    _check_vectors(a, ours, b, theirs)
    try:
        classes_of([*ours.labels, *theirs.labels])
    except InputError as error:
        raise InputError(f"cannot merge {a} and {b}, because {error}") from None


def _check_vectors(a: Path, ours: Gallery, b: Path, theirs: Gallery) -> None:
    """Raise InputError unless the vectors of two galleries have the same columns. The encoder `identity` takes any."""
    problem = ""
    if _sizes(ours.embedded) != _sizes(theirs.embedded):
        problem = f"their embeddings have {ours.embedded.x.shape[1]} and {theirs.embedded.x.shape[1]} numbers"
    names = ours.settings.feature_names, theirs.settings.feature_names
    if None not in names and names[0] != names[1]:
        problem = problem or "the names of their columns differ"
    if problem:
        raise InputError(f"{a} and {b} hold different kinds of vectors ({problem}): create one of them again")


def _sizes(embedded: Embedded[np.ndarray]) -> list[tuple[int, ...] | None]:
    return [None if t is None else t.shape[1:] for t in embedded]


def _filled(ours: Settings, theirs: Settings) -> Settings:
    """Return our settings, with what they lack from the others."""
    missing = {name: getattr(theirs, name) for name in FILLED if getattr(ours, name) is None}
    return ours.model_copy(update=missing)
