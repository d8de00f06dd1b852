"""Encoders of other libraries: torch modules, functions and ONNX models."""

import io
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from torch import nn

import gaussproto as gp
from gaussproto.classifier.encoders.other import MEAN, STD
from gaussproto.errors import InputError

SIZE = 32


class Vit(nn.Module):
    """A small transformer with the interface of DINOv2: images (N, 3, H, W) to vectors."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.patches = nn.Conv2d(3, 24, 8, stride=8)
        self.token = nn.Parameter(torch.randn(1, 1, 24))
        layer = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.dropout = nn.Dropout(0.5)

    def forward(self, images):
        y = self.patches(images).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], dim=1)
        return self.dropout(self.layers(y))[:, 0]


def mean_colour(images):
    return images.mean(axis=(2, 3))


@pytest.fixture(scope="module")
def photos():
    """Four colours, three pictures of each, of different sizes."""
    rng = np.random.default_rng(0)
    colours = rng.integers(30, 220, (4, 3))
    return [
        np.clip(colours[c] + rng.normal(0, 20, (40 + 5 * i, 50, 3)), 0, 255).astype(np.uint8)
        for c in range(4)
        for i in range(3)
    ]


LABELS = np.repeat(list("abcd"), 3)


def fitted(encoder, photos, **settings):
    return gp.GaussianPrototypeClassifier(encoder, image_size=SIZE, **settings).fit(photos, LABELS)


@pytest.mark.parametrize("encoder", [Vit(), mean_colour], ids=["module", "function"])
def test_an_encoder_of_another_library(encoder, photos, tmp_path):
    clf = fitted(encoder, photos)
    assert clf.predict(photos).tolist() == LABELS.tolist()
    assert clf.precisions_ is None
    clf.save(tmp_path / "gallery")
    loaded = gp.load(tmp_path / "gallery", encoder=encoder)
    assert np.array_equal(loaded.transform(photos), clf.transform(photos))
    with pytest.raises(InputError, match="network that was only in memory"):
        gp.load(tmp_path / "gallery")
    clf.explain(photos[:1], tmp_path / "why.png")
    assert clone(clf).fit(photos, LABELS).predict(photos).tolist() == LABELS.tolist()
    assert pickle.loads(pickle.dumps(clf)).predict(photos).tolist() == LABELS.tolist()


def test_the_numbers_that_the_encoder_gets(photos):
    seen = []
    fitted(lambda images: seen.append(images) or images.mean(axis=(2, 3)), photos)
    image = Image.fromarray(photos[0]).convert("RGB")  # 50 x 40: the square in the middle
    square = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC, box=(5, 0, 45, 40)))
    plain = (square.transpose(2, 0, 1) / 255 - np.array(MEAN)[:, None, None]) / np.array(STD)[:, None, None]
    assert seen[0].dtype == np.float32
    assert np.allclose(seen[0][0], plain, atol=1e-5)
    seen.clear()
    fitted(lambda images: seen.append(images) or images.mean(axis=(2, 3)), photos, mean=(0, 0, 0), std=(1, 1, 1))
    assert np.allclose(seen[0][0], square.transpose(2, 0, 1) / 255, atol=1e-6)


def test_the_mode_and_the_weights_of_a_module_stay_as_they_were(photos):
    module = Vit().train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    clf = fitted(module, photos)
    assert module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert np.array_equal(clf.transform(photos), clf.transform(photos))  # no dropout


def test_a_gallery_belongs_to_the_weights_the_mean_and_the_std(photos, tmp_path):
    fitted(Vit(0), photos, mean=(0.5, 0.5, 0.5)).save(tmp_path / "gallery")
    assert gp.load(tmp_path / "gallery", encoder=Vit(0)).mean == (0.5, 0.5, 0.5)
    with pytest.raises(InputError, match="made with other weights"):
        gp.load(tmp_path / "gallery", encoder=Vit(1))


def test_models_of_transformers_return_several_outputs(photos):
    class Wrapped(Vit):
        def forward(self, images):
            return SimpleNamespace(last_hidden_state=None, pooler_output=super().forward(images))

    assert np.allclose(fitted(Wrapped(), photos).transform(photos), fitted(Vit(), photos).transform(photos))


def onnx_file(path, fixed=False):
    dynamic = None if fixed else {"pixels": {0: "N"}, "vectors": {0: "N"}}
    content = io.BytesIO()
    torch.onnx.export(
        Vit().eval(), (torch.zeros(2, 3, SIZE, SIZE),), content, input_names=["pixels"], output_names=["vectors"],
        dynamic_axes=dynamic, opset_version=17, dynamo=False,
    )  # fmt: skip
    path.write_bytes(content.getvalue())
    return path


@pytest.mark.filterwarnings("ignore")
def test_an_onnx_model_of_another_library(photos, tmp_path, gaussproto):
    path = onnx_file(tmp_path / "vit.onnx")
    clf = gp.GaussianPrototypeClassifier(path).fit(photos, LABELS)
    assert clf.encoder_.image_size == SIZE  # that of the file
    assert np.allclose(clf.transform(photos), fitted(Vit(), photos).transform(photos), atol=1e-4)
    clf.save(tmp_path / "gallery")
    assert gp.load(tmp_path / "gallery").predict(photos).tolist() == LABELS.tolist()
    for c, label in enumerate("abcd"):
        (tmp_path / "examples" / label).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(photos[3 * c + i]).save(tmp_path / "examples" / label / f"{i}.png")
    query = tmp_path / "examples" / "c" / "1.png"
    options = ("--support", tmp_path / "examples", "--encoder", path, "--mean", "0,0,0", "--std", "1,1,1", "--csv")
    code, out, err = gaussproto("classify", query, *options)
    assert code == 0, err
    assert ",1,c," in out
    with pytest.raises(InputError, match="takes images of 32 pixels"):
        gp.GaussianPrototypeClassifier(path, image_size=64).fit(photos, LABELS)


@pytest.mark.parametrize(
    ("encoder", "settings", "sentence"),
    [
        (lambda images: images, {}, "must return one vector for each image"),
        (lambda images: images[:1].mean(axis=(2, 3)), {}, "must return one vector for each image"),
        (lambda images: np.full((len(images), 2), np.nan), {}, "returned NaN"),
        (mean_colour, {"mean": (1, 2)}, "mean must be three numbers"),
        (mean_colour, {"std": (1, 0, 1)}, "std must be three positive numbers"),
        (mean_colour, {"std": "abc"}, "std must be three positive numbers"),
        ("drawings-small", {"mean": (0, 0, 0)}, "mean and std are only for encoders of other libraries"),
        (7, {}, "encoder must be"),
    ],
)
def test_mistakes(encoder, settings, sentence, photos):
    with pytest.raises(InputError, match=sentence):
        fitted(encoder, photos, **settings)
