"""Checkpoints: weights with the configuration that made them; the last one carries all that a resumed run needs.

All are safetensors files. Weights stand under their own names; the last checkpoint also holds Adam's moments
(`optimizer/NAME/MOMENT`), the generator's state and, in its metadata, where the run stands.
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
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.weights import TRAINING, WeightsFile, open_weights

OPTIMIZER, GENERATOR = TRAINING


@dataclass
class Position:
    """Where a run stands."""

    episode: int = 0  # episodes done
    seconds: float = 0.0  # of training, over all resumptions
    transform: str = "softplus"
    images: str = ""  # the fingerprint of what it trains on
    rows: list[list[float]] = field(default_factory=list)  # of the episodes not yet logged
    accuracies: list[float] = field(default_factory=list)  # of the episodes since the last kept checkpoint
    kept: list[tuple[float, int]] = field(default_factory=list)  # training accuracy and episode of the best ones
    warned: bool = False  # that the precision is dead
    command: str = ""  # that began it
    commits: list[str | None] = field(default_factory=list)  # of the code that trained it; more if it changed meanwhile
    threads: list[int] = field(default_factory=list)  # that it was trained on; more if that changed

    def __post_init__(self) -> None:
        self.kept = [(accuracy, episode) for accuracy, episode in self.kept]  # JSON knows no tuples


@dataclass(frozen=True)
class Checkpoint:
    """What a weights file says of itself."""

    path: Path
    config: RunConfig
    position: Position
    tensors: dict[str, Tensor]

    def network(self) -> GaussianPrototypicalNetwork:
        config = self.config.network.model_copy(update={"transform": self.position.transform})
        network = GaussianPrototypicalNetwork(config)
        weights = {name: t for name, t in self.tensors.items() if not name.startswith(TRAINING)}
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError(f"the weights in {self.path} do not fit their own configuration ({error})") from error
        return network


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
        raise InputError(f"{problem}: install that one") from None


def restore_optimizer(
    optimizer: torch.optim.Optimizer, network: GaussianPrototypicalNetwork, tensors: dict[str, Tensor]
) -> None:
    """Give the optimiser the moments it had, each in the memory layout of its parameter."""
    for name, parameter in network.named_parameters():
        prefix = f"{OPTIMIZER}{name}/"
        for key in (key for key in tensors if key.startswith(prefix)):
            value = tensors[key].to(parameter.device)
            if value.shape == parameter.shape:
                value = torch.empty_like(parameter, requires_grad=False).copy_(value)
            optimizer.state[parameter][key.removeprefix(prefix)] = value
