"""ONNX files that want more than to compute: loops, other files, custom operators, other outputs."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gaussproto as gp
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.encoders.onnx_check import check_safe, with_checksum
from gaussproto.errors import InputError


def model(*nodes, initializers=(), functions=(), domains=("",)):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("images", TensorProto.UINT8, ["N", 1, "H", "W"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["N", 4])], list(initializers),
    )  # fmt: skip
    opsets = [helper.make_opsetid(domain, 17) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions)).SerializeToString()


def hostile_models():
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"])], "body", [], [])
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="secrets.bin")
    function = helper.make_function("own", "f", ["x"], ["y"], [helper.make_node("Identity", ["x"], ["y"])], [])
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]),
        helper.make_tensor("i", TensorProto.INT64, [1], [0]),
        [4],
    )
    with_sparse = onnx.ModelProto.FromString(model(helper.make_node("Identity", ["images"], ["embedding"])))
    with_sparse.graph.sparse_initializer.append(sparse)
    yield "operator Loop", model(helper.make_node("Loop", ["m", "c"], ["embedding"], body=body))
    yield "operator If", model(helper.make_node("If", ["c"], ["embedding"], then_branch=body, else_branch=body))
    yield "operator Scan", model(helper.make_node("Scan", ["images"], ["embedding"], body=body, num_scan_inputs=1))
    yield "weights in another file", model(helper.make_node("Add", ["images", "w"], ["e"]), initializers=[outside])
    yield "weights in another file", model(helper.make_node("Constant", [], ["embedding"], value=outside))
    yield "domain com.evil", model(helper.make_node("Run", ["images"], ["embedding"], domain="com.evil"))
    yield (
        "operator f of the domain own",
        model(helper.make_node("f", ["images"], ["embedding"], domain="own"), functions=[function]),
    )
    yield "sparse weights", with_sparse.SerializeToString()
    yield "sparse weights", model(helper.make_node("Constant", [], ["embedding"], sparse_value=sparse))
    yield "operator RandomNormal", model(helper.make_node("RandomNormal", [], ["embedding"], shape=[1, 4]))
    own = onnx.ModelProto.FromString(model(helper.make_node("ConstantOfShape", ["w"], ["embedding"])))
    own.metadata_props.add(key="gaussproto", value="{}")
    yield "operator ConstantOfShape", own.SerializeToString()


@pytest.mark.parametrize(("what", "content"), list(hostile_models()))
def test_a_model_that_does_more_than_compute_is_refused(tmp_path, what, content):
    (tmp_path / "it.onnx").write_bytes(with_checksum(content))
    with pytest.raises(InputError, match=rf"it\.onnx contains .*{what}.*, which is not allowed"):
        find_encoder(tmp_path / "it.onnx")


def test_a_model_with_other_outputs_is_refused(tmp_path):
    card = json.dumps({"digest": "0" * 64})
    proto = onnx.ModelProto.FromString(model(helper.make_node("Cast", ["images"], ["embedding"], to=TensorProto.FLOAT)))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("embedding", TensorProto.FLOAT, None))
    proto.metadata_props.add(key="gaussproto", value=card)
    proto.ir_version = 8
    (tmp_path / "it.onnx").write_bytes(with_checksum(proto.SerializeToString()))
    encoder = find_encoder(tmp_path / "it.onnx")
    with pytest.raises(InputError, match="must compute embeddings and precisions"):
        encoder.embed(np.zeros((2, 1, 28, 28), dtype=np.uint8))


def test_the_walk_over_a_model_sees_what_onnx_sees(tmp_path, weights):
    """What gaussproto exports is allowed, and every cut of it is refused or allowed, but never a crash."""
    content = gp.export_onnx(weights, tmp_path / "it.onnx").path.read_bytes()
    check_safe(content, "it")
    refused = 0
    for cut in range(0, len(content), 997):
        try:
            check_safe(content[:cut], "it")
        except InputError:
            refused += 1
    assert refused > 0.9 * len(content) / 997
