"""Load weights into a network that takes no memory of its own before they are known to fit."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn

N = TypeVar("N", bound=nn.Module)


def with_weights(make: Callable[[], N], weights: Mapping[str, Tensor], meta: bool = True) -> N:
    """Make a network and load a copy of the weights, in single precision. Raise ValueError if they do not fit.

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
    copies = {name: t.to(torch.float32 if t.is_floating_point() else t.dtype, copy=True) for name, t in weights.items()}
    wrong = [name for name, t in copies.items() if t.dtype != own[name].dtype]
    if wrong:
        raise ValueError(f"{wrong[0]} has the type {weights[wrong[0]].dtype} instead of {own[wrong[0]].dtype}")
    network.load_state_dict(copies, assign=meta)
    return network
