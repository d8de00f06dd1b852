"""Find or download CIFAR-100 (Krizhevsky 2009), verify it, decode it once, and split it as CIFAR-FS.

CIFAR-FS (Bertinetto et al. 2019) divides the 100 classes into 64 for training, 16 for validation and 20 for testing.
The files of CIFAR-100 number the photos of a class differently, so here they are in the order of the hashes of
their pixels.
"""

import hashlib
import json
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image

from gaussproto.data.cache import cache_folder, cached_images
from gaussproto.data.download import download
from gaussproto.data.images import LabelledImages
from gaussproto.data.picture import open_image
from gaussproto.data.sources import find_source, named_root, read_images
from gaussproto.errors import InputError
from gaussproto.progress import Progress, silent

NAME = "cifar-fs"
FOLDER = "cifar100"  # of the data root or the cache, and of the images in it
ZIP = f"{FOLDER}.zip"  # FOLDER/CLASS/IMAGE.png
ARCHIVE = "cifar-100-binary.tar.gz"  # as published
URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
MD5 = "03b5dce01913d631647c71ecec9e9cb8"  # of the published archive
DIGEST = "a0233d6d7a8e131fd07624480aff8b7e6df9650251967335bcdeb51da296ffef"  # SHA-256 of names and pixels
SIDE, CHANNELS, PHOTOS = 32, 3, 600  # of each class
RECORDS = {"train.bin": 50_000, "test.bin": 10_000}
PIXELS = CHANNELS * SIDE * SIDE
LARGEST_ZIP = 400_000_000  # bytes
VALIDATION = 16  # classes

Part = Literal["train", "validation", "test"]
Photos = dict[str, Sequence[np.ndarray]]  # class -> 600 times (3, 32, 32), uint8


@cache
def class_names() -> dict[str, dict[str, str]]:
    """Return the classes of each part with their superclasses."""
    tree: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("cifar_fs.json").read_text())
    return tree


def cifar_fs(
    part: Part, data_root: Path | None = None, progress: Progress = silent, renew: bool = False
) -> LabelledImages:
    """Load the photos of the classes for training, for validation or for testing: 600 of each, 3 x 32 x 32.

    `data_root` is the folder with cifar100.zip or the published archive. By default, `GAUSSPROTO_DATA` and then the
    user's cache are searched, and the archive is downloaded if needed. With `renew`, the files are read again and the
    cache is replaced. The alphabets of the images are the superclasses.
    """
    if data_root is not None:
        find_or_fetch(data_root)  # refuses a wrong folder, even if the images are cached

    def decode() -> LabelledImages:
        return decode_verified(find_or_fetch(data_root, progress), progress)

    images = cached_images(f"cifar100-{DIGEST[:8]}", SIDE, decode, renew, CHANNELS)
    chosen = class_names()[part]
    return images.select([c for c, name in enumerate(images.classes) if name in chosen])


def find(data_root: Path | None = None) -> Path | None:
    return find_source((ZIP, FOLDER, ARCHIVE), FOLDER, data_root)


def find_or_fetch(data_root: Path | None = None, progress: Progress = silent) -> Path:
    """Find the photos, or download them to the user's cache. Raise InputError if the user named a folder without."""
    if path := find(data_root):
        return path
    if root := named_root(data_root):
        raise InputError(
            f"{root} contains neither {ZIP} nor {ARCHIVE}: set --data-root or GAUSSPROTO_DATA to another folder, or "
            "leave out both to download CIFAR-100"
        )
    return download(URL, cache_folder() / FOLDER / ARCHIVE, MD5, progress)


def decode_verified(source: Path, progress: Progress = silent) -> LabelledImages:
    """Decode a zip, a folder or the published archive. Raise InputError if its content is not CIFAR-100."""
    names = sorted(name for part in class_names().values() for name in part)
    photos = _of_archive(source, names) if source.name == ARCHIVE else _of_files(source, names, progress)
    superclass = {name: group for part in class_names().values() for name, group in part.items()}
    digest = hashlib.sha256()
    pixels = np.empty((len(names), PHOTOS, CHANNELS, SIDE, SIDE), dtype=np.uint8)
    for name, ordered in zip(names, pixels, strict=True):
        some = photos[name]
        if len(some) != PHOTOS:
            found = f"{name} must have {PHOTOS} photos, but has {len(some)}"
            raise InputError(f"{source} is incomplete ({found}): download it again")
        ordered[:] = sorted(some, key=lambda photo: hashlib.sha256(photo.tobytes()).digest())
        digest.update(name.encode() + ordered.tobytes())
    if digest.hexdigest() != DIGEST:
        raise InputError(
            f"the photos in {source} are not those of CIFAR-100 (expected the digest {DIGEST[:12]}, found "
            f"{digest.hexdigest()[:12]}): remove them and download them again"
        )
    counts = torch.full((len(names),), PHOTOS)
    images = torch.from_numpy(pixels).flatten(0, 1)
    return LabelledImages(images, counts, tuple(names), tuple(superclass[name] for name in names))


def _of_files(source: Path, names: list[str], progress: Progress) -> Photos:
    """Decode FOLDER/CLASS/IMAGE.png in a zip or a folder."""
    decoded: dict[str, list[np.ndarray]] = {name: [] for name in names}
    files = read_images(source, FOLDER, (".png",), LARGEST_ZIP)
    for i, (path, content) in enumerate(files.items()):
        folder, _, rest = path.partition("/")
        name, _, file = rest.partition("/")
        if folder != FOLDER or name not in decoded or "/" in file:
            raise InputError(f"{path} in {source} does not belong to CIFAR-100: remove it")
        image = open_image(content, f"{source}: {path}")
        if image.size != (SIDE, SIDE):
            sides = f"{SIDE} x {SIDE} pixels (found {image.width} x {image.height})"
            raise InputError(f"{path} in {source} must have {sides}: download it again")
        decoded[name].append(_pixels(image))
        if i % 500 == 499 or i + 1 == len(files):
            progress("decoding photos", i + 1, len(files))
    return {**decoded}


def _pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def _of_archive(source: Path, names: list[str]) -> Photos:
    """Read the records of the published archive: superclass, class, and pixels channel by channel."""
    content = dict(_members(source))
    labels = content.pop("fine_label_names.txt").decode(errors="replace").split()
    if labels != names:
        raise InputError(f"{source} does not name the classes of CIFAR-100: remove it and download it again")
    for file, count in RECORDS.items():
        if len(content[file]) != count * (2 + PIXELS):
            found = f"{file} must have {count * (2 + PIXELS):,} bytes (found {len(content[file]):,})"
            raise InputError(f"{source} is incomplete: {found}: remove it and download it again")
    records = np.frombuffer(b"".join(content[file] for file in RECORDS), dtype=np.uint8).reshape(-1, 2 + PIXELS)
    classes, pixels = records[:, 1], records[:, 2:].reshape(-1, CHANNELS, SIDE, SIDE)
    return {name: list(pixels[classes == c]) for c, name in enumerate(names)}


def _members(source: Path) -> Iterator[tuple[str, bytes]]:
    """Read the files that are needed, without extracting the archive."""
    limits = {"fine_label_names.txt": 10_000} | {file: count * (2 + PIXELS) for file, count in RECORDS.items()}
    try:
        with tarfile.open(source, "r:gz") as archive:
            for file, limit in limits.items():
                member = archive.extractfile(f"cifar-100-binary/{file}")
                if member is None:
                    raise KeyError(f"{file} is not a file")
                yield file, member.read(limit + 1)
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{source} is not the archive of CIFAR-100 ({error}): download it again") from error
