"""Image -> one vector [x, s_raw] of D + R numbers, R being what the covariance needs."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.model.cpu import pixels

ENOUGH_IMAGES = 32  # for `cpu.pixels`: with fewer, transforming the filters costs more than it saves


class Block(nn.Module):
    """3x3 convolution -> batch norm -> ReLU -> 2x2 max pool.

    The ReLU is computed after the pool, on a quarter of the numbers: both are monotone, so they commute.
    The last `linear` channels do not pass the ReLU.
    """

    def __init__(self, inputs: int, outputs: int, linear: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)  # batch norm brings the bias
        self.norm = nn.BatchNorm2d(outputs)
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs, H, W) -> (N, outputs, H // 2, W // 2)."""
        return self.activate(F.max_pool2d(self.norm(self.conv(x)), 2), channels=1)

    def activate(self, y: Tensor, channels: int) -> Tensor:
        if self.linear == 0:
            return F.relu(y)
        rectified, linear = y.split([y.shape[channels] - self.linear, self.linear], dim=channels)
        return torch.cat([F.relu(rectified), linear], dim=channels)


class Encoder(nn.Module):
    """Four blocks; 28 x 28 pixels become 1 x 1, and what other sizes leave is averaged to one vector.

    >>> Encoder(filters=(64, 64, 64), outputs=65)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 65])
    """

    def __init__(self, filters: Sequence[int], outputs: int, channels: int = 1, linear: int = 0) -> None:
        super().__init__()
        widths = [channels, *filters]
        blocks = [Block(before, after) for before, after in pairwise(widths)]
        self.blocks = nn.Sequential(*blocks, Block(widths[-1], outputs, linear))

    def forward(self, images: Tensor) -> Tensor:
        """(N, channels, H, W), from 0 to 1 -> (N, outputs); the mean of each image is taken off first."""
        images = images - images.mean(dim=(1, 2, 3), keepdim=True)
        blocks = cast("Iterable[Block]", self.blocks)
        by_pixels = images.device.type == "cpu" and len(images) >= ENOUGH_IMAGES and not torch.compiler.is_compiling()
        y: Tensor = pixels.encode(blocks, images) if by_pixels else self.blocks(images)
        return y.flatten(1) if y.shape[-2:] == (1, 1) else y.mean(dim=(-2, -1))


class Head(nn.Module):
    """Any network that maps images to vectors of `features` numbers, and a linear layer to the D + R outputs.

    The embedding is linear; the precision passes a ReLU if `precision_relu`.
    """

    def __init__(self, backbone: nn.Module, features: int, D: int, R: int, precision_relu: bool) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(features, D + R)
        self.D, self.precision_relu = D, precision_relu

    def forward(self, images: Tensor) -> Tensor:
        y: Tensor = self.head(self.backbone(images))
        if self.precision_relu:
            y = torch.cat([y[:, : self.D], F.relu(y[:, self.D :])], dim=1)
        return y
