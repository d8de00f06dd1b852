"""A person's own images: `root/CLASS/IMAGE`, or `root/train/CLASS/IMAGE` and `root/test/CLASS/IMAGE`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.data.ink import Ink, with_bright_ink
from gaussproto.data.picture import class_files, fit, open_image


def folder(
    root: Path, size: int = 28, channels: int = 1, ink: Ink = "bright", progress: Progress = silent
) -> LabelledImages:
    """Every image of every class, brought to one size, its ink bright; classes and images in the order of their names.

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
    return LabelledImages(
        torch.from_numpy(with_bright_ink(pixels, ink)),
        torch.tensor([len(images) for images in files.values()]),
        tuple(files),
        (root.name,) * len(files),
    )
