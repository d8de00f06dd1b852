"""Start a run from other weights: copy what fits, and start the rest from new values."""

from pathlib import Path

import torch

from gaussproto.config import NetworkConfig, RunConfig
from gaussproto.errors import InputError
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.checkpoint import Checkpoint, load_checkpoint
from gaussproto.runs.weights import weights_digest, weights_file
from gaussproto.setting_types import FILTERS


def with_digest(config: RunConfig) -> RunConfig:
    """Return the run with the digest of its initial weights, unless it has one already."""
    training = config.training
    if training.init is None or training.init_digest:
        return config
    digest = weights_digest(weights_file(training.init))
    return config.model_copy(update={"training": training.model_copy(update={"init_digest": digest})})


def read_init(config: RunConfig) -> Checkpoint:
    """Load the initial weights of a run. Raise InputError if they have changed or do not fit."""
    init = str(config.training.init)
    path = weights_file(init)
    if weights_digest(path) != config.training.init_digest:
        raise InputError(f"the weights {init} have changed since this run started: restore them, or start a new run")
    checkpoint = load_checkpoint(path)
    for name, of in (("filters", _filters), ("residual convolutions", _residual), ("grid", lambda net: str(net.grid))):
        there, here = of(checkpoint.config.network), of(config.network)
        if there != here:
            remedy = "leave out --encoder, --filters, --residual and --grid to use those of the weights"
            raise InputError(f"the weights {init} have the {name} {there}, but this run has {here}: {remedy}")
    return checkpoint


def take_weights(network: GaussianPrototypicalNetwork, config: RunConfig) -> str:
    """Copy the initial weights of a run to a new network, as far as they fit. Return a sentence about it."""
    checkpoint = read_init(config)
    notes = transfer(checkpoint.network(), network)
    there, here = checkpoint.config.data, config.data
    old, new = there.image_size, here.image_size
    if old != new:
        notes.append(f"the weights were trained on {old} x {old} pixels, but this run has {new} x {new}")
    if there.split and here.split and Path(there.data).resolve() == Path(here.data).resolve():
        seen = {*(there.split.train or ())} & {*here.split.test}
        if seen:
            example = f"{len(seen)} of the test classes, for example {min(seen)!r}"
            notes.append(f"the weights were trained on {example}, so scores will be too high")
    return "; ".join([f"training starts from the weights {config.training.init}", *notes])


@torch.no_grad()
def transfer(source: GaussianPrototypicalNetwork, network: GaussianPrototypicalNetwork) -> list[str]:
    """Copy the weights of another network with the same filters. Return notes on what is not copied unchanged.

    - Other channels: the first convolution is adapted so that grey images give the same result as before.
    - Another covariance: the embedding is copied, and the precision starts from new values.
    - Another embedding size: the last block starts from new values, except for its residual convolutions.
    """
    there, here = source.config, network.config
    old, D = source.state_dict(), here.embedding_dim
    of_embedding = D // here.grid**2  # channels of the last block
    blocks = here.filters or FILTERS.get(here.encoder, ())
    last = f"encoder.blocks.{len(blocks)}." if blocks else "encoder.head."
    notes = []
    if there.channels != here.channels:
        notes.append(f"the first convolution is converted from {there.channels} to {here.channels} channels")
    if there.embedding_dim != D:
        change = f"embedding_dim changes from {there.embedding_dim} to {D}"
        notes.append(f"the last block starts from new values, because {change}")
    elif there.covariance != here.covariance:
        change = f"covariance changes from {there.covariance} to {here.covariance}"
        notes.append(f"the precision starts from new values, because {change}")
    for name, new in network.state_dict().items():
        of_last = name.startswith(last) and ".residuals." not in name
        if of_last and there.embedding_dim != D:
            continue
        if of_last and there.covariance != here.covariance:
            if new.dim():
                new[:of_embedding] = old[name][:of_embedding]
        elif name == "encoder.blocks.0.conv.weight" and there.channels != here.channels:
            new.copy_(old[name].sum(dim=1, keepdim=True) / here.channels)
        elif name in old:
            new.copy_(old[name])
    return notes


def _filters(config: NetworkConfig) -> str:
    if config.encoder not in FILTERS:
        return config.encoder
    return ",".join(str(width) for width in config.filters or FILTERS[config.encoder])


def _residual(config: NetworkConfig) -> str:
    return ",".join(map(str, config.residual)) or "none"
