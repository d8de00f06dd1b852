"""Load weights into a new network, after checking that they fit."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn

N = TypeVar("N", bound=nn.Module)


def with_weights(make: Callable[[], N], weights: Mapping[str, Tensor], meta: bool = True) -> N:
    """Make a network and load a copy of the weights. Raise ValueError if they do not fit.

    With `meta`, no memory is allocated for sizes that the weights do not have. It must be False for modules that users
    wrote, because they may compute with their weights as they are made.
    """
    with torch.device("meta") if meta else nullcontext():
        network = make()
    own = network.state_dict()
    for name in sorted({*own, *weights}):
        if name not in weights:
            raise ValueError(f"{name} is missing")
        if name not in own:
            raise ValueError(f"{name} is not a weight of this network")
        here, there = tuple(own[name].shape), tuple(weights[name].shape)
        if here != there:
            raise ValueError(f"{name} has the shape {there} instead of {here}")
        if weights[name].is_floating_point() != own[name].is_floating_point():
            raise ValueError(f"{name} has the type {weights[name].dtype} instead of {own[name].dtype}")
    network.load_state_dict({name: t.to(own[name].dtype, copy=True) for name, t in weights.items()}, assign=meta)
    return network
