"""Damage images as the paper does: down-sample them to n x n pixels and enlarge them again."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def down_sample(images: Tensor, size: int) -> Tensor:
    """Down-sample float images (N, channels, H, W) to size x size, with anti-aliasing, and enlarge them to H x W."""
    small = F.interpolate(images, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(small, size=images.shape[-2:], mode="bilinear", align_corners=False)


def damage(
    images: Tensor, sizes: Sequence[tuple[int, float]], generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Damage a random share of the images: down-sample them to a few pixels and enlarge them again.

    Args:
        images: (N, channels, H, W), float.
        sizes: pairs (size, fraction): this fraction of the images is down-sampled to size x size pixels. No image is
            damaged twice.
        generator: the random number generator. By default, torch's global one.

    Returns:
        The images (N, channels, H, W), a copy if `sizes` is not empty, and the size (N,) that each image was
        down-sampled to, 0 if it is undamaged.

    Examples:
        >>> import torch
        >>> import gaussproto as gp
        >>> images = torch.rand(1000, 1, 28, 28)
        >>> damaged, size = gp.damage(images, [(7, 0.3), (5, 0.2)], torch.Generator().manual_seed(0))
        >>> {n: round((size == n).float().mean().item(), 1) for n in (0, 5, 7)}
        {0: 0.5, 5: 0.2, 7: 0.3}
        >>> torch.equal(damaged[size == 0], images[size == 0])
        True
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
