"""Encoders: from an image to one vector [x, s_raw], D numbers of the embedding and R raw numbers of the precision."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.errors import InputError
from gaussproto.model.cpu import pixels

ENOUGH_IMAGES = 32  # with fewer, `cpu.pixels` spends more on transforming the filters than it saves
START = 0.5  # of the scale of a residual batch norm: the block begins close to passing its input on


class Residual(nn.Module):
    """A 3x3 convolution and batch norm whose result is added to their input, then ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm2d(channels)
        nn.init.constant_(self.norm.weight, START)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.conv(x)))


class Block(nn.Module):
    """A block of the encoder: 3x3 convolution, batch norm, ReLU, 2x2 max pool, perhaps after residual convolutions.

    The ReLU is computed after the pool, on a quarter of the numbers. Both are monotone, so the result is the same. The
    last `linear` channels skip the ReLU. If a side is odd, the pool drops the last row or column of pixels, as in the
    paper. With `whole`, it pools them alone.
    """

    def __init__(self, inputs: int, outputs: int, linear: int = 0, residual: int = 0, whole: bool = False) -> None:
        super().__init__()
        self.residuals = nn.Sequential(*(Residual(inputs) for _ in range(residual)))
        self.conv = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)  # batch norm adds the bias
        self.norm = nn.BatchNorm2d(outputs)
        self.linear, self.whole = linear, whole

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H // 2, W // 2), or half of H and W rounded up if `whole`."""
        y = self.norm(self.conv(self.residuals(x)))
        return self.activate(F.max_pool2d(y, 2, ceil_mode=self.whole), channels=1)

    def activate(self, y: Tensor, channels: int) -> Tensor:
        if self.linear == 0:
            return F.relu(y)
        rectified, linear = y.split([y.shape[channels] - self.linear, self.linear], dim=channels)
        return torch.cat([F.relu(rectified), linear], dim=channels)


class Encoder(nn.Module):
    """The paper's encoder: a block for each of `filters`, and a last one whose channels are the D + R outputs.

    Four blocks reduce 28 x 28 pixels to one. If an image leaves more pixels, the encoder averages them.

    With a `grid` of g > 1, our addition, the embedding keeps where things are: it has a part for each of g x g areas of
    the image, so the last block needs only D / g² channels for it. The pools drop no pixels then.

    Args:
        filters: the number of channels of each block before the last.
        D: the size of the embedding.
        R: the number of raw numbers of the precision.
        channels: of the images.
        precision_relu: whether the raw precision passes the ReLU of the last block.
        residual: the number of residual convolutions at the start of each block; missing ones are 0.
        grid: the number of areas along each side.

    >>> Encoder(filters=(64, 64, 64), D=64, R=1)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 65])
    """

    def __init__(
        self,
        filters: Sequence[int],
        D: int,
        R: int,
        channels: int = 1,
        *,
        precision_relu: bool = True,
        residual: Sequence[int] = (),
        grid: int = 1,
    ) -> None:
        super().__init__()
        self.grid, self.of_embedding = grid, D // grid**2  # channels of the last block
        widths = [channels, *filters, self.of_embedding + R]
        linear = [0] * len(filters) + [0 if precision_relu else R]
        extra = [*residual, *[0] * (len(linear) - len(residual))]
        self.blocks = nn.Sequential(*map(partial(Block, whole=grid > 1), widths, widths[1:], linear, extra))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, channels, H, W) from 0 to 1 to (N, D + R), after subtracting the mean of each image."""
        images = images - images.mean(dim=(1, 2, 3), keepdim=True)
        blocks = cast("Iterable[Block]", self.blocks)
        by_pixels = images.device.type == "cpu" and len(images) >= ENOUGH_IMAGES and not torch.compiler.is_compiling()
        y: Tensor = pixels.encode(blocks, images) if by_pixels else self.blocks(images)
        if self.grid == 1:
            return _averaged(y)
        x, s_raw = y[:, : self.of_embedding], y[:, self.of_embedding :]
        return torch.cat([_areas(x, self.grid).flatten(1), _averaged(s_raw)], dim=1)


def _averaged(y: Tensor) -> Tensor:
    """(N, C, h, w) → (N, C)."""
    return y.flatten(1) if y.shape[-2:] == (1, 1) else y.mean(dim=(-2, -1))


def _areas(y: Tensor, grid: int) -> Tensor:
    """(N, C, h, w) → (N, C, grid, grid): the mean of each area. Areas share a pixel if the grid does not divide a side.

    This is adaptive average pooling, which is not deterministic on every device.
    """
    if y.shape[-2:] == (grid, grid):
        return y
    for dim in (2, 3):
        size = y.shape[dim]
        edges = [(i * size // grid, -(-(i + 1) * size // grid)) for i in range(grid)]
        y = torch.stack([y.narrow(dim, first, end - first).mean(dim) for first, end in edges], dim)
    return y


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
