"""Checkpoints: the weights of a run with its configuration. The last checkpoint has all that a resumed run needs.

A checkpoint is a safetensors file. It stores the weights under their own names and the position of the run in its
metadata. The last checkpoint also stores Adam's moments (`optimizer/NAME/MOMENT`) and the generator's state.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from gaussproto.arrays import write_arrays
from gaussproto.config import RunConfig
from gaussproto.errors import InputError
from gaussproto.model.device import check_device
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.model.state import with_weights
from gaussproto.runs.weights import TRAINING, Position, WeightsFile, open_weights

OPTIMIZER, GENERATOR = TRAINING
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of Adam, for each parameter
ROW = ("loss", "accuracy", "precision_mean", "precision_std")  # of an episode that is not logged yet


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
        weights = {name: t for name, t in self.tensors.items() if not name.startswith(TRAINING)}
        head = weights.get("encoder.head.weight")  # checked first, because a large one would be made
        if config.features is not None and (head is None or head.shape[-1] != config.features):
            problem = f"encoder.head.weight must have {config.features} columns"
            raise InputError(
                f"the weights in {self.path} do not match their configuration ({problem}): copy or train them again"
            )
        try:
            network = with_weights(lambda: GaussianPrototypicalNetwork(config), weights, meta=config.is_builtin)
        except (ValueError, RuntimeError) as error:
            if isinstance(error, InputError):
                raise
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
    tensors = training_tensors(network, optimizer)
    if generator is not None:
        tensors[GENERATOR] = generator.get_state()
    metadata = {"config": config.model_dump_json(), "position": json.dumps(asdict(position))}
    write_arrays(path, tensors, metadata)


def training_tensors(
    network: GaussianPrototypicalNetwork, optimizer: torch.optim.Optimizer | None = None
) -> dict[str, Tensor]:
    """Return a copy of the weights, and of Adam's moments as `optimizer/NAME/MOMENT`."""
    tensors = dict(network.state_dict())
    if optimizer is not None:
        for name, parameter in network.named_parameters():
            for moment, value in optimizer.state[parameter].items():
                tensors[f"{OPTIMIZER}{name}/{moment}"] = value
    return {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}


def load_checkpoint(path: Path) -> Checkpoint:
    return checkpoint_of(open_weights(path, "pt"))


def checkpoint_of(file: WeightsFile) -> Checkpoint:
    return Checkpoint(file.path, file.run, file.position, file.tensors)


def check_resumable(checkpoint: Checkpoint) -> None:
    """Raise InputError unless the checkpoint has all that a resumed run needs."""
    tensors, rows = checkpoint.tensors, checkpoint.position.rows
    shapes = {f"{OPTIMIZER}{name}/": t.shape for name, t in tensors.items() if not name.startswith(TRAINING)}
    moments = {name: t for name, t in tensors.items() if name.startswith(OPTIMIZER)}
    prefixes = {name.rpartition("/")[0] + "/" for name in moments}
    state, generator = tensors.get(GENERATOR), torch.Generator().get_state()
    problem = None
    if state is None or (state.dtype, state.shape) != (generator.dtype, generator.shape):
        problem = "its random numbers are missing or damaged"
    elif not prefixes or prefixes - set(shapes) or len(moments) != len(MOMENTS) * len(prefixes):
        problem = "some of Adam's moments are missing"
    elif not all(_is_moment(moments.get(p + m), shapes[p], m) for p in prefixes for m in MOMENTS):
        problem = "Adam's moments do not fit the weights"
    elif not all(len(row) == len(ROW) and math.isfinite(row[0]) and math.isfinite(row[1]) for row in rows):
        problem = "the losses that are not logged yet are damaged"
    if problem:
        raise InputError(f"cannot resume from {checkpoint.path} ({problem}): train the run again")


def _is_moment(value: Tensor | None, shape: torch.Size, moment: str) -> bool:
    return (
        value is not None
        and value.is_floating_point()
        and value.shape == (torch.Size() if moment == "step" else shape)
        and bool(value.isfinite().all())
        and (moment == "exp_avg" or bool((value >= 0).all()))
    )


def restore_optimizer(
    optimizer: torch.optim.Optimizer, network: GaussianPrototypicalNetwork, tensors: dict[str, Tensor]
) -> None:
    """Restore the moments of the optimizer, each in the memory layout of its parameter."""
    for name, parameter in network.named_parameters():
        for moment in MOMENTS:
            value = tensors.get(f"{OPTIMIZER}{name}/{moment}")
            if value is None:  # a parameter without a gradient
                continue
            value = value.to(parameter.device)
            if moment != "step":
                value = torch.empty_like(parameter, requires_grad=False).copy_(value)
            optimizer.state[parameter][moment] = value


def restore_generator(generator: torch.Generator, checkpoint: Checkpoint) -> None:
    try:
        generator.set_state(checkpoint.tensors[GENERATOR])
    except RuntimeError as error:
        problem = f"its random numbers are damaged: {error}"
        raise InputError(f"cannot resume from {checkpoint.path} ({problem}): train the run again") from error
