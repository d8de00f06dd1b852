from io import BytesIO

import pytest
import torch
from PIL import Image, ImageOps

from gaussproto.config import DataConfig
from gaussproto.data import picture
from gaussproto.data.load import folder, load_data
from gaussproto.errors import InputError
from gaussproto.presets import preset
from gaussproto.split import ClassSplit


@pytest.fixture
def root(tmp_path, characters):
    """A user's folder: 8 classes, from 3 to 10 images, of several sizes and formats."""
    for c in range(8):
        place = tmp_path / "mine" / f"class {c}"
        place.mkdir(parents=True)
        for i in range(3 + c):
            image = Image.fromarray(characters.dense[c, i, 0].numpy()).resize((20 + 7 * c, 30 + i))
            image.convert("RGB" if i % 2 else "L").save(place / f"{i}.{'png' if c % 2 else 'jpg'}")
    (tmp_path / "mine" / "README.txt").write_text("not a class")
    (tmp_path / "mine" / "class 0" / "notes.txt").write_text("not an image")
    (tmp_path / "mine" / "class 0" / ".hidden.png").write_text("not an image")
    return tmp_path / "mine"


@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_of_every_class(root, channels):
    images = folder(root, DataConfig(image_size=32, channels=channels))
    assert images.counts.tolist() == [3 + c for c in range(8)]
    assert images.classes == tuple(f"class {c}" for c in range(8))
    assert images.images.shape == (sum(range(3, 11)), channels, 32, 32)
    assert bool((images.images.flatten(1).float().std(dim=1) > 5).all())


def test_inverted(root):
    assert torch.equal(
        folder(root, DataConfig(data="mine")).images, 255 - folder(root, DataConfig(data="mine", ink="dark")).images
    )


def test_ink_is_found_where_the_weights_know_drawn_characters(root):
    """Whatever the ink of each file, the images are the same; colour stays as it is."""
    bright = load_data(DataConfig(data=str(root))).train
    for path in sorted(root.glob("*/[0-9]*.png"))[::2]:
        with Image.open(path) as image:
            ImageOps.invert(image).save(path)
    detected = load_data(DataConfig(data=str(root), **DataConfig(data="omniglot").appearance())).train
    assert int((detected.images.int() - bright.images.int()).abs().max()) <= 1  # rounding of the resize
    assert int((load_data(DataConfig(data=str(root))).train.images.int() - bright.images.int()).abs().max()) > 200
    colour = (load_data(DataConfig(data=str(root), channels=3, ink=ink)).train for ink in ("detect", "bright"))
    assert torch.equal(*(images.images for images in colour))


def test_classes_are_split(root):
    train, test = load_data(DataConfig(data=str(root)))
    assert set(train.classes) | set(test.classes) == {f"class {c}" for c in range(8)}
    assert not set(train.classes) & set(test.classes)
    assert min(train.way, test.way) >= 2


def test_a_folder_is_listed_once(root, monkeypatch):
    listed = []
    monkeypatch.setattr(
        picture, "image_files", lambda path, list_files=picture.image_files: listed.append(path) or list_files(path)
    )
    load_data(DataConfig(data=str(root)))
    assert sorted(listed) == [root / f"class {c}" for c in range(8)]


def test_classes_in_neither_part_of_the_split_are_not_read(root):
    (root / "class 0" / "text.png").write_text("I am text")
    names = tuple(f"class {c}" for c in range(1, 8))
    with pytest.warns(UserWarning, match="for example 'class 0'"):
        train, _ = load_data(DataConfig(data=str(root), split=ClassSplit(train=names[:5], test=names[5:])))
    assert train.classes == names[:5]


def test_the_split_of_a_file(root, tmp_path):
    (tmp_path / "split.json").write_text('{"test": ["class 6", "class 1"]}')
    config = preset("demo", data=str(root), split=str(tmp_path / "split.json")).data
    train, test = load_data(config)
    assert test.classes == ("class 1", "class 6")
    assert test.counts.tolist() == [4, 9]
    assert train.classes == tuple(f"class {c}" for c in (0, 2, 3, 4, 5, 7))
    written_out = train.source
    assert written_out.split == ClassSplit(train=train.classes, test=test.classes)
    (root / "class 9").mkdir()
    Image.new("L", (9, 9)).save(root / "class 9" / "1.png")
    with pytest.warns(UserWarning, match=r"skipped 1 of the 9 classes of .* for example 'class 9'"):
        later = load_data(written_out)
    assert (later.train.classes, later.test.classes) == (train.classes, test.classes)
    (root / "class 1" / "0.png").parent.rename(root / "class one")
    with pytest.raises(InputError, match="found 1 unknown, for example 'class 1'"):
        load_data(written_out)


def test_data_that_comes_with_a_split_takes_no_other(root, tmp_path):
    split = ClassSplit(test=("class 1", "class 6"))
    with pytest.raises(InputError, match="strokes has a fixed split: leave out --split"):
        load_data(DataConfig(data="strokes", split=split))
    for part in ("train", "test"):
        (tmp_path / "own" / part).mkdir(parents=True)
    with pytest.raises(InputError, match="own has a fixed split"):
        load_data(DataConfig(data=str(tmp_path / "own"), split=split))


def test_a_folder_of_train_and_test(root, tmp_path):
    own = tmp_path / "own"
    for part, chosen in (("train", range(5)), ("test", range(5, 8))):
        for c in chosen:
            (own / part).mkdir(parents=True, exist_ok=True)
            (root / f"class {c}").rename(own / part / f"class {c}")
    train, test = load_data(DataConfig(data=str(own)))
    assert (train.way, test.way) == (5, 3)
    (own / "test" / "class 6").rename(own / "test" / "class 2")
    with pytest.raises(InputError, match=r"own must not share classes \(found 1, for example 'class 2'\)"):
        load_data(DataConfig(data=str(own)))


def test_rotations_only_when_asked_for(root):
    plain, rotated = (load_data(DataConfig(data=str(root), rotations=rotations)) for rotations in (None, True))
    assert plain.train.way + plain.test.way == 8
    assert rotated.train.way == 4 * plain.train.way


def test_errors_name_what_is_wrong(root, tmp_path):
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        folder(tmp_path / "nowhere", DataConfig(data="mine"))
    (root / "empty").mkdir()
    with pytest.raises(InputError, match=r"the class 'empty' .* has no images"):
        folder(root, DataConfig(data="mine"))
    (root / "empty" / "text.png").write_text("I am text")
    with pytest.raises(InputError, match=r"text\.png is not a readable image"):
        folder(root, DataConfig(data="mine"))
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match="has no class folders"):
        folder(tmp_path / "bare", DataConfig(data="mine"))
    Image.new("L", (9, 9)).save(tmp_path / "bare" / "1.png")
    with pytest.raises(InputError, match="has no class folders"):
        folder(tmp_path / "bare", DataConfig(data="mine"))
    for name in "abc":
        (tmp_path / "few" / name).mkdir(parents=True)
        Image.new("L", (9, 9)).save(tmp_path / "few" / name / "1.png")
    with pytest.raises(InputError, match=r"few must have at least four classes.*\(found 3\)"):
        load_data(DataConfig(data=str(tmp_path / "few")))


@pytest.mark.parametrize("kind", ["EPS", "ICO", "DDS", "TGA", "PCX", "SGI"])
def test_the_content_decides_what_an_image_file_is(tmp_path, kind):
    """EPS would be handed to Ghostscript, and others are decoded by code that few people use."""
    content = BytesIO()
    Image.new("RGB", (16, 16), "white").save(content, format=kind)
    (tmp_path / "a.png").write_bytes(content.getvalue())
    with pytest.raises(InputError, match=r"a\.png is not a readable image|cannot read .*a\.png"):
        picture.open_image(tmp_path / "a.png", "a.png")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "MPO"])
def test_an_image_is_read_whatever_its_name_says(tmp_path, kind):
    content = BytesIO()
    Image.new("RGB", (16, 16), "white").save(content, format=kind)
    assert picture.open_image(content.getvalue(), "a.png").size == (16, 16)
