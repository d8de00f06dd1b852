import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gaussproto.classifier.inputs import list_images, read_images
from gaussproto.data.look import Look
from gaussproto.data.omniglot import omniglot
from gaussproto.data.picture import has_dark_ink, with_bright_ink
from gaussproto.errors import InputError


def read(X, size=28, channels=1):
    return read_images(*list_images(X), Look(size, channels)).pixels


def random_pixels(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def png(pixels):
    file = BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


@given(st.integers(0, 9), st.integers(1, 60), st.integers(5, 60), st.sampled_from([1, 3]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_one_picture_in_every_form_is_the_same(tmp_path_factory, seed, H, W, channels, colour):
    pixels = random_pixels(seed, H, W, 3) if colour else random_pixels(seed, H, W)
    path = tmp_path_factory.mktemp("forms") / "it.png"
    path.write_bytes(png(pixels))
    expected = read([path], 28, channels)
    assert expected.shape == (1, channels, 28, 28)
    assert expected.dtype == np.uint8
    forms = [str(path), [Image.fromarray(pixels)], Image.fromarray(pixels), path.read_bytes(), [pixels], pixels[None]]
    forms += [[torch.tensor(pixels)], [pixels / 255], [pixels.astype(np.int32)], np.array([str(path)]), path.parent]
    forms += [[pixels.transpose(2, 0, 1)]] if colour and H > 4 else []
    forms += [[pixels[..., None]], [pixels[None]], [np.stack([pixels] * 3, axis=-1)]] if not colour and H > 4 else []
    for form in forms:
        assert np.array_equal(read(form, 28, channels), expected)


def test_sizes_and_kinds_may_differ_within_a_list(tmp_path):
    Image.fromarray(random_pixels(0, 9, 40, 3)).save(tmp_path / "a.jpg")
    images = [tmp_path / "a.jpg", random_pixels(1, 105, 105), Image.new("RGBA", (7, 7)), Image.new("1", (50, 30), 1)]
    pixels = read(images)
    assert pixels.shape == (4, 1, 28, 28)
    assert (pixels[2:] == 255).all()  # what is transparent is white paper
    for i, image in enumerate(images):
        assert np.array_equal(read([image])[0], pixels[i])
    assert list_images(images)[1] == [str(tmp_path / "a.jpg"), "", "", ""]


@given(st.integers(0, 99), st.sampled_from([1, 3]))
@settings(deadline=None)
def test_an_image_or_its_negative_has_dark_ink_but_not_both(seed, channels):
    image = random_pixels(seed, 1, channels, 12, 12)
    assert bool(has_dark_ink(image)) != bool(has_dark_ink(255 - image))
    assert np.array_equal(with_bright_ink(image, "detect"), with_bright_ink(255 - image, "detect"))
    assert np.array_equal(with_bright_ink(image, "dark"), 255 - with_bright_ink(image, "bright"))
    blank = np.full_like(image, seed)
    assert not bool(has_dark_ink(blank))


def test_ink_is_found_in_every_drawing(characters):
    images = characters.images.numpy()
    assert not has_dark_ink(images).any()
    assert has_dark_ink(255 - images).all()
    mixed = images[:40].copy()
    mixed[::2] = 255 - mixed[::2]
    assert np.array_equal(with_bright_ink(mixed, "detect"), images[:40])


def test_ink_of_a_grey_photograph_of_paper(characters):
    photograph = 170 - characters.images.numpy() // 2  # ink 43, paper 170
    assert has_dark_ink(photograph).all()


def test_omniglot_files_become_the_images_of_the_protocol(omniglot_root, tmp_path):
    from zipfile import ZipFile

    with ZipFile(omniglot_root / "images_evaluation.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".png"))[:400]
        files = [archive.extract(name, tmp_path) for name in names]
    with Image.open(files[0]) as first:
        assert first.size == (105, 105)
    cached = omniglot("test", data_root=omniglot_root)
    assert np.array_equal(read_images(*list_images(files), Look(ink="detect")).pixels, cached.images[:400].numpy())


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ([], "X contains no images"),
        (np.zeros((0, 28, 28)), "X contains no images"),
        (7, "must be arrays, PIL images or paths"),
        ([7], "image 0 must be an array"),
        (np.zeros((28, 28)), "put a single image in a list"),
        (np.zeros((48, 64, 3), dtype=np.uint8), "put a single image in a list"),
        ([np.zeros((28, 28)), np.full((28, 28), np.nan)], "image 1 contains NaN"),
        (np.full((2, 28, 28), np.inf), "contains NaN or infinity"),
        ([np.full((28, 28), 255.0)], r"pixels of type float64 must be from 0 to 1 \(found 255 to 255 in image 0\)"),
        ([np.full((28, 28), -1)], "from 0 to 255"),
        (np.full((2, 28, 28), 256), "from 0 to 255"),
        ([np.zeros((28, 28), dtype=complex)], "complex"),
        ([np.zeros((0, 28))], "sides of .*found 28 x 0"),
        (np.zeros((2, 28, 0), dtype=np.uint8), "sides of .*found 0 x 28"),
        ([np.zeros((1, 100_000), dtype=np.uint8)], "sides of .*found 100000 x 1"),
        ([Image.new("1", (3, 100_000))], "sides of .*found 3 x 100000"),
        ([Image.new("1", (0, 5))], "sides of .*found 0 x 5"),
        ([np.zeros((5, 5, 7))], "image 0 must have the shape"),
        ([np.zeros(5)], "image 0 must have the shape"),
        ("nowhere.png", "the image file nowhere.png does not exist"),
        ([b"text"], "image 0 is not a readable image"),
    ],
)
def test_what_is_no_image(images, sentence):
    with pytest.raises(InputError, match=sentence):
        read(images)


def test_files_that_are_no_images(tmp_path):
    (tmp_path / "text.png").write_text("I am text")
    with pytest.raises(InputError, match=r"text\.png is not a readable image"):
        read([tmp_path / "text.png"])
    Image.new("1", (100_000, 1)).save(tmp_path / "long.png")
    with pytest.raises(InputError, match=r"long\.png must have sides of .*found 100000 x 1"):
        read([tmp_path / "long.png"])
    header = bytearray(png(np.zeros((1, 1), dtype=np.uint8)))
    header[16:24] = (100_000).to_bytes(4) * 2  # says 100,000 x 100,000
    (tmp_path / "huge.png").write_bytes(header)
    with pytest.raises(InputError, match=r"huge\.png"):
        read([tmp_path / "huge.png"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no images"):
        read(tmp_path / "empty")


def test_pixels_and_galleries_need_no_torch():
    program = "import sys, gaussproto.classifier.inputs, gaussproto.classifier.gallery; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
