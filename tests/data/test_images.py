import resource
import signal
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from safetensors.torch import save_file

from gaussproto.arrays import read_arrays
from gaussproto.data.cache import cached_images
from gaussproto.data.damage import damage, down_sample
from gaussproto.data.images import LabelledImages
from gaussproto.data.picture import open_image, resize
from gaussproto.data.sheet import contact_sheet
from gaussproto.errors import InputError
from tests.conftest import uneven


def numbered(counts):
    """Images whose pixels all have the number of their image."""
    N = sum(counts)
    images = torch.arange(N, dtype=torch.uint8).view(N, 1, 1, 1).expand(N, 1, 4, 4).contiguous()
    names = tuple(f"class {c}" for c in range(len(counts)))
    return LabelledImages(images, torch.tensor(counts), names, names)


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=8), data=st.data())
@settings(deadline=None)
def test_gather_takes_the_images_of_the_given_classes(counts, data):
    images = numbered(counts)
    classes = data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=1, max_size=5))
    K = min(counts[c] for c in classes)
    drawings = torch.arange(K).expand(len(classes), K)
    taken = images.gather(torch.tensor(classes), drawings)[..., 0, 0, 0].long()
    assert torch.equal(images.labels[taken], torch.tensor(classes)[:, None].expand_as(taken))


@given(counts=st.lists(st.integers(1, 9), min_size=2, max_size=8), data=st.data())
@settings(deadline=None)
def test_select_keeps_each_class_with_its_images(counts, data):
    images = numbered(counts)
    chosen = data.draw(st.permutations(range(len(counts))))[: max(1, len(counts) // 2)]
    some = images.select(chosen)
    assert some.classes == tuple(images.classes[c] for c in chosen)
    for new, old in enumerate(chosen):
        ours, theirs = some.images[some.labels == new], images.images[images.labels == old]
        assert torch.equal(ours, theirs)


def test_the_text_of_images_is_short(characters):
    N, C = len(characters), characters.way
    assert repr(characters) == f"LabelledImages({N:,} images of {C} classes in 4 alphabets, 1 x 28 x 28)"
    assert repr(numbered([1])) == "LabelledImages(1 image of 1 class in 1 alphabet, 1 x 4 x 4)"


@pytest.mark.parametrize(
    ("pixels", "counts", "sentence"),
    [
        (torch.zeros(3, 4, 4, dtype=torch.uint8), [1, 2], r"uint8 .* \(found torch\.uint8 of shape \(3, 4, 4\)\)"),
        (torch.zeros(3, 1, 4, 4), [1, 2], r"must be a uint8 tensor .* \(found torch\.float32 of shape"),
        (torch.zeros(3, 1, 4, 4, dtype=torch.uint8), [1, 1], r"add up to the 3 images \(found 2"),
        (torch.zeros(3, 1, 4, 4, dtype=torch.uint8), [1, 1, 1], r"found counts of shape \(3,\), 2 classes"),
    ],
)
def test_images_that_do_not_fit_together(pixels, counts, sentence):
    with pytest.raises(InputError, match=sentence):
        LabelledImages(pixels, torch.tensor(counts), ("a", "b"), ("x", "x"))


def test_rotations_need_squares():
    images = LabelledImages(torch.zeros(2, 1, 4, 6, dtype=torch.uint8), torch.tensor([1, 1]), ("a", "b"), ("x", "x"))
    with pytest.raises(InputError, match=r"square images \(found 4 x 6 pixels\)"):
        images.with_rotations()


def test_dense_is_a_view_where_counts_are_equal(characters):
    assert characters.dense.shape == (characters.way, 20, 1, 28, 28)
    assert characters.dense.data_ptr() == characters.images.data_ptr()
    with pytest.raises(InputError, match="found 3 to 5"):
        _ = uneven(characters, [3, 5]).dense


def test_rotations_are_classes(characters):
    turned = characters.with_rotations()
    C = characters.way
    assert turned.way == 4 * C
    assert len(set(turned.classes)) == 4 * C
    for turn in range(4):
        expected = np.rot90(characters.images[0, 0].numpy(), turn)
        np.testing.assert_array_equal(turned.dense[turn * C, 0, 0], expected)
    assert torch.equal(turned.images[: len(characters)], characters.images)
    assert turned.characters == characters.classes * 4
    assert turned.select([C, 1]).characters == (characters.classes[0], characters.classes[1])


def test_a_class_may_be_called_turned():
    pixels = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    names = ("page turned left", "page turned right")
    images = LabelledImages(pixels, torch.tensor([2, 2]), names, names)
    assert images.characters == names
    assert images.with_rotations().characters == names * 4


def test_reduction_is_anti_aliased():
    """A line one pixel wide, anywhere, keeps its share of the ink."""
    for position in range(105):
        pixels = np.zeros((105, 105), np.uint8)
        pixels[:, position] = 255
        small = resize(Image.fromarray(pixels), 28)
        assert small.mean() == pytest.approx(255 / 105, rel=0.6 if position in (0, 1, 103, 104) else 0.2)


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "P", "I;16", "CMYK", "LA"])
def test_any_kind_of_image(tmp_path, mode):
    grey = Image.fromarray((np.arange(900).reshape(30, 30) % 256).astype(np.uint8))
    image = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257) if mode == "I;16" else grey.convert(mode)
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    image.save(path)
    read = open_image(path, "it")
    assert resize(read, 28).shape == (28, 28)
    assert resize(read, 28, channels=3).shape == (3, 28, 28)
    assert abs(float(resize(read, 30).mean()) - float(np.asarray(grey.convert("L")).mean())) < 12


@pytest.mark.parametrize("ending", ["png", "pgm", "tif"])
def test_sixteen_bits_are_read_as_eight(tmp_path, ending):
    pixels = np.arange(0, 65536, 72, dtype=np.uint16)[:900].reshape(30, 30)
    path = tmp_path / f"image.{ending}"
    Image.fromarray(pixels).save(path)
    assert np.array_equal(np.asarray(open_image(path, "it")), pixels >> 8)


def test_pixels_without_a_black_and_a_white_are_refused(tmp_path):
    grey = np.arange(900, dtype=np.int32).reshape(30, 30) % 256
    Image.fromarray(grey).save(tmp_path / "small.tif")
    assert np.array_equal(np.asarray(open_image(tmp_path / "small.tif", "it")), grey)
    for n, pixels in enumerate((grey.astype(np.float32) / 255, grey * 1000, grey - 9)):
        Image.fromarray(pixels).save(tmp_path / f"{n}.tif")
        with pytest.raises(InputError, match=r"it has pixels from .* save it with 8 or 16 bits"):
            open_image(tmp_path / f"{n}.tif", "it")


def test_transparent_pixels_are_white_paper(tmp_path):
    image = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (5, 5, 10, 10))
    image.save(tmp_path / "drawing.png")
    pixels = resize(open_image(tmp_path / "drawing.png", "it"), 20)
    assert pixels[0, 0] == 255
    assert pixels[7, 7] == 0


def test_photos_stand_upright(tmp_path):
    image = Image.new("L", (20, 20))
    image.paste(255, (0, 0, 20, 5))  # bright at the top
    exif = Image.Exif()
    exif[0x0112] = 3  # stored upside down
    image.save(tmp_path / "photo.jpg", exif=exif)
    assert resize(open_image(tmp_path / "photo.jpg", "it"), 20)[-1].mean() > 200


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_undone_whatever_else_the_camera_wrote(tmp_path, orientation, characters):
    image = Image.fromarray(characters.dense[0, 0, 0].numpy()[:20])
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "photo.png", exif=exif)
    with Image.open(tmp_path / "photo.png") as stored:
        expected = ImageOps.exif_transpose(stored)
    assert np.array_equal(open_image(tmp_path / "photo.png", "it"), expected)

    turned = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    wrong = struct.pack("<HHI4s", 0x0128, 2, 4, b"two")  # the unit of the resolution as text; it is a number
    image.save(tmp_path / "wrong.png", exif=b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + turned + wrong + bytes(4))
    assert np.array_equal(open_image(tmp_path / "wrong.png", "it"), expected)


@pytest.mark.parametrize("content", [b"", b"hello, this is not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 30])
def test_a_file_that_is_not_an_image_is_named(content):
    with pytest.raises(InputError, match=r"Latin/a\.png is not a readable image"):
        open_image(content, "Latin/a.png")


def test_a_truncated_image_is_named(tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50), np.uint8)).save(tmp_path / "whole.png")
    content = (tmp_path / "whole.png").read_bytes()
    with pytest.raises(InputError, match="cut is not a readable image"):
        open_image(content[: len(content) // 2], "cut")


@given(fractions=st.lists(st.floats(0, 0.33), min_size=1, max_size=3), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_damage_hits_its_fractions_and_nothing_else(fractions, seed):
    sizes = [(4 + 3 * i, fraction) for i, fraction in enumerate(fractions)]
    images = torch.rand(2000, 1, 12, 12, generator=torch.Generator().manual_seed(seed))
    before = images.clone()
    damaged, size = damage(images, sizes, torch.Generator().manual_seed(seed))
    assert torch.equal(images, before)
    assert torch.equal(damaged[size == 0], images[size == 0])
    for n, fraction in sizes:
        assert abs((size == n).float().mean().item() - fraction) < 0.05
        if (size == n).any():
            torch.testing.assert_close(damaged[size == n], down_sample(images[size == n], n))


def test_damage_differs_each_time_and_depends_on_the_generator_alone():
    images, g = torch.rand(200, 1, 28, 28), torch.Generator().manual_seed(1)
    first, second = damage(images, [(7, 0.5)], g)[1], damage(images, [(7, 0.5)], g)[1]
    assert not torch.equal(first, second)
    assert torch.equal(first, damage(images, [(7, 0.5)], torch.Generator().manual_seed(1))[1])


@pytest.mark.parametrize("size", [5, 7, 16, 23])
def test_down_sampling_loses_detail_and_keeps_brightness(characters, size):
    images = characters.images[:50].float() / 255
    damaged = down_sample(images, size)
    assert damaged.shape == images.shape
    assert damaged.mean().item() == pytest.approx(images.mean().item(), rel=0.05)
    assert damaged.var().item() < images.var().item()
    assert float(damaged.min()) >= -1e-6
    assert float(damaged.max()) <= 1 + 1e-6


def test_contact_sheet_of_few_classes(characters):
    assert contact_sheet(uneven(characters, [2, 1])).size[0] > 0


def test_cached_images_are_made_once_and_again_if_the_file_is_broken(characters, monkeypatch, tmp_path):
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path / "new"))
    made = []

    def make():
        made.append(1)
        return characters

    for _ in range(3):
        images = cached_images("some", 28, make)
        assert torch.equal(images.images, characters.images)
        assert (images.classes, images.alphabets) == (characters.classes, characters.alphabets)
    assert len(made) == 1
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="cached images are prepared again"):
        assert torch.equal(cached_images("some", 28, make).images, characters.images)
    assert len(made) == 2
    old = read_arrays(file, "cache", "pt")
    save_file(old.arrays, file, old.metadata)  # as an earlier version wrote it: made again, or used if that fails

    def fail():
        raise InputError("no network")

    with pytest.warns(UserWarning, match="has no checksum"):
        assert torch.equal(cached_images("some", 28, fail).images, characters.images)
    cached_images("some", 28, make)
    assert len(made) == 3
    assert read_arrays(file, "cache").checked
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="prepared again next time: cannot write"):
        assert cached_images("some", 28, make) is characters


def test_a_full_disk_is_one_sentence(characters, monkeypatch, tmp_path):
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # files of more than this cannot be written
    try:
        with pytest.warns(UserWarning, match="prepared again next time: cannot write"):
            cached_images("some", 28, lambda: characters)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert not list(tmp_path.glob("*.safetensors"))
