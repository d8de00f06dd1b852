"""Find the files of a published data set, or download them, and read zip files and folders safely."""

import os
import zipfile
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from gaussproto.data.cache import cache_folder
from gaussproto.errors import InputError
from gaussproto.files import megabytes, read_file

LARGEST_IMAGE_FILE = 20_000  # bytes; the published drawings have fewer than 500 and the photos fewer than 4,000


def named_root(data_root: Path | None = None) -> Path | None:
    name = os.environ.get("GAUSSPROTO_DATA")
    return data_root or (Path(name) if name else None)


def find_source(names: Sequence[str], folder: str, data_root: Path | None = None) -> Path | None:
    """Return the first file or folder with one of the names in the data root, in its `folder`, or in the cache's."""
    root = named_root(data_root)
    if root and not root.is_dir():
        raise InputError(f"the data root {root} is not a folder: pass the folder that contains {names[0]}")
    places = [*([root, root / folder] if root else []), cache_folder() / folder]
    return next((path for place in places for name in names if (path := place / name).exists()), None)


def read_images(source: Path, name: str, endings: tuple[str, ...], largest_zip: int) -> dict[str, bytes]:
    """Return every file of a zip or folder with one of the endings by its path. In a folder, it begins with `name`."""
    if source.is_dir():
        paths = (path for path in source.rglob("*") if path.name.endswith(endings))
        return {
            f"{name}/{path.relative_to(source).as_posix()}": read_file(path, "image file", LARGEST_IMAGE_FILE)
            for path in paths
        }
    try:
        content = BytesIO(read_file(source, "zip file", largest_zip))
        with zipfile.ZipFile(content) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(endings)]
            for entry in entries:
                size = max(entry.file_size, entry.compress_size)
                if size > LARGEST_IMAGE_FILE or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    found = f"found {megabytes(size)}" if size > LARGEST_IMAGE_FILE else "found another compression"
                    limit = f"at most {LARGEST_IMAGE_FILE:,} bytes, stored or deflated ({found})"
                    raise InputError(f"{entry.filename} in {source} must have {limit}: download the zip again")
            return {entry.filename: archive.read(entry) for entry in entries}
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError) as error:
        raise InputError(f"{source} is not a readable zip file ({error}): remove it and download it again") from error
