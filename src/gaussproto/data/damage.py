"""The paper's damage: an image is down-sampled to n x n pixels and enlarged to its size again."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def down_sample(images: Tensor, size: int) -> Tensor:
    """Reduce float images (N, channels, H, W) to size x size, anti-aliased, and enlarge them to H x W again."""
    small = F.interpolate(images, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(small, size=images.shape[-2:], mode="bilinear", align_corners=False)


def damage(
    images: Tensor, sizes: Sequence[tuple[int, float]], generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Damage a random share of the images.

    Args:
        images: (N, channels, H, W), float.
        sizes: pairs of a size and the fraction of the images that are reduced to it. No image is damaged twice.
        generator: source of the random choice.

    Returns:
        The images, copied if `sizes` is not empty, and (N,) the size that each was reduced to, 0 for an undamaged one.

    >>> _, size = damage(torch.rand(1000, 1, 28, 28), [(7, 0.3), (5, 0.2)], torch.Generator().manual_seed(0))
    >>> {n: round((size == n).float().mean().item(), 1) for n in (0, 5, 7)}
    {0: 0.5, 5: 0.2, 7: 0.3}
    """
    chosen = torch.zeros(len(images), dtype=torch.long)
    if not sizes:
        return images, chosen
    u = torch.rand(len(images), generator=generator)
    low = 0.0
    images = images.clone()
    for size, fraction in sizes:
        hit = (u >= low) & (u < low + fraction)
        low += fraction
        chosen[hit] = size
        if hit.any():
            index = hit.nonzero().flatten().to(images.device)
            images[index] = down_sample(images[index], size)
    return images, chosen
