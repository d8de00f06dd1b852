"""A person's own images: `root/CLASS/IMAGE`, or `root/train/CLASS/IMAGE` and `root/test/CLASS/IMAGE`."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.data.picture import class_files, fit, open_image
from gaussproto.errors import InputError


def folder(
    root: Path, size: int = 28, channels: int = 1, invert: bool = False, progress: Progress = silent
) -> LabelledImages:
    """Every image of every class, brought to one size; classes and images in the order of their names.

    Files with other endings and hidden ones are passed over; a file that is named as an image and is none is an error.
    """
    files = class_files(root)
    paths = [path for images in files.values() for path in images]

    def decode(path: Path) -> np.ndarray:
        return fit(open_image(path, str(path)), size, channels)

    pixels = np.empty((len(paths), channels, size, size), dtype=np.uint8)
    with ThreadPoolExecutor() as pool:
        for i, image in enumerate(pool.map(decode, paths)):
            pixels[i] = image
            progress(f"reading {root.name}", i + 1, len(paths))
    if invert:
        pixels = 255 - pixels
    return LabelledImages(
        torch.from_numpy(pixels),
        torch.tensor([len(images) for images in files.values()]),
        tuple(files),
        (root.name,) * len(files),
    )


def split_classes(images: LabelledImages, test_fraction: float) -> tuple[LabelledImages, LabelledImages]:
    """Hold out about that share of the classes. A class's name decides, so it stays on its side when others come or go.

    Only where that would leave fewer than two classes on a side are the nearest moved.
    """

    def position(c: int) -> float:
        return int.from_bytes(hashlib.sha256(images.classes[c].encode()).digest()[:6]) / 2**48

    if images.way < 4:
        raise InputError(
            f"{images.alphabets[0]} has {images.way} classes: training and test need at least two each, so add classes"
        )
    order = sorted(range(images.way), key=position)
    held_out = sum(position(c) < test_fraction for c in order)
    held_out = min(max(2, held_out), images.way - 2)
    return images.select(sorted(order[held_out:])), images.select(sorted(order[:held_out]))
