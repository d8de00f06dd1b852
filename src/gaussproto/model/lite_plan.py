"""The plan of EfficientNet-Lite0, for the torch module and for the ONNX graph. Without torch."""

from collections.abc import Iterator
from typing import NamedTuple

FEATURES = 1280  # numbers per image
IMAGE_SIZE = 224  # pixels, as in its training
MEAN, STD = 127.0, 128.0  # of the pixels, as in its training
STEM, CHANNELS = 32, 3
NORM_EPS = 1e-3  # of its batch norms


class BlockPlan(NamedTuple):
    """The sizes of one inverted residual block."""

    kernel: int
    stride: int
    inputs: int
    outputs: int
    expansion: int

    @property
    def width(self) -> int:
        return self.inputs * self.expansion

    @property
    def skips(self) -> bool:
        """Whether the block adds its input to its output."""
        return self.stride == 1 and self.inputs == self.outputs


# Repetitions, kernel, stride of the first repetition, outputs, expansion.
STAGES = (
    (1, 3, 1, 16, 1),
    (2, 3, 2, 24, 6),
    (2, 5, 2, 40, 6),
    (3, 3, 2, 80, 6),
    (3, 5, 1, 112, 6),
    (4, 5, 2, 192, 6),
    (1, 3, 1, 320, 6),
)


def _blocks() -> Iterator[BlockPlan]:
    inputs = STEM
    for repetitions, kernel, stride, outputs, expansion in STAGES:
        for i in range(repetitions):
            yield BlockPlan(kernel, stride if i == 0 else 1, inputs, outputs, expansion)
            inputs = outputs


BLOCKS = tuple(_blocks())
