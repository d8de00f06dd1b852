"""Build the ONNX graph of an encoder and its precision from the weights as arrays, without torch and without tracing.

    images, uint8 → 0 to 1 → minus each image's mean → blocks → x, s_raw → transform → embedding, precision

The graph computes the same as `GaussianPrototypicalNetwork.embed` with running statistics. Batch norm is folded into
the filters.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np

from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError, import_extra
from gaussproto.formulas.covariance import find_covariance, find_transform

OPSET, IR = 17, 8  # known to runtimes since 2022
EPS = 1e-5  # of nn.BatchNorm2d


class Graph:
    """A graph under construction. Every method returns the name of what it added."""

    def __init__(self) -> None:
        self.onnx = import_extra("onnx", "onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        return self.add_many(kind, *inputs, names=[name or f"{kind.lower()}_{len(self.nodes)}"], **attributes)[0]

    def add_many(self, kind: str, *inputs: str, names: Sequence[str], **attributes: Any) -> list[str]:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, list(names), name=names[0], **attributes))
        return list(names)

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(value, dtype=dtype), name))
        return name


def encoder_graph(config: NetworkConfig, weights: Mapping[str, np.ndarray]) -> Any:
    """Return an `onnx.ModelProto` from images (N, channels, H, W) uint8 to embedding (N, D) and precision, if any.

    N, H and W are free. The precision is (N, 1), (N, D) or (N, D, D).
    """
    D, covariance = config.embedding_dim, find_covariance(config.covariance)
    blocks = sorted({int(name.split(".")[2]) for name in weights if name.startswith("encoder.blocks.")})
    if not blocks:
        raise InputError(
            "only networks with the built-in encoders, small and big, can be exported: use torch.onnx for others"
        )
    g = Graph()
    helper, FLOAT, UINT8 = g.onnx.helper, g.onnx.TensorProto.FLOAT, g.onnx.TensorProto.UINT8
    y = g.add("Div", g.add("Cast", "images", to=FLOAT), g.constant(255.0))
    y = g.add("Sub", y, g.add("ReduceMean", y, axes=[1, 2, 3]))
    for i, residual in zip(blocks, chain(config.residual, repeat(0)), strict=False):
        block = f"encoder.blocks.{i}."
        for n in range(residual):
            y = g.add("Relu", g.add("Add", y, _convolved(g, y, weights, f"{block}residuals.{n}.")))
        y = _convolved(g, y, weights, block)
        y = g.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=int(config.grid > 1))
        if i < blocks[-1]:  # after the last block, the precision may skip the ReLU
            y = g.add("Relu", y)
    x, R = y, covariance.raw_size(D)
    outputs = {"embedding": [D]}
    if R:
        sizes = g.constant([D // config.grid**2, R], np.int64)
        x, s_raw = g.add_many("Split", y, sizes, names=["x", "s_raw"], axis=1)
        s_raw = _averaged(g, g.add("Relu", s_raw) if config.precision_relu else s_raw)
        transform = find_transform(config.transform)
        learned: dict[str, Any] = {name: weights[f"precision.transform.{name}"] for name in transform.parameters}
        covariance.onnx(g, s_raw, partial(transform.onnx, g, **learned), D)
        outputs["precision"] = list(covariance.shape(D))
    x = g.add("Relu", x)
    if config.grid == 1:
        _averaged(g, x, name="embedding")
    else:
        for axis in (2, 3):
            x = _averaged_areas(g, x, axis, config.grid)
        g.add("Flatten", x, name="embedding")

    channels = weights[f"encoder.blocks.{blocks[0]}.conv.weight"].shape[1]
    graph = helper.make_graph(
        g.nodes,
        "encoder",
        [helper.make_tensor_value_info("images", UINT8, ["N", channels, "H", "W"])],
        [helper.make_tensor_value_info(name, FLOAT, ["N", *sizes]) for name, sizes in outputs.items()],
        g.constants,
    )
    return helper.make_model(graph, ir_version=IR, opset_imports=[helper.make_opsetid("", OPSET)])


def _convolved(g: Graph, y: str, weights: Mapping[str, np.ndarray], layer: str) -> str:
    filters, bias = _folded(weights, layer)
    return g.add("Conv", y, g.constant(filters), g.constant(bias), kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def _folded(weights: Mapping[str, np.ndarray], block: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the filters and bias of one convolution that equals the block's convolution and batch norm."""
    filters, norm = weights[f"{block}conv.weight"].astype(np.float64), f"{block}norm."
    scale = weights[f"{norm}weight"] / np.sqrt(weights[f"{norm}running_var"].astype(np.float64) + EPS)
    return filters * scale[:, None, None, None], weights[f"{norm}bias"] - weights[f"{norm}running_mean"] * scale


def _averaged(g: Graph, y: str, name: str | None = None) -> str:
    """(N, C, h, w) → (N, C): the mean over pixels."""
    return g.add("Flatten", g.add("GlobalAveragePool", y), name=name)


def _averaged_areas(g: Graph, y: str, axis: int, grid: int) -> str:
    """Average the pixels of each of `grid` areas along an axis of L pixels: ⌊i L / grid⌋ to ⌈(i + 1) L / grid⌉."""
    length = g.add("Slice", g.add("Shape", y), *(g.constant([n], np.int64) for n in (axis, axis + 1)))
    count, along = g.constant([grid], np.int64), g.constant([axis], np.int64)
    areas = []
    for i in range(grid):
        first = g.add("Div", g.add("Mul", length, g.constant([i], np.int64)), count)
        ahead = g.add("Add", g.add("Mul", length, g.constant([i + 1], np.int64)), g.constant([grid - 1], np.int64))
        area = g.add("Slice", y, first, g.add("Div", ahead, count), along)
        areas.append(g.add("ReduceMean", area, axes=[axis]))
    return g.add("Concat", *areas, axis=axis)
