"""Weights files: found by a name or a path, and what they say of themselves. Without torch."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from gaussproto.config import NetworkConfig, RunConfig, parse_config
from gaussproto.errors import InputError
from gaussproto.files import digest_of_arrays
from gaussproto.pretrained import bundled, bundled_names

if TYPE_CHECKING:
    import numpy as np

TRAINING = ("optimizer/", "generator")  # names of what a run goes on from beside the weights


def weights_file(target: str) -> Path:
    """The last weights of a run folder; or one file, by its path or as the name of bundled weights."""
    path = Path(target)
    if path.is_dir():
        last = path / "checkpoints" / "last.safetensors"
        if not (path / "config.json").exists():
            raise InputError(f"{path} is not a run folder: it has no config.json")
        if not last.exists():
            raise InputError(f"{path} has no checkpoint yet: continue its training with --resume")
        return last
    file = path if path.suffix == ".safetensors" else bundled(target)
    if file is None:
        near = difflib.get_close_matches(target, bundled_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"bundled weights are {', '.join(bundled_names()) or 'none'}"
        raise InputError(f"there is no run folder, .safetensors file or bundled weights {target!r}: {hint}")
    if not file.is_file():
        raise InputError(f"there is no weights file {file}")
    return file


def read_metadata(path: Path) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration that weights were trained with, and where their run stood."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
    except FileNotFoundError:
        raise InputError(f"there is no weights file {path}") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a readable safetensors file ({error})") from error
    if "config" not in metadata or "position" not in metadata:
        raise InputError(f"{path} holds no weights of an image network: it is a head, or was written by something else")
    try:
        config, position = json.loads(metadata["config"]), json.loads(metadata["position"])
        position["transform"]
    except (json.JSONDecodeError, TypeError, KeyError) as error:
        raise InputError(f"{path} says nothing readable of its weights ({error}): make it again") from None
    try:
        return parse_config(config), position
    except InputError as error:
        raise InputError(f"{path} was written by another version of gaussproto ({error}): install that one") from None


def weights_digest(path: Path) -> str:
    """The digest of the network in a file, be it of half precision or with the state of its training beside it."""
    from safetensors.numpy import load_file

    config, position = read_metadata(path)
    arrays = {
        name: array.astype("float32") if array.dtype == "float16" else array
        for name, array in load_file(path).items()
        if not name.startswith(TRAINING)
    }
    return digest_of(config.network.model_copy(update={"transform": position["transform"]}), arrays)


def digest_of(config: NetworkConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of what a network computes: its settings and weights, not the file they are in."""
    return digest_of_arrays(config.model_dump_json(exclude_defaults=True), arrays)


def starting_from(target: str, config: RunConfig) -> RunConfig:
    """The run with these weights to start from, and with the network and the look of the images that they know."""
    path = weights_file(target)
    known, position = read_metadata(path)
    tree = config.model_dump()
    tree["network"] = known.network.model_dump() | {"transform": position["transform"]}
    tree["data"] |= known.data.look()
    tree["training"] |= {"init": target, "init_digest": weights_digest(path)}
    return parse_config(tree)
