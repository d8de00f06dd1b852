"""The ONNX form of a network is that network, and a classifier is the same with either."""

import json
import pickle
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto import (
    GaussianHead,
    GaussianPrototypeClassifier,
    GaussianPrototypicalNetwork,
    NetworkConfig,
    export_onnx,
    load,
    load_network,
)
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.encoders.card import Card
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.encoders.onnx import CARD, OnnxEncoder, onnx_content
from gaussproto.classifier.encoders.onnx_check import with_checksum
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded
from tests.classifier.test_estimator import SMALL, network, uneven_examples

onnx = pytest.importorskip("onnx", reason="needs the extra: pip install 'gaussproto[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'gaussproto[onnx]'")

TRANSFORMS = ["softplus", "sigmoid", "wide_sigmoid", "learned_softplus", "exp"]
KINDS = [
    {"covariance": covariance, "transform": transform, "precision_relu": relu}
    for covariance in ("radius", "diagonal", "full")
    for transform in TRANSFORMS
    for relu in (True, False)
]
CASES = [
    *(SMALL | kind for kind in ({"covariance": "none"}, *KINDS)),
    {"encoder": "small"},
    {"encoder": "big", "embedding_dim": 128, "covariance": "diagonal"},
    {"encoder": "small", "channels": 3, "precision_relu": False, "transform": "exp"},
    {"filters": (4, 4, 4, 4), "embedding_dim": 3, "channels": 3, "covariance": "full"},
    {"filters": (4,), "embedding_dim": 1, "covariance": "full"},
    {"grid": 2, "residual": (0, 0, 1, 2), "precision_relu": False, "transform": "exp"},
    {"filters": (8, 8), "grid": 3, "embedding_dim": 18, "channels": 3, "covariance": "diagonal"},
]


def lively(**settings):
    """A network whose every number is its own, its batch norms' statistics too."""
    random = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = GaussianPrototypicalNetwork(NetworkConfig(**settings)).eval()
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if name.endswith("running_var"):
                tensor.copy_(0.05 + torch.rand(tensor.shape, generator=random) / 4)
            elif tensor.is_floating_point() and tensor.dim() < 2:
                tensor.add_(0.3 * torch.randn(tensor.shape, generator=random))
    return net


def some_images(N, config):
    """Noise, some brighter than others."""
    rng, size = np.random.default_rng(N), 84 if config.channels == 3 else 28
    noise = rng.random((N, config.channels, size, size)) * rng.uniform(20, 256, (N, 1, 1, 1))
    return noise.astype(np.uint8)


def assert_same_embeddings(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            b = np.asarray(b)
            assert a.shape == b.shape
            assert a.dtype == np.float32
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * min(1.0, np.abs(b).max()))


@pytest.mark.parametrize("settings", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_the_same_numbers_as_torch(settings):
    net = lively(**settings)
    encode = OnnxEncoder(onnx_content(net), "it")
    for N in (1, 7, 64):
        images = some_images(N, net.config)
        with torch.no_grad():
            expected = net.embed(torch.from_numpy(images))
        assert expected.x.abs().max() > 0.01
        assert_same_embeddings(encode(images), expected)


@pytest.mark.parametrize(
    "deeper", [{}, {"grid": 2, "residual": (0, 1), "embedding_dim": 8}, {"grid": 3, "embedding_dim": 18}]
)
def test_images_of_other_sizes_and_each_by_itself(deeper):
    net = lively(**SMALL | {"covariance": "full"} | deeper)
    encode = OnnxEncoder(onnx_content(net), "it")
    for height, width in ((16, 16), (20, 33), (84, 50)):
        images = np.random.default_rng(0).integers(0, 256, (3, 1, height, width), dtype=np.uint8)
        with torch.no_grad():
            assert_same_embeddings(encode(images), net.embed(torch.from_numpy(images)))
    images = some_images(300, net.config)  # more than go at once
    together, alone = encode(images), [encode(image[None]) for image in images[::50]]
    for part, joined in zip(together[::50], Embedded.join(alone, np.concatenate), strict=True):
        np.testing.assert_allclose(part, joined, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [-100.0, 100.0])
def test_an_exponential_precision_has_the_same_bounds(bias):
    net = lively(**SMALL, transform="exp", precision_relu=False)
    with torch.no_grad():
        net.encoder.blocks[-1].norm.bias[-1] = bias
    _, s = OnnxEncoder(onnx_content(net), "it")(some_images(5, net.config))
    np.testing.assert_allclose(s, np.exp(np.sign(bias) * 15), rtol=1e-5)


def test_what_the_file_says(tmp_path, weights):
    made = export_onnx(weights, tmp_path / "it.onnx")
    model = onnx.load(made.path)
    onnx.checker.check_model(model, full_check=True)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == 4
    assert "BatchNormalization" not in kinds
    session = onnxruntime.InferenceSession(made.path)
    (images,) = session.get_inputs()
    assert (images.name, images.type, images.shape) == ("images", "tensor(uint8)", ["N", 1, "H", "W"])
    assert {out.name: out.shape for out in session.get_outputs()} == made.outputs
    assert made.outputs == {"embedding": ["N", 16], "precision": ["N", 1]}
    assert made.bytes == made.path.stat().st_size
    assert made.difference < 1e-4
    card = json.loads(session.get_modelmeta().custom_metadata_map[CARD])
    by_torch = find_encoder(weights)
    assert card.pop("source") == str(weights)
    assert card == {name: getattr(by_torch, name) for name in card}


def test_cards_are_those_that_torch_finds(tmp_path, weights):
    half = tmp_path / "half.safetensors"  # as bundled weights are
    file = read_arrays(weights, "weights file", "pt")
    write_arrays(half, {n: t.half() if t.dim() == 4 else t for n, t in file.arrays.items()}, file.metadata)
    for encoder in (weights, str(weights.parent.parent), half, lively(**SMALL), lively(**SMALL, channels=3)):
        by_torch, by_onnx = find_encoder(encoder, "torch"), find_encoder(encoder, "onnx")
        for name in (*Card.__dataclass_fields__, "source", "takes_vectors", "features"):
            assert getattr(by_onnx, name) == getattr(by_torch, name), name
    assert find_encoder(half).digest != find_encoder(weights).digest


@pytest.fixture(scope="module")
def exported(weights, tmp_path_factory):
    return export_onnx(weights, tmp_path_factory.mktemp("exported") / "it.onnx").path


def test_a_classifier_gives_the_same_answers(characters, weights, exported):
    X, y, queries = uneven_examples(characters)
    by_torch = GaussianPrototypeClassifier(weights).fit(X, y)
    ways = [(exported, None), (str(exported), "onnx"), (weights, "onnx"), (load_network(weights), "onnx")]
    for encoder, engine in ways:
        clf = GaussianPrototypeClassifier(encoder, engine=engine).fit(X, y)
        np.testing.assert_allclose(clf.predict_proba(queries), by_torch.predict_proba(queries), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(clf.example_weights_, by_torch.example_weights_, rtol=1e-4)
        again = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(again.predict_proba(queries), clf.predict_proba(queries))
    other = {"image_size": 40, "ink": "dark", "distance": "cosine"}
    a, b = (GaussianPrototypeClassifier(encoder, **other).fit(X, y) for encoder in (weights, exported))
    np.testing.assert_allclose(a.predict_proba(queries), b.predict_proba(queries), rtol=1e-3, atol=1e-5)


def test_a_gallery_opens_with_either(characters, tmp_path, weights, exported):
    X, y, queries = uneven_examples(characters)
    for maker, others in {
        weights: [(None, "onnx"), (exported, None)],
        exported: [(None, None), (weights, None)],
    }.items():
        clf = GaussianPrototypeClassifier(maker).fit(X, y)
        clf.save(tmp_path / "my.gallery")
        for encoder, engine in others:
            loaded = load(tmp_path / "my.gallery", encoder, engine)
            np.testing.assert_array_equal(loaded.prototypes_, clf.prototypes_)
            np.testing.assert_allclose(loaded.predict_proba(queries), clf.predict_proba(queries), rtol=1e-3, atol=1e-5)
            assert "new" in loaded.partial_fit(queries[:1], ["new"]).classes_
    with pytest.raises(InputError, match="was made with other weights"):
        load(tmp_path / "my.gallery", network(), "onnx")
    with pytest.raises(InputError, match=r"cannot open the weights of .*the ONNX file.*: pass the weights"):
        load(tmp_path / "my.gallery", engine="torch")


def foreign():
    """An ONNX file that is none of ours."""
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out])
    return onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)])


def test_what_is_no_exported_encoder(tmp_path, exported):
    with pytest.raises(InputError, match=r"the ONNX file .* does not exist"):
        find_encoder(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("I am text")
    with pytest.raises(InputError, match="is not a readable ONNX file"):
        find_encoder(tmp_path / "text.onnx")
    onnx.save(foreign(), tmp_path / "foreign.onnx")
    with pytest.raises(InputError, match="must take one batch of colour images"):
        find_encoder(tmp_path / "foreign.onnx")
    model = onnx.load(exported)
    model.metadata_props[0].value = '{"channels": "many"}'
    onnx.save(model, tmp_path / "broken.onnx")
    with pytest.raises(InputError, match="its checksum does not match"):
        find_encoder(tmp_path / "broken.onnx")
    del model.metadata_props[1]
    (tmp_path / "broken.onnx").write_bytes(with_checksum(model.SerializeToString()))
    with pytest.raises(InputError, match=r"has a damaged description \(\w+ is missing\)"):
        find_encoder(tmp_path / "broken.onnx")


@given(cut=st.floats(0, 1, exclude_max=True))
@settings(deadline=None, max_examples=30)
def test_a_cut_file_is_refused(tmp_path_factory, exported, cut):
    path = tmp_path_factory.mktemp("cut") / "it.onnx"
    content = exported.read_bytes()
    path.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(InputError, match="ONNX file"):
        find_encoder(path)


def test_what_cannot_be_exported(tmp_path, weights, exported):
    backbone = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten())
    own = GaussianPrototypicalNetwork(NetworkConfig(**SMALL), backbone=backbone, features=49)
    head = GaussianHead(features=3)
    head.save(tmp_path / "head.safetensors")
    broken = lively(**SMALL)
    with torch.no_grad():
        broken.encoder.blocks[0].conv.weight[0] = float("nan")
    for encoder, sentence in [
        (own, "only networks with the built-in encoders"),
        (head, "only networks with the built-in encoders"),
        (tmp_path / "head.safetensors", "it may be a head"),
        (exported, r"is not a run folder, a \.safetensors file"),
        ("identity", "'identity' is not a run folder"),
        (7, "found int"),
        (broken, "ONNX and torch differ by nan"),
    ]:
        with pytest.raises(InputError, match=sentence):
            export_onnx(encoder, tmp_path / "it.onnx")
    with pytest.raises(InputError, match=r"must end in \.onnx"):
        export_onnx(weights, tmp_path / "it.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["head.safetensors"]


def test_weights_that_do_not_fit_their_configuration(tmp_path, weights):
    file = read_arrays(weights, "weights file")
    less = {name: array for name, array in file.arrays.items() if "running_var" not in name}
    write_arrays(tmp_path / "less.safetensors", less, file.metadata)
    file.metadata["config"] = file.metadata["config"].replace('"embedding_dim":16', '"embedding_dim":15')
    write_arrays(tmp_path / "other.safetensors", file.arrays, file.metadata)
    for name in ("less", "other"):
        with pytest.raises(InputError, match="do not match their configuration"):
            find_encoder(tmp_path / f"{name}.safetensors", "onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_extra(package, weights, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"the package {package} is missing: run pip install 'gaussproto\[onnx\]'"):
        find_encoder(weights, "onnx")


def test_engines_are_two(weights, exported):
    with pytest.raises(InputError, match=r"engine must be one of torch, onnx \(found 'tf'\)"):
        find_encoder(weights, "tf")
    with pytest.raises(InputError, match="engine torch cannot run the ONNX file"):
        find_encoder(exported, "torch")
