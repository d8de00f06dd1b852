"""Augmentation: rotate, stretch, shear and shift each image a little, as if another person had drawn it."""

import torch
import torch.nn.functional as F
from torch import Tensor

# Standard deviations at strength 1.
TURN, STRETCH, SHEAR, SHIFT = 0.12, 0.1, 0.1, 0.06  # radians, log of the factor, tangent, share of half the side


def distort(images: Tensor, strength: float, generator: torch.Generator | None = None) -> Tensor:
    """Apply a random affine map to each float image of (N, channels, H, W). Pixels outside an image repeat its edge.

    >>> images = torch.rand(3, 1, 28, 28)
    >>> torch.equal(distort(images, 0.0), images)
    True
    """
    if strength == 0:
        return images
    N = len(images)
    turn, across, down, shear, *shift = strength * torch.randn(6, N, generator=generator)
    cos, sin = (TURN * turn).cos(), (TURN * turn).sin()
    rotation = torch.stack([cos, -sin, sin, cos], dim=1).view(N, 2, 2)
    zero = torch.zeros(N)
    stretch = torch.stack([(STRETCH * across).exp(), SHEAR * shear, zero, (STRETCH * down).exp()], dim=1).view(N, 2, 2)
    maps = torch.cat([rotation @ stretch, SHIFT * torch.stack(shift, dim=1)[:, :, None]], dim=2)  # (N, 2, 3)
    grid = F.affine_grid(maps.to(images.device), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)
