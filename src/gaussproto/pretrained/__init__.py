"""Weights that come with the package: `NAME.safetensors`, a card `NAME.md`, and the digests of all, `digests.json`."""

from pathlib import Path

from gaussproto.errors import InputError
from gaussproto.files import read_json

FOLDER = Path(__file__).parent


def bundled_names() -> list[str]:
    return sorted(_digests())


def bundled(name: str) -> Path | None:
    if name not in _digests():
        return None
    path = FOLDER / f"{name}.safetensors"
    if not path.exists():
        raise InputError(f"the bundled weights {name} are missing ({path}): install gaussproto again")
    return path


def is_bundled(path: Path) -> bool:
    return path.resolve().parent == FOLDER.resolve()


def check_digest(path: Path, digest: str) -> None:
    """Raise InputError if bundled weights are not those that the package came with."""
    if is_bundled(path) and digest != _digests().get(path.stem):
        problem = f"the bundled weights {path} are not those that gaussproto came with"
        raise InputError(f"{problem}: install gaussproto again")


def _digests() -> dict[str, str]:
    return dict(read_json(FOLDER / "digests.json"))
