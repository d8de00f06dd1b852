"""The encoder and the precision as an ONNX graph, made from the weights as arrays: no torch, nothing is traced.

    images, uint8 -> 0 to 1 -> minus each image's mean -> blocks -> x, s_raw -> transform -> embedding, precision

The same function as `GaussianPrototypicalNetwork.embed` with running statistics; batch norm is a part of the filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from gaussproto.config import NetworkConfig, Transform
from gaussproto.errors import InputError

OPSET, IR = 17, 8  # what runtimes since 2022 know
EPS = 1e-5  # of nn.BatchNorm2d
LARGEST = 15.0  # of the raw output under `exp`, as in `covariance.py`


class Graph:
    """Nodes and constants of a graph that grows at its end; every method returns the name of what it has added."""

    def __init__(self) -> None:
        self.onnx = import_extra("onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """A node with one output."""
        return self.add_many(kind, *inputs, names=[name or f"{kind.lower()}_{len(self.nodes)}"], **attributes)[0]

    def add_many(self, kind: str, *inputs: str, names: Sequence[str], **attributes: Any) -> list[str]:
        """A node with several outputs."""
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, list(names), name=names[0], **attributes))
        return list(names)

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """An array that is a part of the file."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(value, dtype=dtype), name))
        return name


def import_extra(name: str) -> Any:
    """A package that only ONNX needs, so that not everybody has it."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"this needs the package {name}, which is not here: pip install 'gaussproto[onnx]'") from None


def encoder_graph(config: NetworkConfig, weights: Mapping[str, np.ndarray]) -> Any:
    """An `onnx.ModelProto`: images (N, channels, H, W) uint8 -> embedding (N, D) and, if there is one, precision.

    The number of images and their size are free; the precision is (N, 1), (N, D) or (N, D, D).

    Args:
        config: what the network is.
        weights: its `state_dict` as arrays.
    """
    D, covariance = config.embedding_dim, config.covariance
    blocks = sorted({int(name.split(".")[2]) for name in weights if name.startswith("encoder.blocks.")})
    if not blocks:
        raise InputError("only the package's own encoders of images have an ONNX form: export others with torch.onnx")
    g = Graph()
    onnx = g.onnx
    y = g.add("Div", g.add("Cast", "images", to=onnx.TensorProto.FLOAT), g.constant(255.0))
    y = g.add("Sub", y, g.add("ReduceMean", y, axes=[1, 2, 3]))
    for i in blocks:
        filters, bias = _folded(weights, f"encoder.blocks.{i}.")
        y = g.add("Conv", y, g.constant(filters), g.constant(bias), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        y = g.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
        if i < blocks[-1]:  # of the last block the precision may be without
            y = g.add("Relu", y)
    x, R = y, len(bias) - D
    outputs = {"embedding": [D]}
    if covariance != "none":
        x, s_raw = g.add_many("Split", y, g.constant([D, R], np.int64), names=["x", "s_raw"], axis=1)
        s_raw = _averaged(g, g.add("Relu", s_raw) if config.precision_relu else s_raw)
        if covariance == "full":
            _full(g, s_raw, D, config.transform, weights)
        else:
            _transformed(g, s_raw, config.transform, weights, name="precision")
        outputs["precision"] = {"radius": [1], "diagonal": [D], "full": [D, D]}[covariance]
    _averaged(g, g.add("Relu", x), name="embedding")

    helper, FLOAT, UINT8 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
    channels = weights[f"encoder.blocks.{blocks[0]}.conv.weight"].shape[1]
    graph = helper.make_graph(
        g.nodes,
        "encoder",
        [helper.make_tensor_value_info("images", UINT8, ["N", channels, "H", "W"])],
        [helper.make_tensor_value_info(name, FLOAT, ["N", *sizes]) for name, sizes in outputs.items()],
        g.constants,
    )
    return helper.make_model(graph, ir_version=IR, opset_imports=[helper.make_opsetid("", OPSET)])


def _folded(weights: Mapping[str, np.ndarray], block: str) -> tuple[np.ndarray, np.ndarray]:
    """Filters and bias of a convolution that does what the block's own and its batch norm do."""
    filters, norm = weights[f"{block}conv.weight"].astype(np.float64), f"{block}norm."
    scale = weights[f"{norm}weight"] / np.sqrt(weights[f"{norm}running_var"].astype(np.float64) + EPS)
    return filters * scale[:, None, None, None], weights[f"{norm}bias"] - weights[f"{norm}running_mean"] * scale


def _averaged(g: Graph, y: str, name: str | None = None) -> str:
    """(N, C, h, w) -> (N, C): one pixel stays what it is."""
    return g.add("Flatten", g.add("GlobalAveragePool", y), name=name)


def _transformed(
    g: Graph, s_raw: str, transform: Transform, weights: Mapping[str, np.ndarray], name: str | None = None
) -> str:
    """The transforms of `covariance.py`, component-wise."""
    if transform == "exp":
        return g.add("Exp", g.add("Clip", s_raw, g.constant(-LARGEST), g.constant(LARGEST)), name=name)
    offset: Any = 1.0
    scale: Any = 4.0 if transform == "wide_sigmoid" else 1.0
    if transform == "learned_softplus":
        offset, scale, div = (weights[f"precision.transform.{part}"] for part in ("offset", "scale", "div"))
        s_raw = g.add("Div", s_raw, g.constant(div))
    s = g.add("Sigmoid" if "sigmoid" in transform else "Softplus", s_raw)
    return g.add("Add", g.add("Mul", s, g.constant(scale)), g.constant(offset), name=name)


def _full(g: Graph, s_raw: str, D: int, transform: Transform, weights: Mapping[str, np.ndarray]) -> None:
    """L L^T, where the transform gives the squared diagonal of L and the rest below it is raw."""
    sizes = g.constant([D, D * (D - 1) // 2], np.int64)
    diagonal, rest = g.add_many("Split", s_raw, sizes, names=["diagonal", "rest"], axis=1)
    parts = g.add("Concat", g.add("Sqrt", _transformed(g, diagonal, transform, weights)), rest, axis=1)
    padded = g.add("Pad", parts, g.constant([0, 0, 0, 1], np.int64))  # a zero at the end, for what is above
    place = np.full((D, D), D * (D + 1) // 2)
    place[np.diag_indices(D)] = np.arange(D)
    place[np.tril_indices(D, -1)] = np.arange(D, D * (D + 1) // 2)
    flat = g.add("Gather", padded, g.constant(place.ravel(), np.int64), axis=1)
    L = g.add("Reshape", flat, g.constant([0, D, D], np.int64))  # 0: as many as there are
    g.add("MatMul", L, g.add("Transpose", L, perm=[0, 2, 1]), name="precision")
