"""Load the images that a data configuration names: classes to train on and other classes to test on."""

import hashlib
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from gaussproto.config import DRAWN, DataConfig
from gaussproto.data.cache import cached_images
from gaussproto.data.images import LabelledImages
from gaussproto.data.omniglot import omniglot
from gaussproto.data.picture import class_files, class_folders, open_image, resize, with_bright_ink
from gaussproto.data.strokes import strokes
from gaussproto.errors import InputError
from gaussproto.progress import Progress, silent
from gaussproto.setting_types import Ink
from gaussproto.split import ClassSplit, choose_split

STROKES_TEST = 15  # of the 50 invented alphabets


class Split(NamedTuple):
    """Classes to train on and other classes to test on."""

    train: LabelledImages
    test: LabelledImages


def load_data(config: DataConfig, data_root: Path | None = None, progress: Progress = silent) -> Split:
    """Load images, split by class.

    Args:
        config: which images, their size, and whether rotations become classes.
        data_root: the folder that holds Omniglot; see `gaussproto.data.omniglot`.
        progress: called with what is being done, how much of it is done and how much there is.
    """
    has_split = _has_split(config)
    if config.data in DRAWN:
        train, test = _drawn(config, data_root, progress)
    else:
        train, test = _from_folder(config, has_split, progress)
    if config.holdout:
        names = list(dict.fromkeys(train.alphabets))
        if config.holdout >= len(names):
            raise InputError(f"holdout must be less than the {len(names)} training alphabets (found {config.holdout})")
        train, test = _by_alphabet(train, set(names[:: len(names) // config.holdout][: config.holdout]))
    rotations = config.rotations if config.rotations is not None else config.data in DRAWN
    return Split(train.with_rotations(), test.with_rotations()) if rotations else Split(train, test)


def with_split(config: DataConfig) -> DataConfig:
    """Write the split of a folder's classes into the configuration; all other data comes with a split."""
    if _has_split(config):
        return config
    names = tuple(path.name for path in class_folders(Path(config.data)))
    return config.model_copy(update={"split": _split(config, names)})


def _has_split(config: DataConfig) -> bool:
    has = config.data in DRAWN or all((Path(config.data) / part).is_dir() for part in ("train", "test"))
    if has and config.split:
        raise InputError(f"{config.data} comes with its own split: leave --split out")
    return has


def _split(config: DataConfig, classes: Sequence[str]) -> ClassSplit:
    root = Path(config.data)
    return config.split.among(classes) if config.split else choose_split(classes, config.test_fraction, root.name)


def _drawn(config: DataConfig, data_root: Path | None, progress: Progress) -> tuple[LabelledImages, LabelledImages]:
    if config.channels != 1:
        raise InputError(f"the images of {config.data} are grey: set channels to 1 (found {config.channels})")
    size = config.image_size
    if config.data == "omniglot":
        return omniglot("train", size, data_root, progress), omniglot("test", size, data_root, progress)

    def draw() -> LabelledImages:
        progress("drawing strokes", 0, 1)
        images = strokes(size=size)
        progress("drawing strokes", 1, 1)
        return images

    # A hash of the source file is part of the name, so that a change of the drawing makes another file.
    version = hashlib.sha256(Path(strokes.__code__.co_filename).read_bytes()).hexdigest()[:8]
    images = cached_images(f"strokes-{size}-{version}", draw)
    return _by_alphabet(images, set(list(dict.fromkeys(images.alphabets))[-STROKES_TEST:]))


def _by_alphabet(images: LabelledImages, held_out: set[str]) -> tuple[LabelledImages, LabelledImages]:
    train = [c for c in range(images.way) if images.alphabets[c] not in held_out]
    test = [c for c in range(images.way) if images.alphabets[c] in held_out]
    return images.select(train), images.select(test)


def folder(
    root: Path, size: int = 28, channels: int = 1, ink: Ink = "bright", progress: Progress = silent,
    files: dict[str, list[Path]] | None = None,
) -> LabelledImages:  # fmt: skip
    """The images of `root/CLASS/IMAGE`, resized, with bright ink: all of them, sorted by name, or `files` by class."""
    files = files or class_files(root)
    paths = [path for images in files.values() for path in images]

    def decode(path: Path) -> np.ndarray:
        return resize(open_image(path, str(path)), size, channels)

    pixels = np.empty((len(paths), channels, size, size), dtype=np.uint8)
    with ThreadPoolExecutor() as pool:
        for i, image in enumerate(pool.map(decode, paths)):
            pixels[i] = image
            progress(f"reading {root.name}", i + 1, len(paths))
    counts = torch.tensor([len(images) for images in files.values()])
    images = torch.from_numpy(with_bright_ink(pixels, ink))
    return LabelledImages(images, counts, tuple(files), (root.name,) * len(files))


def _from_folder(config: DataConfig, has_split: bool, progress: Progress) -> tuple[LabelledImages, LabelledImages]:
    root = Path(config.data)
    appearance = config.image_size, config.channels, config.ink_of_new_images  # not `ink`: not detected in colour
    if has_split:
        train, test = (folder(root / part, *appearance, progress) for part in ("train", "test"))
        both = sorted(set(train.classes) & set(test.classes))
        if both:
            raise InputError(
                f"{len(both)} classes are in both {root / 'train'} and {root / 'test'}, for example {both[0]!r}: a "
                "few-shot network is tested on classes that it was not trained on, so remove each from one of the two"
            )
        return train, test
    files = class_files(root)
    split = _split(config, tuple(files))
    assert split.train
    left_out = sorted(set(files) - {*split.train, *split.test})
    if left_out:
        reason = f"are in neither part of the split and are left out, for example {left_out[0]!r}"
        warnings.warn(f"{len(left_out)} classes of {root} {reason}", stacklevel=3)
    images = folder(root, *appearance, progress, {name: files[name] for name in (*split.train, *split.test)})
    C = len(split.train)
    return images.select(range(C)), images.select(range(C, images.way))
