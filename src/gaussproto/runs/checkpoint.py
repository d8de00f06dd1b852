"""Checkpoints: the weights of a run with its configuration. The last checkpoint has all that a resumed run needs.

A checkpoint is a safetensors file. It stores the weights under their own names and the position of the run in its
metadata. The last checkpoint also stores Adam's moments (`optimizer/NAME/MOMENT`) and the generator's state.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from gaussproto.config import RunConfig
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename
from gaussproto.model.device import check_device
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.weights import TRAINING, WeightsFile, open_weights

OPTIMIZER, GENERATOR = TRAINING


@dataclass
class Position:
    """The position of a run in its training."""

    episode: int = 0  # number of finished episodes
    seconds: float = 0.0  # training time, including that before a stop
    transform: str = "softplus"
    images: str = ""  # fingerprint of the training images
    rows: list[list[float]] = field(default_factory=list)  # of the episodes not yet logged
    accuracies: list[float] = field(default_factory=list)  # of the episodes since the last kept checkpoint
    kept: list[tuple[float, int]] = field(default_factory=list)  # training accuracy and episode of the kept checkpoints
    warned: bool = False  # whether the run has warned about a dead precision
    command: str = ""  # that started the run
    commits: list[str | None] = field(default_factory=list)  # of the code, several if it changed between resumptions
    threads: list[int] = field(default_factory=list)  # of torch, several if the number changed between resumptions
    lengthened: list[int] = field(default_factory=list)  # the episodes at which the run was lengthened

    def __post_init__(self) -> None:
        self.kept = [(accuracy, episode) for accuracy, episode in self.kept]  # JSON turned the tuples into lists


@dataclass(frozen=True)
class Checkpoint:
    """The content of a weights file."""

    path: Path
    config: RunConfig
    position: Position
    tensors: dict[str, Tensor]

    def network(self, device: str = "cpu") -> GaussianPrototypicalNetwork:
        check_device(device)
        config = self.config.network.model_copy(update={"transform": self.position.transform})
        network = GaussianPrototypicalNetwork(config)
        weights = {name: t for name, t in self.tensors.items() if not name.startswith(TRAINING)}
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError(
                f"the weights in {self.path} do not match their configuration ({error}): copy or train them again"
            ) from error
        return network.to(device)


def save_checkpoint(
    path: Path,
    config: RunConfig,
    network: GaussianPrototypicalNetwork,
    position: Position,
    optimizer: torch.optim.Optimizer | None = None,
    generator: torch.Generator | None = None,
) -> None:
    tensors = dict(network.state_dict())
    if optimizer is not None and generator is not None:
        for name, parameter in network.named_parameters():
            for moment, value in optimizer.state[parameter].items():
                tensors[f"{OPTIMIZER}{name}/{moment}"] = value
        tensors[GENERATOR] = generator.get_state()
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    metadata = {"config": config.model_dump_json(), "position": json.dumps(asdict(position))}
    with write_then_rename(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def load_checkpoint(path: Path) -> Checkpoint:
    return checkpoint_of(open_weights(path, "pt"))


def checkpoint_of(file: WeightsFile) -> Checkpoint:
    try:
        return Checkpoint(file.path, file.run, Position(**file.position), file.tensors)
    except TypeError as error:
        problem = f"{file.path} was written by another version of gaussproto ({error})"
        raise InputError(f"{problem}: install that version") from None


def restore_optimizer(
    optimizer: torch.optim.Optimizer, network: GaussianPrototypicalNetwork, tensors: dict[str, Tensor]
) -> None:
    """Restore the moments of the optimizer, each in the memory layout of its parameter."""
    for name, parameter in network.named_parameters():
        prefix = f"{OPTIMIZER}{name}/"
        for key in (key for key in tensors if key.startswith(prefix)):
            value = tensors[key].to(parameter.device)
            if value.shape == parameter.shape:
                value = torch.empty_like(parameter, requires_grad=False).copy_(value)
            optimizer.state[parameter][key.removeprefix(prefix)] = value
