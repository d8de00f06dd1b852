"""Weights that come with the package: `NAME.safetensors`, a card `NAME.md`, and `checksums.json` of all weights."""

from pathlib import Path

from gaussproto.errors import InputError
from gaussproto.files import read_json

FOLDER = Path(__file__).parent
PHOTO_HEAD = "photo-head"  # of the encoder `photo`; it needs the features of another network
REPLACED = {"omniglot-small": "drawings-small", "omniglot-big": "drawings-big"}  # earlier names of weights


def bundled_names() -> list[str]:
    """Return the names of the networks."""
    return sorted(set(_checksums()) - {PHOTO_HEAD})


def current_name(name: str) -> str:
    """Return the name of the weights that replaced those of an earlier name. Other names stay as they are.

    >>> current_name("omniglot-small"), current_name("my.safetensors")
    ('drawings-small', 'my.safetensors')
    """
    return REPLACED.get(name, name)


def bundled(name: str) -> Path | None:
    name = current_name(name)
    return _file(name) if name in bundled_names() else None


def bundled_head() -> Path:
    """Return the file of the head of the photo encoder."""
    return _file(PHOTO_HEAD)


def _file(name: str) -> Path:
    path = FOLDER / f"{name}.safetensors"
    if not path.exists():
        raise InputError(f"the bundled weights {name} are missing ({path}): install gaussproto again")
    return path


def is_bundled(path: Path) -> bool:
    return path.resolve().parent == FOLDER.resolve()


def check_bundled(path: Path, checksum: str) -> None:
    """Raise InputError if bundled weights are not those that the package came with."""
    if checksum != _checksums().get(path.stem):
        problem = f"the bundled weights {path} are not those that gaussproto came with"
        raise InputError(f"{problem}: install gaussproto again")


def _checksums() -> dict[str, str]:
    return dict(read_json(FOLDER / "checksums.json"))
