"""Load the images that a data configuration names, split into training and test classes."""

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from gaussproto.config import CIFAR_FS, DRAWN, GIVEN, DataConfig
from gaussproto.data.cache import cached_images
from gaussproto.data.cifar import CHANNELS, VALIDATION, cifar_fs
from gaussproto.data.cifar import SIDE as PHOTO_SIDE
from gaussproto.data.images import LabelledImages
from gaussproto.data.ink import WORK, reduced_grey
from gaussproto.data.omniglot import SIDE, omniglot
from gaussproto.data.picture import class_files, in_threads, read_image, resize, with_bright_ink
from gaussproto.data.prepare import prepared, prepared_images
from gaussproto.data.strokes import strokes
from gaussproto.data.vinyals import NAME as VINYALS
from gaussproto.data.vinyals import split_like_vinyals
from gaussproto.errors import InputError
from gaussproto.files import megabytes, memory
from gaussproto.formulas.named import find_callable
from gaussproto.progress import Progress, silent
from gaussproto.split import ClassSplit, choose_split

STROKES_TEST = 15  # of the 50 invented alphabets
DRAWN_IMAGES = 30_000  # of omniglot and of strokes, about


class Split(NamedTuple):
    """Images of the training classes and of the test classes."""

    train: LabelledImages
    test: LabelledImages


def load_data(config: DataConfig, data_root: Path | str | None = None, progress: Progress = silent) -> Split:
    """Load images, split into training and test classes.

    Args:
        config: the data to load, for example the `data` of a `RunConfig`.
        data_root: the folder with the files of Omniglot or CIFAR-100. By default they are looked for in the folder
            that the environment variable GAUSSPROTO_DATA names, then in the user's cache, and downloaded if needed.
        progress: a function that is called with the task, the amount done and the total.

    Returns:
        A named tuple `(train, test)` of `LabelledImages`. No class is in both.

    Examples:
        >>> import gaussproto as gp
        >>> train, test = gp.load_data(gp.DataConfig(data="strokes", rotations=False))
        >>> train
        LabelledImages(19,620 images of 981 classes in 35 alphabets, 1 x 28 x 28)
        >>> set(train.classes) & set(test.classes)
        set()
    """
    classes: ClassSplit | None = None
    if config.data == GIVEN:
        raise InputError(
            "the run was trained on images given in Python, which cannot be loaded again: pass the images to "
            "gaussproto.evaluate or gaussproto.calibrate, or use `gaussproto evaluate --data`"
        )
    root = Path(data_root) if data_root else None
    if config.data == CIFAR_FS:
        _check_no_split(config)
        train, test = _photos(config, root, progress)
    elif config.data in DRAWN:
        _check_no_split(config)
        train, test = _drawn(config, root, progress)
    elif is_function(config.data):
        train, test, classes = _from_function(config)
    else:
        train, test, classes = _from_folder(config, progress)
    if config.holdout and config.data != CIFAR_FS:
        names = list(dict.fromkeys(train.alphabets))
        if config.holdout >= len(names):
            limit = f"{len(names)}, the number of training alphabets"
            raise InputError(f"holdout must be less than {limit} (found {config.holdout})")
        train, test = _by_alphabet(train, set(names[:: len(names) // config.holdout][: config.holdout]))
    if config.rotations if config.rotations is not None else config.data in DRAWN:
        train, test = train.with_rotations(), test.with_rotations()
    source = config.model_copy(update={"split": classes})
    return Split(replace(train, source=source), replace(test, source=source, variants=None))


def is_function(data: str) -> bool:
    """Return whether `data` names a function as `module:name`, and not a folder."""
    return re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", data) is not None and not Path(data).exists()


def _check_no_split(config: DataConfig) -> None:
    if config.split:
        raise InputError(f"{config.data} has a fixed split: leave out --split")


def _split(config: DataConfig, classes: Sequence[str]) -> ClassSplit:
    """Return the split in the configuration, or choose one. Warn about classes that the split skips."""
    if config.split is None:
        return choose_split(classes, config.test_fraction, config.data)
    split = config.split.among(classes)
    left_out = sorted(set(classes) - {*(split.train or ()), *split.test})
    if left_out:
        skipped = f"{len(left_out)} of the {len(classes)} classes of {config.data}, for example {left_out[0]!r}"
        warnings.warn(f"skipped {skipped}: the split names them neither in train nor in test", stacklevel=4)
    return split


def _from_function(config: DataConfig) -> tuple[LabelledImages, LabelledImages, ClassSplit | None]:
    """Load images with a user's function, which returns all classes, or a pair of training and test classes."""
    made = find_callable(config.data, "data source")(config)
    parts = made if isinstance(made, tuple) and len(made) == 2 else (made,)
    if not all(isinstance(part, LabelledImages) for part in parts):
        raise InputError(
            f"{config.data} must return one LabelledImages object, or two for training and testing (found "
            f"{type(made).__name__}): create each with LabelledImages.from_labels"
        )
    wanted = (config.channels, config.image_size, config.image_size)
    for part in parts:
        if part.images.shape[1:] != wanted:
            found, expected = (" x ".join(map(str, shape)) for shape in (part.images.shape[1:], wanted))
            raise InputError(
                f"{config.data} must return images of channels x image_size x image_size = {expected} (found {found}): "
                "resize them, or change --channels and --image-size"
            )
    if len(parts) == 2:
        _check_no_split(config)
        check_disjoint(*parts, where=config.data)
        return *parts, None
    split = _split(config, parts[0].classes)
    index = {name: c for c, name in enumerate(parts[0].classes)}
    train, test = (parts[0].select([index[name] for name in names]) for names in (split.train or (), split.test))
    return train, test, split


def check_disjoint(train: LabelledImages, test: LabelledImages, where: str) -> None:
    both = sorted(set(train.classes) & set(test.classes))
    if both:
        raise InputError(
            f"the training and the test part of {where} must not share classes (found {len(both)}, for example "
            f"{both[0]!r}): remove them from one part, because a few-shot network is tested on new classes"
        )


def _photos(config: DataConfig, data_root: Path | None, progress: Progress) -> tuple[LabelledImages, LabelledImages]:
    wanted, found = (CHANNELS, PHOTO_SIDE, "none"), (config.channels, config.image_size, config.prepare)
    if found != wanted:
        settings = [f"channels {c}, image_size {size} and prepare {prepare}" for c, size, prepare in (wanted, found)]
        raise InputError(
            f"{CIFAR_FS} needs {settings[0]} (found {settings[1]}): use settings or weights for such photos"
        )
    if config.holdout not in (0, VALIDATION):
        raise InputError(
            f"holdout must be {VALIDATION} for {CIFAR_FS}, to test on its validation classes, or 0 (found "
            f"{config.holdout})"
        )
    train = cifar_fs("train", data_root, progress)
    return train, cifar_fs("validation" if config.holdout else "test", data_root, progress)


def _drawn(config: DataConfig, data_root: Path | None, progress: Progress) -> tuple[LabelledImages, LabelledImages]:
    if config.channels != 1:
        raise InputError(f"channels must be 1 for {config.data}, which is grey (found {config.channels})")
    size = config.image_size
    needed = 4 * DRAWN_IMAGES * size**2  # with rotations
    if needed > memory():
        found = f"found {size}, which needs {megabytes(needed)}"
        raise InputError(f"image_size is too large for the memory of this machine ({found}): choose a smaller one")
    if config.data in ("omniglot", VINYALS):
        train = omniglot("train", size, data_root, progress, prepare=config.prepare, variants=config.variants)
        some = config.variants if config.data == VINYALS else 0  # of the second part, which has training characters too
        test = omniglot("test", size, data_root, progress, prepare=config.prepare, variants=some)
        return split_like_vinyals(train, test) if config.data == VINYALS else (train, test)

    def draw(size: int = size) -> LabelledImages:
        progress("drawing strokes", 0, 1)
        images = strokes(size=size)
        progress("drawing strokes", 1, 1)
        return images

    # The name contains a hash of the source file, so that a change to the drawing code invalidates the cache.
    version = hashlib.sha256(Path(strokes.__code__.co_filename).read_bytes()).hexdigest()[:8]
    name = f"strokes-{size}-{version}"
    if config.prepare != "ink":
        images = cached_images(name, size, draw)
    else:
        images = prepared_images(name, lambda: draw(SIDE), size, config.variants, progress)
    return _by_alphabet(images, set(list(dict.fromkeys(images.alphabets))[-STROKES_TEST:]))


def _by_alphabet(images: LabelledImages, held_out: set[str]) -> tuple[LabelledImages, LabelledImages]:
    train = [c for c in range(images.way) if images.alphabets[c] not in held_out]
    test = [c for c in range(images.way) if images.alphabets[c] in held_out]
    return images.select(train), images.select(test)


def folder(
    root: Path, config: DataConfig, progress: Progress = silent, files: dict[str, list[Path]] | None = None
) -> LabelledImages:
    """Load the images `root/CLASS/IMAGE`, or those in `files` by class, resized or prepared, with bright ink."""
    size, channels = config.image_size, config.channels
    files = files or class_files(root)
    paths = [path for images in files.values() for path in images]
    counts = torch.tensor([len(images) for images in files.values()])

    prepare = config.prepare == "ink"
    crop = config.prepare == "crop"
    convert = reduced_grey if prepare else partial(resize, size=size, channels=channels, crop=crop)
    decode = partial(read_image, convert=convert, size=WORK if prepare else size)
    decoded = []
    for i, image in enumerate(in_threads(lambda path, large: decode(path, str(path), large=large), paths)):
        decoded.append(image)
        progress(f"reading {root.name}", i + 1, len(paths))
    names = tuple(files), (root.name,) * len(files)
    if prepare:
        images, variants = prepared(decoded, size, config.variants, progress)
        return LabelledImages(images, counts, *names, variants=variants)
    pixels = np.stack(decoded).reshape(-1, channels, size, size)
    # Unlike `ink`, this is never `detect` for colour images.
    return LabelledImages(torch.from_numpy(with_bright_ink(pixels, config.ink_of_new_images)), counts, *names)


def _from_folder(config: DataConfig, progress: Progress) -> tuple[LabelledImages, LabelledImages, ClassSplit | None]:
    root = Path(config.data)
    if all((root / part).is_dir() for part in ("train", "test")):
        _check_no_split(config)
        train, test = (folder(root / part, config, progress) for part in ("train", "test"))
        check_disjoint(train, test, where=str(root))
        return train, test, None
    files = class_files(root)
    split = _split(config, tuple(files))
    assert split.train
    images = folder(root, config, progress, {name: files[name] for name in (*split.train, *split.test)})
    C = len(split.train)
    return images.select(range(C)), images.select(range(C, images.way)), split
