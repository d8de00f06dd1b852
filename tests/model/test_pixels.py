"""The fast path of the encoder computes what the plain blocks define."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gaussproto.model.cpu.winograd import LARGEST_TILE, conv3x3, toom_cook
from gaussproto.model.embed import batch_statistics
from gaussproto.model.encoder import ENOUGH_IMAGES, Encoder
from gaussproto.setting_types import FILTERS


def plain_conv(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x.permute(2, 3, 0, 1), weight, padding=1).permute(2, 3, 0, 1)


@pytest.mark.parametrize("m", range(1, LARGEST_TILE + 1))
def test_toom_cook_is_correlation(m: int) -> None:
    rng = np.random.default_rng(m)
    A, B, G = toom_cook(m)
    d, g = rng.standard_normal(m + 2), rng.standard_normal(3)
    np.testing.assert_allclose(A.T @ ((G @ g) * (B @ d)), np.correlate(d, g, "valid"), atol=1e-12)


sizes = st.integers(1, 17)


@settings(deadline=None)
@given(H=sizes, W=sizes, N=st.integers(1, 3), C=st.integers(1, 4), outputs=st.integers(1, 4), seed=st.integers(0, 99))
def test_winograd_is_convolution_with_its_gradients(H: int, W: int, N: int, C: int, outputs: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(H, W, N, C, generator=g, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(outputs, C, 3, 3, generator=g, dtype=torch.float64, requires_grad=True)
    fast, plain = conv3x3(x, weight), plain_conv(x, weight)
    torch.testing.assert_close(fast, plain, atol=1e-9, rtol=0)
    dy = torch.randn(fast.shape, generator=g, dtype=torch.float64)
    for ours, theirs in zip(
        torch.autograd.grad(fast, (x, weight), dy), torch.autograd.grad(plain, (x, weight), dy), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=0)


def test_some_outputs_are_the_first_of_all() -> None:
    x, weight = torch.randn(7, 9, 2, 3, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(conv3x3(x, weight, (6, 5)), plain_conv(x, weight)[:6, :5], atol=1e-10, rtol=0)


@pytest.mark.parametrize("size", [3, 7, 14, 28])
def test_winograd_rounds_little_in_single_precision(size: int) -> None:
    """Less than a hundredth of what half precision would lose, root mean square."""
    g = torch.Generator().manual_seed(size)
    x = torch.randn(size, size, 4, 128, generator=g).relu()
    weight = torch.randn(64, 128, 3, 3, generator=g)
    exact = plain_conv(x.double(), weight.double())
    error = (conv3x3(x, weight).double() - exact).square().mean().sqrt() / exact.std()
    assert error < 5e-5


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("linear", [0, 1, 5])
@pytest.mark.parametrize("size", [28, 33])
@pytest.mark.parametrize("deeper", [{}, {"grid": 2, "residual": (0, 2, 0, 1)}])
def test_encoder_is_its_plain_blocks(channels: int, linear: int, size: int, deeper: dict[str, Any]) -> None:
    torch.manual_seed(size + channels)
    encoder = Encoder((8, 8, 8), D=8, R=linear, channels=channels, precision_relu=False, **deeper).double()
    with torch.no_grad():
        for layer in encoder.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.weight.uniform_(-1, 1)  # of either sign
                layer.bias.uniform_(-1, 1)
    images = torch.rand(ENOUGH_IMAGES, channels, size, size, dtype=torch.float64)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}

    def run(fast: bool) -> list[torch.Tensor]:
        encoder.load_state_dict(before)
        encoder.train()
        encoder.zero_grad()
        y = encoder(images) if fast else plain(encoder, images)
        y.square().sum().backward()
        gradients = [parameter.grad.clone() for parameter in encoder.parameters()]
        statistics = [buffer.clone() for buffer in encoder.buffers()]
        encoder.eval()
        judged_alone = encoder(images) if fast else plain(encoder, images)
        with batch_statistics(encoder):
            together = encoder(images) if fast else plain(encoder, images)
        return [y, *gradients, *statistics, judged_alone, together]

    for fast, exact in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(fast, exact, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", ["small", "big"])
def test_single_precision_agrees(name: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(FILTERS[name], D=64, R=1)
    images = torch.rand(40, 1, 28, 28)
    encoder(images)  # fills the running statistics
    encoder.eval()
    with torch.inference_mode():
        fast, exact = encoder(images), plain(encoder, images)
    assert (fast - exact).abs().max() < 1e-3 * exact.std()


def plain(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
    """Compute the encoder as its modules define it, without the fast path."""
    with mock.patch("gaussproto.model.encoder.ENOUGH_IMAGES", len(images) + 1):
        return encoder(images)


def test_images_may_need_a_gradient() -> None:
    encoder = Encoder((8, 8), D=4, R=0).double()
    images = torch.rand(40, 1, 12, 12, dtype=torch.float64, requires_grad=True)
    (fast,) = torch.autograd.grad(encoder(images).sum(), images)
    (exact,) = torch.autograd.grad(plain(encoder, images).sum(), images)
    torch.testing.assert_close(fast, exact)
