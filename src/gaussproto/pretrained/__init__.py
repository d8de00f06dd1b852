"""Weights that come with the package: `NAME.safetensors`, a card `NAME.md`, and the digests of all, `digests.json`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gaussproto.errors import InputError

HERE = Path(__file__).parent


def bundled_names() -> list[str]:
    """What can be named in place of a weights file."""
    return sorted(json.loads((HERE / "digests.json").read_text()))


def bundled(name: str) -> Path | None:
    """The weights file of that name, checked against its digest; None if no bundled weights are called so."""
    digest = json.loads((HERE / "digests.json").read_text()).get(name)
    if digest is None:
        return None
    path = HERE / f"{name}.safetensors"
    if not path.exists():
        raise InputError(f"the bundled weights {name} are missing ({path}): install gaussproto again")
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise InputError(f"the bundled weights {path} are not those that gaussproto came with: install it again")
    return path
