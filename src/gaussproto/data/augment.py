"""Augmentation of photos: flip, cut and recolour each image of a batch at random. It stays in its class."""

import torch
from torch import Tensor


def augment(images: Tensor, flip: bool, crop: int, jitter: float, generator: torch.Generator | None = None) -> Tensor:
    """Augment each float image of (N, channels, H, W).

    Args:
        images: the images, with values from 0 to 1.
        flip: mirror each image with probability one half.
        crop: side in pixels of a square that is cut out of each image at a random place; 0 keeps the whole image.
        jitter: strength of random changes of brightness, contrast and saturation.
        generator: the source of random numbers.

    >>> images = torch.rand(3, 3, 32, 32)
    >>> torch.equal(augment(images, flip=False, crop=0, jitter=0.0), images)
    True
    >>> augment(images, flip=True, crop=28, jitter=0.4).shape
    torch.Size([3, 3, 28, 28])
    """
    if flip or crop:
        images = _cut(images, flip, crop or images.shape[-1], generator)
    return _recoloured(images, jitter, generator) if jitter else images


def _cut(images: Tensor, flip: bool, side: int, generator: torch.Generator | None) -> Tensor:
    """Flip the images and cut out squares with one indexing call. The result is stored channels last."""
    N, _, H, W = images.shape
    down, across = (torch.randint(whole - side + 1, (N, 1), generator=generator) for whole in (H, W))
    rows, columns = down + torch.arange(side), across + torch.arange(side)  # (N, side)
    if flip:
        mirrored = torch.rand(N, generator=generator) < 0.5
        columns[mirrored] = columns[mirrored].flip(1)
    place = torch.arange(N)[:, None, None], rows[:, :, None], columns[:, None, :]
    n, row, column = (index.to(images.device) for index in place)
    return images.permute(0, 2, 3, 1)[n, row, column].permute(0, 3, 1, 2)


def _recoloured(images: Tensor, strength: float, generator: torch.Generator | None) -> Tensor:
    """Multiply brightness, contrast and saturation by random factors from 1 - strength to 1 + strength."""
    N = len(images)
    factors = 1 + strength * (2 * torch.rand(3, N, 1, 1, 1, generator=generator) - 1)
    brightness, contrast, saturation = factors.to(images)
    grey = images.mean(dim=1, keepdim=True)
    level = grey.mean(dim=(2, 3), keepdim=True)
    recoloured: Tensor = (images - grey) * (contrast * saturation) + (grey - level) * contrast + level * brightness
    return recoloured.clamp_(0, 1)
