"""Weights files: found by a name or a path, and what they say of themselves. Without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError
from safetensors.numpy import save_file

from gaussproto.config import NetworkConfig, RunConfig, parse_config
from gaussproto.errors import InputError, did_you_mean
from gaussproto.files import digest_of_arrays, read_safetensors, write_then_rename
from gaussproto.formulas.confidence import Calibration
from gaussproto.pretrained import bundled, bundled_names, check_digest

if TYPE_CHECKING:
    import numpy as np

TRAINING = ("optimizer/", "generator")  # names of what a resumed run needs beside the weights
CALIBRATION = "calibration"  # in the header of a weights file


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
        hint = did_you_mean(target, bundled_names(), f"bundled weights are {', '.join(bundled_names()) or 'none'}")
        raise InputError(f"there is no run folder, .safetensors file or bundled weights {target!r}: {hint}")
    if not file.is_file():
        raise InputError(f"there is no weights file {file}")
    return file


@dataclass(frozen=True)
class WeightsFile:
    """A weights file that was opened once: its header and its tensors."""

    path: Path
    metadata: Mapping[str, str]
    tensors: dict[str, Any]

    @cached_property
    def position(self) -> dict[str, Any]:
        """Where the run of the weights stood."""
        if "config" not in self.metadata or "position" not in self.metadata:
            problem = f"{self.path} holds no weights of an image network"
            raise InputError(f"{problem}: it is a head, or was written by something else")
        try:
            position: dict[str, Any] = json.loads(self.metadata["position"])
            position["transform"]
        except (json.JSONDecodeError, TypeError, KeyError) as error:
            raise InputError(f"{self.path} has a broken header ({error}): train or copy it again") from None
        return position

    @cached_property
    def run(self) -> RunConfig:
        """The configuration that the weights were trained with."""
        _ = self.position  # says what is wrong with a file of something else
        try:
            return parse_config(json.loads(self.metadata["config"]))
        except (InputError, json.JSONDecodeError) as error:
            problem = f"{self.path} was written by another version of gaussproto ({error})"
            raise InputError(f"{problem}: install that one") from None

    @property
    def calibration(self) -> Calibration | None:
        content = self.metadata.get(CALIBRATION)
        try:
            return Calibration.model_validate_json(content) if content else None
        except ValidationError as error:
            problem = f"{self.path} has a broken calibration ({error.errors()[0]['msg']})"
            raise InputError(f"{problem}: run `gaussproto calibrate` again") from None

    @property
    def network_config(self) -> NetworkConfig:
        """The settings of the network as it stands: the transform changes during some runs."""
        return self.run.network.model_copy(update={"transform": self.position["transform"]})

    @property
    def weights(self) -> dict[str, Any]:
        return {name: t for name, t in self.tensors.items() if not name.startswith(TRAINING)}

    @property
    def digest(self) -> str:
        return digest_of(self.network_config, single_precision(self.weights))


def open_weights(path: Path, framework: Literal["pt", "np"] = "np") -> WeightsFile:
    """Read a weights file; bundled weights are checked against their digest."""
    metadata, tensors, digest = read_safetensors(path, framework=framework)
    check_digest(path, digest)
    return WeightsFile(path, metadata, tensors)


def weights_digest(path: Path) -> str:
    """The digest of the network in a file, with half precision or the state of its training or without."""
    return open_weights(path).digest


def single_precision(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights as they compute: bundled ones are stored in half precision."""
    return {name: a.astype("float32") if a.dtype == "float16" else a for name, a in arrays.items()}


def digest_of(config: NetworkConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of what a network computes: its settings and weights, not the file they are in."""
    return digest_of_arrays(config.model_dump_json(exclude_defaults=True), arrays)


def starting_from(target: str, config: RunConfig) -> RunConfig:
    """The run with these weights to start from, and with the network and the kind of images that they know."""
    file = open_weights(weights_file(target))
    tree = config.model_dump()
    tree["network"] = file.network_config.model_dump()
    tree["data"] |= file.run.data.appearance()
    tree["training"] |= {"init": target, "init_digest": file.digest}
    return parse_config(tree)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Put a calibration into a weights file; a training that goes on writes other weights, without it."""
    file = open_weights(path)
    with write_then_rename(path) as temporary:
        save_file(file.tensors, temporary, {**file.metadata, CALIBRATION: calibration.model_dump_json()})
