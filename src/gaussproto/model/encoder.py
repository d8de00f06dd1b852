"""Encoders: from an image to one vector [x, s_raw], D numbers of the embedding and R raw numbers of the precision."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.errors import InputError
from gaussproto.model.cpu import pixels

ENOUGH_IMAGES = 32  # with fewer, `cpu.pixels` spends more on transforming the filters than it saves


class Block(nn.Module):
    """A block of the encoder: 3x3 convolution, batch norm, ReLU, 2x2 max pool.

    The ReLU is computed after the pool, on a quarter of the numbers. Both are monotone, so the result is the same. The
    last `linear` channels skip the ReLU.
    """

    def __init__(self, inputs: int, outputs: int, linear: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)  # batch norm adds the bias
        self.norm = nn.BatchNorm2d(outputs)
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H // 2, W // 2)."""
        return self.activate(F.max_pool2d(self.norm(self.conv(x)), 2), channels=1)

    def activate(self, y: Tensor, channels: int) -> Tensor:
        if self.linear == 0:
            return F.relu(y)
        rectified, linear = y.split([y.shape[channels] - self.linear, self.linear], dim=channels)
        return torch.cat([F.relu(rectified), linear], dim=channels)


class Encoder(nn.Module):
    """The paper's encoder: a block for each of `filters`, and a last one with `outputs` channels.

    Four blocks reduce 28 x 28 pixels to one. If an image leaves more pixels, the encoder averages them.

    >>> Encoder(filters=(64, 64, 64), outputs=65)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 65])
    """

    def __init__(self, filters: Sequence[int], outputs: int, channels: int = 1, linear: int = 0) -> None:
        super().__init__()
        widths = [channels, *filters]
        blocks = [Block(before, after) for before, after in pairwise(widths)]
        self.blocks = nn.Sequential(*blocks, Block(widths[-1], outputs, linear))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, channels, H, W) from 0 to 1 to (N, outputs), after subtracting the mean of each image."""
        images = images - images.mean(dim=(1, 2, 3), keepdim=True)
        blocks = cast("Iterable[Block]", self.blocks)
        by_pixels = images.device.type == "cpu" and len(images) >= ENOUGH_IMAGES and not torch.compiler.is_compiling()
        y: Tensor = pixels.encode(blocks, images) if by_pixels else self.blocks(images)
        return y.flatten(1) if y.shape[-2:] == (1, 1) else y.mean(dim=(-2, -1))


class Head(nn.Module):
    """A backbone that maps images to vectors (N, features), and a linear layer that maps those to D + R outputs.

    With `precision_relu` the R raw numbers of the precision pass a ReLU. The embedding never does.
    """

    def __init__(self, backbone: nn.Module, features: int, D: int, R: int, precision_relu: bool) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(features, D + R)
        self.D, self.precision_relu = D, precision_relu

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.backbone(images)
        if vectors.shape != (len(images), self.head.in_features):
            raise InputError(
                f"the encoder must return vectors of shape (N, features) = ({len(images)}, {self.head.in_features}) "
                f"(found {tuple(vectors.shape)}): change `features` or the encoder"
            )
        y: Tensor = self.head(vectors)
        if self.precision_relu:
            y = torch.cat([y[:, : self.D], F.relu(y[:, self.D :])], dim=1)
        return y
