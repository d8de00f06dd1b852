"""Corrupt images in seven ways, each at five severities, to measure how much a network suffers from it.

The amounts are shares of the side of an image or of its range of brightness, so they suit images of any size, in grey
or colour. The severities are spaced so that the mildest is barely a problem and the worst is hard for people too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gaussproto.data.damage import down_sample
from gaussproto.errors import InputError

SEVERITIES = (1, 2, 3, 4, 5)
CHUNK = 512  # images at once
PATCH = 0.3  # of the side of an image: a piece of another image


@dataclass(frozen=True)
class Corruption:
    """A way to corrupt images.

    Attributes:
        name: its name in options, tables and files.
        meaning: what an amount says.
        amounts: one for each severity.
        change: maps float images (N, channels, H, W) from 0 to 1, an amount and a generator to changed images.
        of_strokes: whether it changes strokes, which photos do not have.
    """

    name: str
    meaning: str
    amounts: tuple[float, ...]
    change: Callable[[Tensor, float, torch.Generator | None], Tensor]
    of_strokes: bool = False

    def reason_to_skip(self, channels: int) -> str | None:
        """Return why images with this number of channels cannot be corrupted so, or None if they can."""
        if self.of_strokes and channels > 1:
            return f"{self.name} changes bright strokes on a dark ground, which colour images do not have"
        return None


def corrupt(images: Tensor, name: str, severity: int, generator: torch.Generator | None = None) -> Tensor:
    """Corrupt every image.

    Args:
        images: (N, channels, H, W), uint8. Drawings have bright ink on a dark ground.
        name: the corruption, a key of `CORRUPTIONS`.
        severity: from 1, the mildest, to 5.
        generator: the random number generator. By default, torch's global one.

    Returns:
        New images of the same shape and type.

    Examples:
        >>> images = torch.zeros(3, 1, 28, 28, dtype=torch.uint8)
        >>> images[:, :, 8:20, 13:15] = 255
        >>> thick = corrupt(images, "thick strokes", severity=2)
        >>> bool((thick >= images).all()), bool(thick.sum() > 1.5 * images.sum())
        (True, True)
    """
    corruption = find_corruption(name)
    if images.dtype != torch.uint8 or images.dim() != 4:
        found = f"{images.dtype} of shape {tuple(images.shape)}"
        raise InputError(f"images must be a uint8 tensor of shape (N, channels, H, W) (found {found})")
    if severity not in SEVERITIES:
        raise InputError(f"severity must be one of {', '.join(map(str, SEVERITIES))} (found {severity!r})")
    reason = corruption.reason_to_skip(images.shape[1])
    if reason:
        raise InputError(f"{reason} (found {images.shape[1]} channels): choose another corruption")
    amount = corruption.amounts[severity - 1]
    parts = [corruption.change(part.float() / 255, amount, generator) for part in images.split(CHUNK)]
    return torch.cat([part.clamp(0, 1).mul(255).round().byte() for part in parts]) if parts else images.clone()


def find_corruption(name: str) -> Corruption:
    if name not in CORRUPTIONS:
        raise InputError(f"unknown corruption {name!r}: choose one of {', '.join(CORRUPTIONS)}")
    return CORRUPTIONS[name]


def _down_sample(images: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    return down_sample(images, max(1, round(share * min(images.shape[-2:]))))


def _blur(images: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Convolve with a Gaussian, whose standard deviation is a share of the side. The edges are repeated."""
    sigma = share * min(images.shape[-2:])
    reach = math.ceil(4 * sigma)
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, device=images.device) / sigma) ** 2)
    kernel /= kernel.sum()
    N, channels, H, W = images.shape
    flat = F.pad(images.reshape(-1, 1, H, W), (reach,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(flat, kernel.view(1, 1, 1, -1)), kernel.view(1, 1, -1, 1)).view(N, channels, H, W)


def _noise(images: Tensor, sigma: float, generator: torch.Generator | None) -> Tensor:
    return images + sigma * torch.randn(images.shape, generator=generator).to(images.device)


def _occlude(images: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Cover a square of each image, at a random place, with one random grey level or colour."""
    N, channels, _, _ = images.shape
    colour = torch.rand(N, channels, 1, 1, generator=generator).to(images.device)
    return torch.where(_squares(images, share, generator), colour, images)


def _clutter(images: Tensor, count: float, generator: torch.Generator | None) -> Tensor:
    """Paste square pieces of other images over each image, from the same random place."""
    for _ in range(round(count)):
        others = images[torch.randperm(len(images), generator=generator).to(images.device)]
        images = torch.where(_squares(images, PATCH, generator), others, images)
    return images


def _squares(images: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Return (N, 1, H, W) whether each pixel lies in a square at a random place. Its side is a share of the image's."""
    N, _, H, W = images.shape
    side = max(1, round(share * min(H, W)))
    inside: list[Tensor] = []
    for n, place in zip((H, W), torch.rand(2, N, generator=generator), strict=True):
        first = (place * (n - side + 1)).floor()[:, None]
        inside.append((torch.arange(n) >= first) & (torch.arange(n) < first + side))
    return (inside[0][:, None, :, None] & inside[1][:, None, None, :]).to(images.device)


def _stroke(images: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Make bright strokes thicker on each side by a share of the image's side, or thinner if it is negative."""
    sign = math.copysign(1, share)
    whole, part = divmod(abs(share) * min(images.shape[-2:]), 1)
    images = sign * images
    for step in range(int(whole)):
        images = _grown(images, step)
    return sign * torch.lerp(images, _grown(images, int(whole)), part)  # the last step by a fraction of a pixel


def _grown(images: Tensor, step: int) -> Tensor:
    """Let bright pixels grow into their neighbours: four and eight of them in turn, so that round stays round."""
    if step % 2:
        return F.max_pool2d(images, 3, stride=1, padding=1)
    up, across = (F.max_pool2d(images, kernel, 1, padding) for kernel, padding in (((3, 1), (1, 0)), ((1, 3), (0, 1))))
    return torch.maximum(up, across)


_ALL = (
    Corruption(
        "down-sampling", "side in pixels, of the image's", (20 / 28, 14 / 28, 10 / 28, 7 / 28, 5 / 28), _down_sample
    ),
    Corruption("blur", "standard deviation, of the side", (0.02, 0.035, 0.05, 0.07, 0.1), _blur),
    Corruption("noise", "standard deviation, of the range", (0.1, 0.2, 0.3, 0.45, 0.6), _noise),
    Corruption("occlusion", "side of a square, of the image's", (0.2, 0.3, 0.4, 0.5, 0.6), _occlude),
    Corruption("clutter", "pieces of other images", (1, 2, 3, 4, 6), _clutter),
    Corruption("thick strokes", "added on each side, of the image's", (0.01, 0.02, 0.035, 0.05, 0.07), _stroke, True),
    Corruption("thin strokes", "taken on each side, of the image's", (-0.004, -0.008, -0.014, -0.02, -0.027),
               _stroke, True),
)  # fmt: skip
CORRUPTIONS = {corruption.name: corruption for corruption in _ALL}
