"""Find, decode and resize image files, and make their ink bright. Imports no torch."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from gaussproto.errors import InputError, is_unicode
from gaussproto.files import is_folder, open_file
from gaussproto.setting_types import Ink

T = TypeVar("T")

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm", ".pbm"}
HEIC = {".heic", ".heif"}  # of phones; readable if the package pillow-heif is installed
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # by content: others may start programs, or crash
LARGEST_SIDE, LARGEST_AREA = 20_000, 50_000_000  # pixels
LARGE = 4_000_000  # pixels; of larger images only one is decoded at a time
DRAFT = 4  # times the wanted size: a JPEG is decoded at no less than this, so that resizing averages enough pixels
TURNS = (  # the transpositions that undo the EXIF orientations 2 to 8
    "FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90",
)  # fmt: skip


def class_files(root: Path) -> dict[str, list[Path]]:
    """Return the image files `root/CLASS/IMAGE` by class, sorted by name."""
    files = {path.name: image_files(path) for path in class_folders(root)}
    for name, images in files.items():
        if not images:
            inner = sorted(path.name for path in (root / name).iterdir() if path.is_dir())
            if inner:
                deeper = f"the class {name!r} of {root} has no images, only folders, for example {inner[0]!r}"
                raise InputError(f"{deeper}: put the images directly into {root}/CLASS, or pass {root / name} instead")
            endings = ", ".join(sorted(ENDINGS | HEIC))
            remedy = f"add some ({endings}) or remove its folder"
            raise InputError(f"the class {name!r} of {root} has no images: {remedy}")
    return files


def class_folders(root: Path) -> list[Path]:
    if not is_folder(root):
        problem = f"{root} is a file, not a folder" if os.path.lexists(root) else f"the folder {root} does not exist"
        raise InputError(f"{problem}: pass the folder that contains your CLASS/IMAGE files")
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    for folder in folders:
        if not is_unicode(folder.name):
            raise InputError(f"the name of the class folder {str(folder)!r} is not valid UTF-8: rename the folder")
    if not folders:
        raise InputError(f"{root} has no class folders: put the images of each class into {root}/CLASS")
    return folders


def image_files(folder: Path, recursive: bool = False) -> list[Path]:
    files = folder.rglob("*") if recursive else folder.iterdir()
    return sorted(file for file in files if file.suffix.lower() in ENDINGS | HEIC and not file.name.startswith("."))


def in_threads(read: Callable[[Any, bool], T | None], sources: Sequence[Any]) -> Iterator[T]:
    """Yield `read(source, large)` for each source, computed in threads.

    The result is None if the image is large and `large` is False. Then this thread reads it, because every thread that
    has decoded a large image keeps its memory.
    """
    with ThreadPoolExecutor() as pool:
        for source, pixels in zip(sources, pool.map(lambda source: read(source, False), sources), strict=True):
            whole = read(source, True) if pixels is None else pixels
            assert whole is not None
            yield whole


def read_image(
    source: bytes | Path, name: str, convert: Callable[[Image.Image], T], size: int, large: bool = True
) -> T | None:
    """Decode an image file and convert it to what is needed, about `size` x `size` pixels.

    Return None if the image is large and `large` is False. Errors call the image `name`.
    """
    with _opened(source, name) as file:
        if _drafted_area(file, size) > LARGE and not large:
            return None
        return convert(_decoded(file, name))


def media_type(source: bytes, name: str) -> str:
    """Return the media type of an image file, by its content."""
    with _opened(source, name) as file:
        return Image.MIME["JPEG" if file.format == "MPO" else str(file.format)]  # MPO: a JPEG with further images


def large_area(source: bytes | Path, name: str, size: int) -> int:
    """Return the pixels that `read_image` would decode, or 0 if the image is not large. Decode nothing."""
    with _opened(source, name) as file:
        area = _drafted_area(file, size)
        return area if area > LARGE else 0


def _drafted_area(file: Image.Image, size: int) -> int:
    """Prepare to decode a large JPEG at a fraction of its size. Return the pixels to decode."""
    if file.width * file.height > LARGE:
        file.draft(None, (DRAFT * size, DRAFT * size))
    return file.width * file.height


def open_image(source: bytes | Path, name: str) -> Image.Image:
    """Decode an image file and convert it with `upright_8_bit`. Errors call the image `name`."""
    with _opened(source, name) as file:
        return _decoded(file, name)


@contextmanager
def _opened(source: bytes | Path, name: str) -> Iterator[Image.Image]:
    content = nullcontext(BytesIO(source)) if isinstance(source, bytes) else open_file(source, "image file")
    try:
        with content as stream, Image.open(stream, formats=_formats(source)) as file:
            check_sides(file.size, name)  # before decoding allocates memory
            yield file
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):  # the latter only with python -W error
        raise InputError(f"{name} must have at most {LARGEST_AREA:,} pixels: resize or remove it") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        if _is_heic(source) and "HEIF" not in Image.OPEN:
            remedy = "install it (pip install 'gaussproto[heic]'), or save the image as JPEG"
            raise InputError(f"{name} is an HEIC image, which needs the package pillow-heif: {remedy}") from None
        why = _why_unknown(source) if isinstance(error, UnidentifiedImageError) else error
        raise InputError(f"{name} is not a readable image ({why}): replace or remove it") from error


def _why_unknown(source: bytes | Path) -> str:
    with suppress(OSError):  # the file may be gone
        if (len(source) if isinstance(source, bytes) else source.stat().st_size) == 0:
            return "it is empty"
    return "its format is unknown"


def _is_heic(source: bytes | Path) -> bool:
    return isinstance(source, Path) and source.suffix.lower() in HEIC


def _formats(source: bytes | Path) -> tuple[str, ...]:
    """Return the formats that a file may have. HEIC only counts for files that are named so."""
    if not _is_heic(source):
        return FORMATS
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return FORMATS
    register_heif_opener()
    return (*FORMATS, "HEIF")


def _decoded(file: Image.Image, name: str) -> Image.Image:
    file.load()
    return upright_8_bit(file, name)


def check_sides(size: tuple[int, int], name: str) -> None:
    found = f"found {size[0]} x {size[1]}"
    if min(size) < 1 or max(size) > LARGEST_SIDE:
        raise InputError(f"{name} must have sides of 1 to {LARGEST_SIDE:,} pixels ({found}): resize or remove it")
    if size[0] * size[1] > LARGEST_AREA:
        raise InputError(f"{name} must have at most {LARGEST_AREA:,} pixels ({found}): resize or remove it")


def upright_8_bit(image: Image.Image, name: str) -> Image.Image:
    """Rotate an image as its EXIF tag says, reduce it to 8 bits per channel, and replace transparency by white."""
    orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    if orientation in range(2, 9):
        image = image.transpose(Image.Transpose[TURNS[int(orientation) - 2]])
    if image.mode[0] in "IF":
        return Image.fromarray(_eight_bits(np.asarray(image), name))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image


def _eight_bits(pixels: np.ndarray, name: str) -> np.ndarray:
    """Reduce 16 bits to 8. Raise InputError for other pixels, because their black and white levels are unknown."""
    low, high = pixels.min(), pixels.max()
    if pixels.dtype.kind == "f" or low < 0 or high > 65535:
        raise InputError(
            f"{name} has pixels from {low:g} to {high:g}, so it is unclear which values are black and white: "
            "save it with 8 or 16 bits"
        )
    return (pixels if pixels.dtype.itemsize > 2 and high < 256 else pixels >> 8).astype(np.uint8)


def resize(image: Image.Image, size: int, channels: int = 1, crop: bool = False) -> np.ndarray:
    """Resize an image, with anti-aliasing, to uint8 pixels: (size, size) if grey, (3, size, size) if colour.

    Every pixel of the image contributes, so thin strokes survive. Bilinear sampling alone would skip some pixels. With
    `crop`, only the largest square in the middle contributes, and nothing is stretched.
    """
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (size, size):
        W, H = image.size
        x, y = ((W - min(W, H)) / 2, (H - min(W, H)) / 2) if crop else (0, 0)
        filter = Image.Resampling.BICUBIC if crop else Image.Resampling.BILINEAR  # as in training
        image = image.resize((size, size), filter, box=(x, y, W - x, H - y))
    pixels = np.asarray(image)
    return pixels if channels == 1 else pixels.transpose(2, 0, 1)


def with_bright_ink(images: np.ndarray, ink: Ink) -> np.ndarray:
    """Return images (N, channels, H, W) with bright ink on a dark background, inverted where needed."""
    if ink == "bright":
        return images
    if ink == "dark":
        return 255 - images
    return np.where(has_dark_ink(images)[:, None, None, None], 255 - images, images)


def has_dark_ink(images: np.ndarray) -> np.ndarray:
    """Return (N,) whether the ground, the median of all pixels, is brighter than their mean: ink is rare.

    All pixels count, because a frame or a shadow may cover the border.
    """
    grey = images.mean(axis=1)  # (N, H, W), float64
    return np.asarray(np.median(grey, axis=(1, 2)) > grey.mean(axis=(1, 2)) + 1e-9)  # a blank image has no dark ink
