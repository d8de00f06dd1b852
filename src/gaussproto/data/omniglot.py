"""Find or download Omniglot (Lake, Salakhutdinov, Tenenbaum 2015), verify it, and decode it once."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image

from gaussproto.data.cache import cache_folder, cached_images
from gaussproto.data.download import download
from gaussproto.data.images import LabelledImages
from gaussproto.data.picture import open_image, resize
from gaussproto.data.prepare import prepared_images
from gaussproto.data.sources import find_source, named_root, read_images
from gaussproto.errors import InputError
from gaussproto.progress import Progress, silent
from gaussproto.setting_types import Prepare

URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
DRAWINGS = 20  # of each character, each by a different person
SIDE = 105  # of a published image, in pixels
LARGEST_ZIP = 50_000_000  # bytes; the published files have fewer than 10 million


@dataclass(frozen=True)
class Part:
    """One of the two parts that the authors published. No alphabet is in both."""

    name: str
    alphabets: str  # NAME:NUMBER_OF_CHARACTERS of each alphabet
    md5: str  # of the published zip
    digest: str  # SHA-256 of the names and pixels, independent of the packing

    @property
    def characters(self) -> list[str]:
        pairs = [entry.split(":") for entry in self.alphabets.split()]
        return [f"{name}/character{i:02d}" for name, count in pairs for i in range(1, int(count) + 1)]


BACKGROUND = Part(
    name="images_background",
    alphabets="""
    Alphabet_of_the_Magi:20 Anglo-Saxon_Futhorc:29 Arcadian:26 Armenian:41 Asomtavruli_(Georgian):40 Balinese:24
    Bengali:46 Blackfoot_(Canadian_Aboriginal_Syllabics):14 Braille:26 Burmese_(Myanmar):34 Cyrillic:33
    Early_Aramaic:22 Futurama:26 Grantha:43 Greek:24 Gujarati:48 Hebrew:22
    Inuktitut_(Canadian_Aboriginal_Syllabics):16 Japanese_(hiragana):52 Japanese_(katakana):47 Korean:40 Latin:26
    Malay_(Jawi_-_Arabic):40 Mkhedruli_(Georgian):41 N_Ko:33 Ojibwe_(Canadian_Aboriginal_Syllabics):14 Sanskrit:42
    Syriac_(Estrangelo):23 Tagalog:17 Tifinagh:55
    """,
    md5="68d2efa1b9178cc56df9314c21c6e718",
    digest="48a0b1fcf6e14e64c64d6026ebd0b0eece1b746a596ef49b15bf1b59d935cce0",
)
EVALUATION = Part(
    name="images_evaluation",
    alphabets="""
    Angelic:20 Atemayar_Qelisayer:26 Atlantean:26 Aurek-Besh:26 Avesta:26 Ge_ez:26 Glagolitic:45 Gurmukhi:45
    Kannada:41 Keble:26 Malayalam:47 Manipuri:40 Mongolian:30 Old_Church_Slavonic_(Cyrillic):45 Oriya:46 Sylheti:28
    Syriac_(Serto):23 Tengwar:25 Tibetan:42 ULOG:26
    """,
    md5="6b91aef0f799c5bb55b94e3f2daec811",
    digest="b16131e11b20f651b7c7237507574d2d2afdea54af2d3a02c1498c700cc00197",
)
PARTS: dict[str, Part] = {"train": BACKGROUND, "test": EVALUATION}


def omniglot(
    split: Literal["train", "test"], size: int = 28, data_root: Path | None = None, progress: Progress = silent,
    renew: bool = False, prepare: Prepare = "none", variants: int = 0,
) -> LabelledImages:  # fmt: skip
    """Load the 30 background alphabets (train) or the 20 evaluation alphabets (test), with bright ink.

    `data_root` is the folder with the zips or the extracted folders. By default, `GAUSSPROTO_DATA` and then the user's
    cache are searched, and missing files are downloaded. With `renew`, the files are read again and the cache is
    replaced. For `prepare` and `variants`, see `DataConfig`.
    """
    part = PARTS[split]
    if data_root is not None:
        find_or_fetch(part, data_root)  # refuses a wrong folder, even if the images are cached
    name = f"omniglot-{part.name}-{size}-{part.digest[:8]}"

    def decode(size: int = size) -> LabelledImages:
        return decode_verified(part, find_or_fetch(part, data_root, progress), size, progress)

    if prepare != "ink":
        return cached_images(name, size, decode, renew)
    return prepared_images(name, lambda: decode(SIDE), size, variants, progress, renew)


def find(part: Part, data_root: Path | None = None) -> Path | None:
    return find_source((f"{part.name}.zip", part.name), "omniglot", data_root)


def find_or_fetch(part: Part, data_root: Path | None = None, progress: Progress = silent, url: str = URL) -> Path:
    """Find a part, or download it to the user's cache. Raise InputError if the user named a folder without it."""
    if path := find(part, data_root):
        return path
    if root := named_root(data_root):
        raise InputError(
            f"{root} contains neither {part.name}.zip nor a folder {part.name}: set --data-root or GAUSSPROTO_DATA to "
            "another folder, or leave out both to download Omniglot"
        )
    file = f"{part.name}.zip"
    return download(f"{url}/{file}", cache_folder() / "omniglot" / file, part.md5, progress)


def decode_verified(part: Part, source: Path, size: int, progress: Progress = silent) -> LabelledImages:
    """Decode a zip or folder to images with bright ink. Raise InputError if its content is not Omniglot."""
    files = published_files(part, source)
    digest = hashlib.sha256()
    pixels = np.empty((len(files), size, size), dtype=np.uint8)
    for i, (name, content) in enumerate(files.items()):  # without threads, which slow down images this small
        image = open_image(content, f"{source}: {name}")
        if image.size != (SIDE, SIDE):
            sides = f"{SIDE} x {SIDE} pixels (found {image.width} x {image.height})"
            raise InputError(f"{name} in {source} must have {sides}: extract or download it again")
        digest.update(name.encode() + image.convert("1", dither=Image.Dither.NONE).tobytes())
        pixels[i] = 255 - resize(image, size)
        if i % 500 == 499 or i + 1 == len(files):
            progress(f"decoding {part.name}", i + 1, len(files))
    if digest.hexdigest() != part.digest:
        raise InputError(
            f"the images in {source} are not those of Omniglot (expected the digest {part.digest[:12]}, found "
            f"{digest.hexdigest()[:12]}): remove them and download them again"
        )
    characters = tuple(part.characters)
    counts, alphabets = torch.full((len(characters),), DRAWINGS), tuple(name.split("/")[0] for name in characters)
    return LabelledImages(torch.from_numpy(pixels)[:, None], counts, characters, alphabets)


def published_files(part: Part, source: Path) -> dict[str, bytes]:
    """Return the PNG files of a part by name, in order. Raise InputError if some are missing or do not belong to it."""
    files = read_files(part, source)
    drawings: dict[str, list[str]] = {f"{part.name}/{character}": [] for character in part.characters}
    for name in sorted(files):
        character, _, _ = name.rpartition("/")
        if character not in drawings:
            raise InputError(f"{name} in {source} does not belong to Omniglot's {part.name}: remove it")
        drawings[character].append(name)
    for character, names in drawings.items():
        if [name[-7:] for name in names] != [f"_{i:02d}.png" for i in range(1, DRAWINGS + 1)]:
            raise InputError(
                f"{character} in {source} must have the {DRAWINGS} drawings *_01.png to *_20.png (found {len(names)} "
                "files): extract or download it again"
            )
    return {name: files[name] for names in drawings.values() for name in names}


def read_files(part: Part, source: Path, endings: tuple[str, ...] = (".png",)) -> dict[str, bytes]:
    """Return every file with one of the endings by its path. In a folder, the path begins with the name of the part."""
    return read_images(source, part.name, endings, LARGEST_ZIP)
