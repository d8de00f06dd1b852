"""Checks before a training starts: what was passed, and whether the network can be saved."""

from typing import Any

import torch

from gaussproto.config import NetworkConfig, RunConfig
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.files import megabytes, memory
from gaussproto.model.network import GaussianPrototypicalNetwork


def check_types(config: Any, images: Any) -> None:
    if not isinstance(config, RunConfig):
        raise InputError(f"config must be a RunConfig (found {config!r}): create one with gaussproto.preset")
    if images is not None and not isinstance(images, LabelledImages):
        raise InputError(
            f"images must be a LabelledImages object (found {type(images).__name__}): use gaussproto.load_data or "
            "LabelledImages.from_labels, and pass the run folder as the third argument"
        )


def check_memory(config: NetworkConfig) -> None:
    """Raise InputError if the weights, their gradients and Adam's moments need more memory than the machine has."""
    if not config.is_builtin:
        return
    with torch.device("meta"):  # without memory
        network = GaussianPrototypicalNetwork(config)
    needed = 4 * 4 * sum(parameter.numel() for parameter in network.parameters())
    if needed > memory():
        raise InputError(
            f"the network needs {megabytes(needed)} to be trained, and this machine has {megabytes(memory())}: use "
            "fewer filters, fewer residual convolutions or a smaller embedding_dim"
        )


def check_rebuilds(network: GaussianPrototypicalNetwork) -> None:
    """Raise InputError unless the network can be rebuilt from its settings, as loading a saved one requires."""
    if type(network) is not GaussianPrototypicalNetwork:
        remedy = "pass your own backbone, distance, transform or covariance instead"
        kind = f"{type(network).__name__}, a subclass of GaussianPrototypicalNetwork"
        raise InputError(f"cannot save {kind}: {remedy}")
    network.config.check_saved()
    try:
        with torch.random.fork_rng(devices=[]):  # leave the caller's random numbers unchanged
            again = GaussianPrototypicalNetwork(NetworkConfig.model_validate(network.config.model_dump()))
    except (TypeError, ValueError) as error:
        remedy = "use a backbone class that needs no arguments"
        raise InputError(f"cannot rebuild the network from {network.config.encoder} ({error}): {remedy}") from error
    shapes = [{name: t.shape for name, t in one.state_dict().items()} for one in (network, again)]
    if shapes[0] != shapes[1]:
        problem = f"cannot save the network, because {network.config.encoder}() creates weights of other shapes"
        raise InputError(f"{problem}: use a backbone class that needs no arguments")
