"""Build the ONNX graph of the photo encoder from its weights as arrays, without torch and without tracing.

    images, uint8 → EfficientNet-Lite0 → features → head → embedding, precision

The graph computes the same as `EfficientNetLite0` and `PhotoHead`. Without a head, the features are the embedding.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussproto.classifier.encoders.onnx_graph import IR, OPSET, Graph
from gaussproto.model.lite_plan import BLOCKS, CHANNELS, FEATURES, MEAN, STD

SIX = 6.0  # the limit of ReLU6
TINY = 1e-12  # as in torch.nn.functional.normalize


def lite_graph(weights: Mapping[str, np.ndarray], head: Mapping[str, np.ndarray] | None = None) -> Any:
    """Return an `onnx.ModelProto` from photos (N, 3, H, W) uint8 to embedding (N, D) and precision (N, 1).

    N, H and W are free. Without a head there is no precision.

    Args:
        weights: the weights of an `EfficientNetLite0`, by name.
        head: the weights of a `PhotoHead` on its features, by name.
    """
    g = Graph()
    helper, FLOAT, UINT8 = g.onnx.helper, g.onnx.TensorProto.FLOAT, g.onnx.TensorProto.UINT8
    y = g.add("Sub", g.add("Cast", "images", to=FLOAT), g.constant(MEAN))
    y = g.add("Div", y, g.constant(STD))
    y = _relu6(g, _conv(g, weights, "stem", y, stride=2))
    for i, plan in enumerate(BLOCKS):
        x, block = y, f"blocks.{i}"
        if plan.expansion > 1:
            y = _relu6(g, _conv(g, weights, f"{block}.expand", y))
        y = _relu6(g, _conv(g, weights, f"{block}.depthwise", y, plan.stride, groups=plan.width))
        y = _conv(g, weights, f"{block}.project", y)
        y = g.add("Add", y, x) if plan.skips else y
    y = g.add("GlobalAveragePool", _relu6(g, _conv(g, weights, "top", y)))
    outputs = {"embedding": FEATURES}
    if head is None:
        g.add("Flatten", y, name="embedding")
    else:
        outputs = add_head(g, head, g.add("Flatten", y))
    graph = helper.make_graph(
        g.nodes,
        "encoder",
        [helper.make_tensor_value_info("images", UINT8, ["N", CHANNELS, "H", "W"])],
        [helper.make_tensor_value_info(name, FLOAT, ["N", size]) for name, size in outputs.items()],
        g.constants,
    )
    return helper.make_model(graph, ir_version=IR, opset_imports=[helper.make_opsetid("", OPSET)])


def _conv(g: Graph, weights: Mapping[str, np.ndarray], name: str, y: str, stride: int = 1, groups: int = 1) -> str:
    filters = weights[f"{name}.weight"]
    arrays = g.constant(filters), g.constant(weights[f"{name}.bias"])
    sizes: dict[str, Any] = {"kernel_shape": list(filters.shape[2:]), "strides": [stride, stride], "group": groups}
    return g.add("Conv", y, *arrays, auto_pad="SAME_UPPER", **sizes)  # TensorFlow's rule, for any H and W


def _relu6(g: Graph, y: str) -> str:
    return g.add("Clip", y, g.constant(0.0), g.constant(SIX))


def add_head(g: Graph, head: Mapping[str, np.ndarray], v: str) -> dict[str, int]:
    """Add a `PhotoHead` to features (N, F). Return the size of each output, by name."""
    part = {name.removeprefix("encoder."): array for name, array in head.items()}
    y = g.add("Sub", _unit(g, v), g.constant(part["mean"]))
    y = g.add("MatMul", y, g.constant(part["embedding.weight"].T))
    g.add("Mul", _unit(g, y), g.constant(part["sharpness"]), name="embedding")
    s = g.add("Div", g.add("Sub", v, g.constant(part["raw_mean"])), g.constant(part["raw_scale"]))
    s = g.add("Gemm", s, g.constant(part["raw.0.weight"]), g.constant(part["raw.0.bias"]), transB=1)
    s = g.add("Gemm", g.add("Relu", s), g.constant(part["raw.2.weight"]), g.constant(part["raw.2.bias"]), transB=1)
    g.add("Sigmoid", s, name="precision")
    return {"embedding": len(part["embedding.weight"]), "precision": 1}


def _unit(g: Graph, y: str) -> str:
    """Divide each vector (N, F) by its length."""
    length = g.add("ReduceL2", y, axes=[1], keepdims=1)
    return g.add("Div", y, g.add("Max", length, g.constant(TINY)))
