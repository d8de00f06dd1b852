"""Start from other weights: what fits is taken, what does not begins anew, and it is said which."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gaussproto.config import DataConfig, NetworkConfig, RunConfig
from gaussproto.errors import InputError
from gaussproto.model.encoder import FILTERS
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.checkpoint import Checkpoint, load_checkpoint
from gaussproto.weights import weights_digest, weights_file


def with_digest(config: RunConfig) -> RunConfig:
    """The run with the identity of the weights that it starts from, if it has none yet."""
    training = config.training
    if training.init is None or training.init_digest:
        return config
    digest = weights_digest(weights_file(training.init))
    return config.model_copy(update={"training": training.model_copy(update={"init_digest": digest})})


def read_init(config: RunConfig) -> Checkpoint:
    """The weights that a run starts from, if they can be used for it."""
    init = config.training.init
    assert init is not None
    path = weights_file(init)
    if weights_digest(path) != config.training.init_digest:
        raise InputError(
            f"the weights {init} have changed since this run was begun: bring the old ones back, or begin another run "
            "with --init"
        )
    checkpoint = load_checkpoint(path)
    there, here = checkpoint.config.network, config.network
    if _filters(there) != _filters(here):
        raise InputError(
            f"the weights {init} have the filters {_filters(there)} and this run {_filters(here)}: leave --encoder and "
            "--filters out, and they are those of the weights"
        )
    return checkpoint


def take_weights(network: GaussianPrototypicalNetwork, config: RunConfig) -> str:
    """Give a new network the weights that its run starts from, as far as they fit; returns a sentence that says so."""
    checkpoint = read_init(config)
    notes = transfer(checkpoint.network(), network)
    sizes = checkpoint.config.data.image_size, config.data.image_size
    if sizes[0] != sizes[1]:
        notes.append(f"it knows images of {sizes[0]} x {sizes[0]} pixels and gets {sizes[1]} x {sizes[1]}")
    seen = _trained_on(checkpoint.config.data) & set(config.data.split.test if config.data.split else ())
    if seen and Path(checkpoint.config.data.data).resolve() == Path(config.data.data).resolve():
        notes.append(
            f"they were trained on {len(seen)} of the test classes, such as {min(seen)!r}: scores will flatter it"
        )
    return f"starts from the weights {config.training.init}" + "".join(f"; {note}" for note in notes)


def _trained_on(data: DataConfig) -> set[str]:
    return set(data.split.train or ()) if data.split else set()


@torch.no_grad()
def transfer(source: GaussianPrototypicalNetwork, network: GaussianPrototypicalNetwork) -> list[str]:
    """Copy the weights of another network with the same filters; says what is not copied as it is.

    Other channels: grey seen by three channels is what it was to one, and the other way round. Another covariance: the
    embedding stays, the precision begins anew. Another embedding size: the last block begins anew.
    """
    there, here = source.config, network.config
    old, D = source.state_dict(), here.embedding_dim
    last = f"encoder.blocks.{len(here.filters or FILTERS[here.encoder])}."
    notes = []
    if there.channels != here.channels:
        notes.append(f"the first convolution, of {there.channels} channels, is spread over {here.channels}")
    if there.embedding_dim != D:
        notes.append(f"the last block begins anew, as embedding_dim is {there.embedding_dim} there and {D} here")
    elif there.covariance != here.covariance:
        notes.append(f"the precision begins anew, as covariance is {there.covariance} there and {here.covariance} here")
    for name, new in network.state_dict().items():
        if name.startswith(last) and there.embedding_dim != D:
            continue
        if name.startswith(last) and there.covariance != here.covariance:
            if new.dim():
                new[:D] = old[name][:D]
        elif name == "encoder.blocks.0.conv.weight":
            new.copy_(_spread(old[name], here.channels))
        elif name in old:
            new.copy_(old[name])
    return notes


def _spread(filters: Tensor, channels: int) -> Tensor:
    """(O, C, 3, 3) -> (O, channels, 3, 3): the same for images that are alike in all channels."""
    if filters.shape[1] == channels:
        return filters
    return filters.sum(dim=1, keepdim=True).expand(-1, channels, -1, -1) / channels


def _filters(config: NetworkConfig) -> str:
    return ",".join(str(width) for width in config.filters or FILTERS[config.encoder])
