"""Find and read weights files. Imports no torch."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gaussproto.arrays import NO_CHECKSUM, digest_of_arrays, reading_arrays, write_arrays
from gaussproto.config import NetworkConfig, RunConfig, parse_config
from gaussproto.errors import InputError, did_you_mean
from gaussproto.files import is_folder
from gaussproto.formulas.confidence import Calibration
from gaussproto.pretrained import bundled, bundled_names, check_bundled, current_name, is_bundled
from gaussproto.setting_types import first_problem

if TYPE_CHECKING:
    import numpy as np

TRAINING = ("optimizer/", "generator")  # prefixes of the tensors that only a resumed run needs
CALIBRATION = "calibration"  # key in the header of a weights file


def weights_file(target: str, others: Sequence[str] = ()) -> Path:
    """Return the path of weights, given a run folder (its last checkpoint), a file or the name of bundled weights.

    `others` are names that the caller would also accept, for the hint of an error.
    """
    path = Path(target)
    if is_folder(path):
        last = path / "checkpoints" / "last.safetensors"
        if not (path / "config.json").exists():
            raise InputError(f"{path} is not a run folder (it has no config.json): pass the folder of a run")
        if not last.exists():
            raise InputError(f"{path} has no checkpoint yet: continue its training with --resume")
        return last
    file = path if path.suffix == ".safetensors" else bundled(target)
    if file is None:
        names = [*bundled_names(), *others]
        hint = did_you_mean(target, names, f"the bundled weights are {', '.join(names) or 'none'}")
        raise InputError(f"{target!r} is not a run folder, a .safetensors file or bundled weights: {hint}")
    if not os.path.lexists(file):
        raise InputError(f"the weights file {file} does not exist: check the path")
    return file


@dataclass
class Position:
    """The position of a run in its training."""

    episode: int = 0  # number of finished episodes
    seconds: float = 0.0  # training time, including that before a stop
    transform: str = "softplus"
    images: str = ""  # fingerprint of the training images
    rows: list[list[float]] = field(default_factory=list)  # of the episodes not yet logged
    loss: float | None = None  # in the last line of the log
    accuracy: float | None = None
    accuracies: list[float] = field(default_factory=list)  # of the episodes since the last kept checkpoint
    kept: list[tuple[float, int]] = field(default_factory=list)  # training accuracy and episode of the kept checkpoints
    warned: bool = False  # whether the run has warned about a dead precision
    command: str = ""  # that started the run
    commits: list[str | None] = field(default_factory=list)  # of the code, several if it changed between resumptions
    threads: list[int] = field(default_factory=list)  # of all ranks, several if the number changed between resumptions
    ranks: list[int] = field(default_factory=list)  # the number of processes, several if it changed
    lengthened: list[int] = field(default_factory=list)  # the episodes at which the run was lengthened

    __pydantic_config__ = ConfigDict(extra="forbid")


POSITION = TypeAdapter(Position)


@dataclass(frozen=True)
class WeightsFile:
    """The header and the tensors of a weights file."""

    path: Path
    metadata: Mapping[str, str]
    tensors: dict[str, Any]

    @cached_property
    def position(self) -> Position:
        """The position of the run when it saved the weights."""
        if "config" not in self.metadata or "position" not in self.metadata:
            problem = f"{self.path} contains no weights of an image network (it may be a head)"
            raise InputError(f"{problem}: pass a checkpoint of a run")
        try:
            return POSITION.validate_python(json.loads(self.metadata["position"]))
        except (ValueError, RecursionError) as error:
            problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise self._unreadable(problem) from None

    @cached_property
    def run(self) -> RunConfig:
        """The configuration that the weights were trained with."""
        _ = self.position  # raises InputError if the file holds something else
        try:
            return parse_config(json.loads(self.metadata["config"]))
        except (ValueError, RecursionError) as error:
            raise self._unreadable(str(error)) from None

    def _unreadable(self, problem: str) -> InputError:
        return InputError(f"{self.path} was written by another version of gaussproto ({problem}): install that version")

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
        return self.run.network.model_copy(update={"transform": self.position.transform})

    @property
    def weights(self) -> dict[str, Any]:
        return {name: t for name, t in self.tensors.items() if not name.startswith(TRAINING)}

    @property
    def digest(self) -> str:
        return digest_of(self.network_config, single_precision(self.weights))


def open_weights(path: Path, framework: Literal["pt", "np"] = "np") -> WeightsFile:
    """Read a weights file and check that it is intact."""
    with reading_weights(path, framework) as file:
        return file


@contextmanager
def reading_weights(path: Path, framework: Literal["pt", "np"] = "np") -> Iterator[WeightsFile]:
    """Yield a weights file. At the end of the block, raise InputError if it is damaged, as `reading_arrays` does."""
    with reading_arrays(path, "weights file", framework) as file:
        yield WeightsFile(path, file.metadata, file.arrays)
    if is_bundled(path):
        check_bundled(path, file.checksum)
    elif not file.checked and file.metadata:
        warnings.warn(NO_CHECKSUM.format(path), stacklevel=4)


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
    tree["training"] |= {"init": current_name(target), "init_digest": file.digest}
    return parse_config(tree)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Add a calibration to a weights file. A run that continues overwrites the file without it."""
    file = open_weights(path)
    write_arrays(path, file.tensors, {**file.metadata, CALIBRATION: calibration.model_dump_json()})
