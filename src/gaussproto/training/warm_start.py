"""Start from other weights: copy what fits, start the rest from new values, and tell which."""

from pathlib import Path

import torch

from gaussproto.config import NetworkConfig, RunConfig
from gaussproto.errors import InputError
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.checkpoint import Checkpoint, load_checkpoint
from gaussproto.runs.weights import weights_digest, weights_file
from gaussproto.setting_types import FILTERS


def with_digest(config: RunConfig) -> RunConfig:
    """The run with the identity of the weights that it starts from, if it has none yet."""
    training = config.training
    if training.init is None or training.init_digest:
        return config
    digest = weights_digest(weights_file(training.init))
    return config.model_copy(update={"training": training.model_copy(update={"init_digest": digest})})


def read_init(config: RunConfig) -> Checkpoint:
    """The weights that a run starts from, if they can be used for it."""
    init = str(config.training.init)
    path = weights_file(init)
    if weights_digest(path) != config.training.init_digest:
        remedy = "bring the old ones back, or begin another run with --init"
        raise InputError(f"the weights {init} have changed since this run was begun: {remedy}")
    checkpoint = load_checkpoint(path)
    there, here = _filters(checkpoint.config.network), _filters(config.network)
    if there != here:
        remedy = "leave --encoder and --filters out, and they are those of the weights"
        raise InputError(f"the weights {init} have the filters {there} and this run {here}: {remedy}")
    return checkpoint


def take_weights(network: GaussianPrototypicalNetwork, config: RunConfig) -> str:
    """Give a new network the weights that its run starts from, as far as they fit; returns a sentence that says so."""
    checkpoint = read_init(config)
    notes = transfer(checkpoint.network(), network)
    there, here = checkpoint.config.data, config.data
    old, new = there.image_size, here.image_size
    if old != new:
        notes.append(f"it knows images of {old} x {old} pixels and gets {new} x {new}")
    if there.split and here.split and Path(there.data).resolve() == Path(here.data).resolve():
        seen = {*(there.split.train or ())} & {*here.split.test}
        if seen:
            example = f"{len(seen)} of the test classes, such as {min(seen)!r}"
            notes.append(f"they were trained on {example}: scores will flatter it")
    return "; ".join([f"starts from the weights {config.training.init}", *notes])


@torch.no_grad()
def transfer(source: GaussianPrototypicalNetwork, network: GaussianPrototypicalNetwork) -> list[str]:
    """Copy the weights of another network with the same filters; says what is not copied as it is.

    Other channels: grey seen by three channels is what it was to one, and the other way round. Another covariance: the
    embedding stays, and the precision starts from new values. Another embedding size: so does the whole last block.
    """
    there, here = source.config, network.config
    old, D = source.state_dict(), here.embedding_dim
    blocks = here.filters or FILTERS.get(here.encoder, ())
    last = f"encoder.blocks.{len(blocks)}." if blocks else "encoder.head."
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
        elif name == "encoder.blocks.0.conv.weight" and there.channels != here.channels:
            new.copy_(old[name].sum(dim=1, keepdim=True) / here.channels)
        elif name in old:
            new.copy_(old[name])
    return notes


def _filters(config: NetworkConfig) -> str:
    if config.encoder not in FILTERS:
        return config.encoder
    return ",".join(str(width) for width in config.filters or FILTERS[config.encoder])
