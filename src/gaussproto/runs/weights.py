"""Find and read weights files. Imports no torch."""

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
from gaussproto.setting_types import first_problem

if TYPE_CHECKING:
    import numpy as np

TRAINING = ("optimizer/", "generator")  # prefixes of the tensors that only a resumed run needs
CALIBRATION = "calibration"  # key in the header of a weights file


def weights_file(target: str) -> Path:
    """Return the path of weights, given a run folder (its last checkpoint), a file or the name of bundled weights."""
    path = Path(target)
    if path.is_dir():
        last = path / "checkpoints" / "last.safetensors"
        if not (path / "config.json").exists():
            raise InputError(f"{path} is not a run folder (it has no config.json): pass the folder of a run")
        if not last.exists():
            raise InputError(f"{path} has no checkpoint yet: continue its training with --resume")
        return last
    file = path if path.suffix == ".safetensors" else bundled(target)
    if file is None:
        hint = did_you_mean(target, bundled_names(), f"the bundled weights are {', '.join(bundled_names()) or 'none'}")
        raise InputError(f"{target!r} is not a run folder, a .safetensors file or bundled weights: {hint}")
    if not file.is_file():
        raise InputError(f"the weights file {file} does not exist: check the path")
    return file


@dataclass(frozen=True)
class WeightsFile:
    """The header and the tensors of a weights file."""

    path: Path
    metadata: Mapping[str, str]
    tensors: dict[str, Any]

    @cached_property
    def position(self) -> dict[str, Any]:
        """The position of the run when it saved the weights."""
        if "config" not in self.metadata or "position" not in self.metadata:
            problem = f"{self.path} contains no weights of an image network (it may be a head)"
            raise InputError(f"{problem}: pass a checkpoint of a run")
        try:
            position: dict[str, Any] = json.loads(self.metadata["position"])
            position["transform"]
        except (json.JSONDecodeError, TypeError, KeyError) as error:
            raise InputError(f"{self.path} has a damaged header ({error}): copy or train it again") from None
        return position

    @cached_property
    def run(self) -> RunConfig:
        """The configuration that the weights were trained with."""
        _ = self.position  # raises InputError if the file holds something else
        try:
            return parse_config(json.loads(self.metadata["config"]))
        except (InputError, json.JSONDecodeError) as error:
            problem = f"{self.path} was written by another version of gaussproto ({error})"
            raise InputError(f"{problem}: install that version") from None

    @property
    def calibration(self) -> Calibration | None:
        content = self.metadata.get(CALIBRATION)
        try:
            return Calibration.model_validate_json(content) if content else None
        except ValidationError as error:
            problem = f"{self.path} has a damaged calibration ({first_problem(error)})"
            raise InputError(f"{problem}: run `gaussproto calibrate` again") from None

    @property
    def network_config(self) -> NetworkConfig:
        """The settings of the network when it was saved: some runs change the transform."""
        return self.run.network.model_copy(update={"transform": self.position["transform"]})

    @property
    def weights(self) -> dict[str, Any]:
        return {name: t for name, t in self.tensors.items() if not name.startswith(TRAINING)}

    @property
    def digest(self) -> str:
        return digest_of(self.network_config, single_precision(self.weights))


def open_weights(path: Path, framework: Literal["pt", "np"] = "np") -> WeightsFile:
    """Read a weights file. Check the digest of bundled weights."""
    metadata, tensors, digest = read_safetensors(path, framework=framework)
    check_digest(path, digest)
    return WeightsFile(path, metadata, tensors)


def weights_digest(path: Path) -> str:
    """Return the digest of the network in a file, in single precision and without the state of its training."""
    return open_weights(path).digest


def single_precision(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert weights in half precision, as in bundled files, to single precision."""
    return {name: a.astype("float32") if a.dtype == "float16" else a for name, a in arrays.items()}


def digest_of(config: NetworkConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of the settings and weights of a network, which does not depend on the file."""
    return digest_of_arrays(config.model_dump_json(exclude_defaults=True), arrays)


def starting_from(target: str, config: RunConfig) -> RunConfig:
    """Return the run with these initial weights, and with their network settings, image size, channels and ink."""
    file = open_weights(weights_file(target))
    tree = config.model_dump()
    tree["network"] = file.network_config.model_dump()
    tree["data"] |= file.run.data.appearance()
    tree["training"] |= {"init": target, "init_digest": file.digest}
    return parse_config(tree)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Add a calibration to a weights file. A run that continues overwrites the file without it."""
    file = open_weights(path)
    with write_then_rename(path) as temporary:
        save_file(file.tensors, temporary, {**file.metadata, CALIBRATION: calibration.model_dump_json()})
