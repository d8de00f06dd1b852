"""The encoder's blocks on a CPU, stored pixel-major as (H, W, N, C), so that everything is a matrix product.

The result is that of `Block.forward`, up to rounding. Each block is one call for all images, which is faster for a few
dozen images or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.model.cpu.winograd import conv3x3

if TYPE_CHECKING:
    from gaussproto.model.encoder import Block, Residual

FEW_CHANNELS = 4  # with at most as many channels, the 3x3 patch of each pixel is short enough to be stored


def encode(blocks: Iterable[Block], images: Tensor) -> Tensor:
    x = images.permute(2, 3, 0, 1).contiguous()
    for block in blocks:
        of_batch = block.norm.training or block.norm.running_mean is None
        for residual in cast("Iterable[Residual]", block.residuals):
            x = F.relu_(x + (_normed(residual, x) if of_batch else _folded_conv(residual, x)))
        x = _batch_normed(block, x) if of_batch else _folded(block, x)
    return x.permute(2, 3, 0, 1)


def _batch_normed(block: Block, x: Tensor) -> Tensor:
    if _is_short(x):
        return _batch_normed_patches(block, x)
    return block.activate(_pool(_normed(block, x), block.whole), channels=-1)


def _normed(layer: Block | Residual, x: Tensor) -> Tensor:
    """Convolve, and normalise with the statistics of the batch."""
    y = conv3x3(x, layer.conv.weight)
    H, W, N, C = y.shape
    normed: Tensor = layer.norm(y.view(1, H * W, N, C).permute(0, 3, 1, 2))  # (1, C, H * W, N), channels last
    return normed.permute(0, 2, 3, 1).view(H, W, N, C)


def _batch_normed_patches(block: Block, x: Tensor) -> Tensor:
    """Compute a block with few input channels, where activations are largest, from the statistics of the patches.

    The convolution y = patch · f has the mean E[patch] · f and the variance fᵀ Cov[patch] f. So the norm is folded into
    the filters before the convolution, and its gradient involves only small matrices.
    """
    patches, norm = _patches(x), block.norm
    rows = patches.flatten(1, 2)  # (H, W * N, P)
    count = rows.shape[0] * rows.shape[1]
    mean_patch = rows.mean(dim=1).mean(dim=0)
    second = torch.bmm(rows.mT, rows).double().sum(dim=0) / count  # double: a difference of large sums follows
    covariance = (second - mean_patch.double().outer(mean_patch.double())).to(x.dtype)
    filters = _as_matrix(block.conv.weight)
    mean = mean_patch @ filters
    variance = (filters * (covariance @ filters)).sum(dim=0)
    _remember(norm, mean.detach(), variance.detach() * (count / (count - 1)))
    scale = norm.weight * torch.rsqrt(variance + norm.eps)
    product: Tensor = _PatchProduct.apply(patches, filters * scale)  # type: ignore[no-untyped-call]
    return block.activate(_pool(product, block.whole) + (norm.bias - mean * scale), channels=-1)


def _remember(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor) -> None:
    if not norm.training or norm.running_mean is None or norm.running_var is None:
        return
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    share = norm.momentum if norm.momentum is not None else 1 / int(norm.num_batches_tracked)
    norm.running_mean.lerp_(mean, share)
    norm.running_var.lerp_(variance, share)


def _folded(block: Block, x: Tensor) -> Tensor:
    """Compute a block with running statistics: fold the norm into the filters, and skip pixels that the pool drops."""
    weight, bias = _fold(block)
    outputs = None if block.whole else (x.shape[0] // 2 * 2, x.shape[1] // 2 * 2)
    if _is_short(x):
        y: Tensor = _PatchProduct.apply(_patches(x, outputs), _as_matrix(weight))  # type: ignore[no-untyped-call]
    else:
        y = conv3x3(x, weight, outputs)
    # The bias does not change which pixel is the largest.
    return block.activate(_pool(y, block.whole) + bias, channels=-1)


def _folded_conv(layer: Residual, x: Tensor) -> Tensor:
    weight, bias = _fold(layer)
    return conv3x3(x, weight) + bias


def _fold(layer: Block | Residual) -> tuple[Tensor, Tensor]:
    """Return the filters and the bias of a convolution that equals the layer's convolution and running norm."""
    norm = layer.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return layer.conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale


def _is_short(x: Tensor) -> bool:
    return x.shape[-1] <= FEW_CHANNELS and not x.requires_grad


def _patches(x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
    """Return the 3x3 patch of each pixel, (H, W, N, C) -> (H, W, N, 9 C), or only of the first `outputs` pixels."""
    H, W = outputs or x.shape[:2]
    padded = F.pad(x, (0, 0, 0, 0, 1, 1, 1, 1))
    return torch.cat([padded[i : i + H, j : j + W] for i in range(3) for j in range(3)], dim=-1)


def _as_matrix(weight: Tensor) -> Tensor:
    """Reshape filters to multiply patches by, (O, C, 3, 3) -> (9 C, O)."""
    return weight.permute(2, 3, 1, 0).flatten(0, 2)


class _PatchProduct(torch.autograd.Function):
    """The product of patches (H, W, N, P) and filters (P, C), without a gradient for the patches.

    For the gradient of the filters, autograd multiplies a tall matrix by a narrow one, which is ten times slower.
    """

    @staticmethod
    def forward(ctx: Any, patches: Tensor, filters: Tensor) -> Tensor:
        ctx.save_for_backward(patches)
        return patches @ filters

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, Tensor]:
        (patches,) = ctx.saved_tensors
        rows = patches.flatten(1, 2).transpose(1, 2)  # (H, P, W * N)
        return None, torch.bmm(rows, dy.flatten(1, 2)).sum(dim=0)


def _pool(y: Tensor, whole: bool) -> Tensor:
    H, W, N, C = y.shape
    pooled = F.max_pool2d(y.view(1, H, W, N * C).permute(0, 3, 1, 2), 2, ceil_mode=whole)
    return pooled.permute(0, 2, 3, 1).view(*pooled.shape[-2:], N, C)
