"""Count the right answers in many groups of classes at once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork


def nearest_is_own(network: GaussianPrototypicalNetwork, groups: Embedded[Tensor], shots: Sequence[int]) -> Tensor:
    """Return whether each image is nearest to its own class: (G, way, M, D) → (G, way, M, shots).

    Of classes at the same distance, the first counts as nearest. The first `shot` images of a class are its supports.
    The result includes them, and the caller must ignore them. One matrix product serves all shots.
    """
    G, way, M, D = groups.x.shape
    made = [Embedded(*network.prototypes(groups[:, :, :shot])) for shot in shots]
    p, s_class = Embedded.join(made, lambda parts: torch.stack(parts, dim=2).flatten(1, 2))  # (G, way shots, D)
    near = network.order(groups.x.reshape(G, -1, D), p, s_class).reshape(G, way, len(shots), way, M)
    own = near.diagonal(dim1=1, dim2=3).mT.clone()  # (G, shots, way, M)
    near.diagonal(dim1=1, dim2=3).fill_(torch.inf)  # leaves the other classes; in place, because a copy costs 10 %
    nearest_other = near.amin(dim=1)
    right, tie = own < nearest_other, own == nearest_other
    if bool(tie.any()):  # rare, and slower to resolve
        right |= tie & (torch.arange(way, device=near.device)[:, None] < near.argmin(dim=1))
    return right.permute(0, 2, 3, 1)
