"""The encoder of photos in the classifier."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image, ImageFilter

import gaussproto as gp
from gaussproto.errors import InputError
from gaussproto.model.lite import PACKAGE

needs_weights = pytest.mark.skipif(find_spec(PACKAGE) is None, reason=f"the package {PACKAGE} is not installed")


def photo(kind, seed):
    """A picture of coloured shapes of one kind, on a coloured ground."""
    rng = np.random.default_rng([kind, seed])
    y, x = np.mgrid[:150, :200] / 150
    ground = rng.integers(60, 200, 3) + 30 * np.sin(6 * x + rng.uniform(0, 6))[..., None]
    waves = np.sin((8 + 14 * kind) * (x + 0.3 * y) + rng.uniform(0, 6)) * np.cos((10 - 3 * kind) * y)
    pixels = ground + 70 * waves[..., None] * np.array([[1, -0.5, 0.2], [-0.4, 1, 0.3], [0.2, 0.4, -1]][kind])
    return Image.fromarray(np.clip(pixels + rng.normal(0, 5, pixels.shape), 0, 255).astype(np.uint8))


PHOTOS = [photo(kind, seed) for kind in range(3) for seed in range(4)]
LABELS = np.repeat(list("abc"), 4)


@pytest.fixture(scope="module")
def clf():
    return gp.GaussianPrototypeClassifier("photo").fit(PHOTOS, LABELS)


@needs_weights
def test_the_examples_choose_photos():
    assert gp.GaussianPrototypeClassifier().fit(PHOTOS, LABELS).encoder_.source == "photo"


@needs_weights
@pytest.mark.parametrize("encoder", ["photo", "photo-plain"])
def test_new_photos_get_their_class(encoder):
    clf = gp.GaussianPrototypeClassifier(encoder).fit(PHOTOS, LABELS)
    assert clf.score([photo(kind, 9) for kind in range(3)], list("abc")) == 1
    assert (clf.precisions_ is None) == (encoder == "photo-plain")


@needs_weights
def test_a_photo_is_embedded_by_itself(clf):
    together = clf.transform(PHOTOS)
    alone = np.concatenate([clf.transform([each]) for each in PHOTOS])
    assert np.allclose(together, alone, atol=1e-4)


@needs_weights
def test_a_bad_photo_counts_for_less():
    blurred = [PHOTOS[0].filter(ImageFilter.GaussianBlur(9)), *PHOTOS[1:]]
    clf = gp.GaussianPrototypeClassifier("photo").fit(blurred, LABELS)
    assert clf.example_weights_[0] == clf.example_weights_[:4].min()
    assert clf.example_weights_[0] < 0.2  # of four


@needs_weights
def test_a_gallery_of_photos(clf, tmp_path, gaussproto):
    clf.save(tmp_path / "gallery")
    loaded = gp.load(tmp_path / "gallery")
    assert np.array_equal(loaded.transform(PHOTOS), clf.transform(PHOTOS))
    PHOTOS[5].save(tmp_path / "it.jpg")
    code, out, err = gaussproto("classify", tmp_path / "it.jpg", "--gallery", tmp_path / "gallery", "--csv")
    assert code == 0, err
    assert ",1,b," in out
    clf.explain(PHOTOS[:1], tmp_path / "why.png")


@needs_weights
def test_the_exported_file_computes_the_same(clf, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    export = gp.export_onnx("photo", tmp_path / "photo.onnx")
    assert export.difference < 1e-4
    other = gp.GaussianPrototypeClassifier(tmp_path / "photo.onnx").fit(PHOTOS, LABELS)
    assert other.encoder_.digest == clf.encoder_.digest
    assert np.allclose(other.transform(PHOTOS), clf.transform(PHOTOS), atol=1e-3)
    assert np.allclose(other.example_weights_, clf.example_weights_, atol=1e-3)


@needs_weights
def test_the_middle_square_counts(clf):
    wide = Image.new("RGB", (400, 150), "white")
    wide.paste(PHOTOS[0], (100, 0))
    assert np.allclose(clf.transform([wide]), clf.transform([PHOTOS[0].crop((25, 0, 175, 150))]), atol=0.05)


@needs_weights
def test_the_first_answer_does_not_wait_for_the_compiler():
    program = (
        "import sys, numpy as np, gaussproto as gp\n"
        "photos = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)\n"
        "gp.GaussianPrototypeClassifier('photo').fit(photos, list('aabb')).predict(photos)\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(InputError, match=r"gaussproto\[photo\]"):
        gp.GaussianPrototypeClassifier("photo").fit(PHOTOS, LABELS)


def test_drawings_are_not_prepared_for_photos():
    with pytest.raises(InputError, match=r"prepare ink needs an encoder of grey drawings|gaussproto\[photo\]"):
        gp.GaussianPrototypeClassifier("photo", prepare="ink").fit(PHOTOS, LABELS)
