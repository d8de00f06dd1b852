"""Image files: found, decoded, brought to the size and channels that a network takes. Without torch."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from gaussproto.errors import InputError

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm", ".pbm"}
LARGEST_SIDE = 20_000  # pixels
TURNS = {  # what undoes each orientation of the EXIF standard
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def class_files(root: Path) -> dict[str, list[Path]]:
    """The image files of each class of `root/CLASS/IMAGE`, in the order of their names."""
    if not root.is_dir():
        raise InputError(f"there is no folder {root}: name one of CLASS/IMAGE files")
    files = {
        path.name: image_files(path)
        for path in sorted(root.iterdir())
        if path.is_dir() and not path.name.startswith(".")
    }
    if not files:
        raise InputError(
            f"{root} has no class in it: give each class a folder of its own, as in {root}/CLASS/IMAGE.png"
        )
    for name, images in files.items():
        if not images:
            endings = ", ".join(sorted(ENDINGS))
            raise InputError(f"class {name!r} of {root} has no image ({endings}): add some or remove the folder")
    return files


def image_files(folder: Path) -> list[Path]:
    """The files of a folder that are named as images, in the order of their names."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith("."))


def open_image(source: bytes | Path, name: str) -> Image.Image:
    """Decode an image file, upright, transparency on white; a file that is no image is named in the error."""
    try:
        with Image.open(BytesIO(source) if isinstance(source, bytes) else source) as file:
            check_sides(file.size, name)  # before anything of that size is in memory
            file.load()
            return plain(file, name)
    except InputError:
        raise
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{name} is not a readable image ({error}): replace or remove it") from error


def check_sides(size: tuple[int, int], name: str) -> None:
    """Say so if an image has no pixels, or more to a side than any image of one thing needs."""
    if min(size) < 1 or max(size) > LARGEST_SIDE:
        raise InputError(
            f"{name} is {size[0]} x {size[1]} pixels: give an image with from 1 to {LARGEST_SIDE:,} a side"
        )


def plain(image: Image.Image, name: str) -> Image.Image:
    """An image upright as its camera says, of 8 bits to a pixel, transparency on white; errors call it by its name."""
    image = _upright(image)
    if image.mode[0] in "IF":
        return Image.fromarray(_eight_bits(np.asarray(image), name))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image


def _eight_bits(pixels: np.ndarray, name: str) -> np.ndarray:
    """Pixels of 16 bits; what has more is too rarely between known limits to be guessed."""
    low, high = pixels.min(), pixels.max()
    if pixels.dtype.kind == "f" or low < 0 or high > 65535:
        raise InputError(
            f"{name} has pixels from {low:g} to {high:g}, which does not say what is black and what is white: "
            "save it with 8 or 16 bits"
        )
    return (pixels if pixels.dtype.itemsize > 2 and high < 256 else pixels >> 8).astype(np.uint8)


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its camera says. Cameras write other things wrong, so nothing else of what they say is read."""
    turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return image if turn is None else image.transpose(turn)


def fit(image: Image.Image, size: int, channels: int = 1) -> np.ndarray:
    """An image as uint8, (size, size) if grey or (3, size, size), anti-aliased.

    Thin strokes survive because every pixel of the image counts towards the pixels it falls on; plain bilinear sampling
    would skip some of them.
    """
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)
    return pixels if channels == 1 else pixels.transpose(2, 0, 1)
