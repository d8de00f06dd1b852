"""From a data configuration to the images to train on and the images to test on; no class is in both."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import NamedTuple

from gaussproto.config import DRAWN, DataConfig
from gaussproto.data.cache import cached_images
from gaussproto.data.folder import folder
from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.data.omniglot import omniglot
from gaussproto.data.picture import class_files
from gaussproto.data.strokes import strokes
from gaussproto.errors import InputError
from gaussproto.split import choose_split

STROKES_TEST = 15  # of the 50 invented alphabets


class Split(NamedTuple):
    """Classes to train on and other classes to test on."""

    train: LabelledImages
    test: LabelledImages


def load_data(config: DataConfig, data_root: Path | None = None, progress: Progress = silent) -> Split:
    """The images of a source, split by class, rotated to more classes if the configuration says so."""
    config = with_split(config)
    if config.data in DRAWN and config.channels != 1:
        raise InputError(f"{config.data} is grey: set channels to 1 (found {config.channels})")
    if config.data == "omniglot":
        train, test = (omniglot(split, config.image_size, data_root, progress) for split in ("train", "test"))
    elif config.data == "strokes":
        # The file's own text is part of the name: another way to draw is another file.
        version = hashlib.sha256(Path(strokes.__code__.co_filename).read_bytes()).hexdigest()[:8]
        everything = cached_images(f"strokes-{config.image_size}-{version}", lambda: _draw(config.image_size, progress))
        names = list(dict.fromkeys(everything.alphabets))
        train, test = _by_alphabet(everything, set(names[-STROKES_TEST:]))
    else:
        train, test = _folder(config, progress)

    if config.holdout:
        names = list(dict.fromkeys(train.alphabets))
        if config.holdout >= len(names):
            raise InputError(f"holdout is {config.holdout}, but there are only {len(names)} alphabets to train on")
        train, test = _by_alphabet(train, set(names[:: len(names) // config.holdout][: config.holdout]))
    rotations = config.rotations if config.rotations is not None else config.data in DRAWN
    return Split(train.with_rotations(), test.with_rotations()) if rotations else Split(train, test)


def _draw(size: int, progress: Progress) -> LabelledImages:
    progress("drawing strokes", 0, 1)
    drawn = strokes(size=size)
    progress("drawing strokes", 1, 1)
    return drawn


def _by_alphabet(images: LabelledImages, held_out: set[str]) -> tuple[LabelledImages, LabelledImages]:
    inside = [c for c in range(images.way) if images.alphabets[c] not in held_out]
    outside = [c for c in range(images.way) if images.alphabets[c] in held_out]
    return images.select(inside), images.select(outside)


def _folder(config: DataConfig, progress: Progress) -> tuple[LabelledImages, LabelledImages]:
    root = Path(config.data)
    if has_own_split(root):
        train, test = (
            folder(root / part, config.image_size, config.channels, config.ink, progress) for part in ("train", "test")
        )
        both = sorted(set(train.classes) & set(test.classes))
        if both:
            raise InputError(
                f"{len(both)} classes are in both {root / 'train'} and {root / 'test'}, such as {both[0]!r}: "
                "few-shot learning is tested on classes that it was not trained on, so give each to one side"
            )
        return train, test
    split = config.split
    assert split
    assert split.train
    everything = folder(root, config.image_size, config.channels, config.ink, progress)
    left_out = sorted(set(everything.classes) - {*split.train, *split.test})
    if left_out:
        warnings.warn(
            f"{len(left_out)} classes of {root} are in no part of the split and are left out, such as {left_out[0]!r}",
            stacklevel=4,
        )
    position = {name: c for c, name in enumerate(everything.classes)}
    train, test = (everything.select([position[name] for name in part]) for part in (split.train, split.test))
    return train, test


def with_split(config: DataConfig) -> DataConfig:
    """The same with the split of a folder's classes written out; other data has a split of its own."""
    root = Path(config.data)
    if config.data in DRAWN or has_own_split(root):
        if config.split:
            raise InputError(f"{config.data} comes with a split of its own: leave --split out")
        return config
    names = tuple(class_files(root))
    split = config.split.of(names) if config.split else choose_split(names, config.test_fraction, root.name)
    return config.model_copy(update={"split": split})


def has_own_split(root: Path) -> bool:
    """Whether a folder is one of train/CLASS and test/CLASS."""
    return (root / "train").is_dir() and (root / "test").is_dir()
