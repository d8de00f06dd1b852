import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gaussproto.config import DataConfig
from gaussproto.data.folder import folder, split_classes
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import load_data
from gaussproto.errors import InputError


@pytest.fixture
def root(tmp_path, characters):
    """A person's folder: 8 classes, from 3 to 10 images, of several sizes and formats."""
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
    images = folder(root, size=32, channels=channels)
    assert images.counts.tolist() == [3 + c for c in range(8)]
    assert images.classes == tuple(f"class {c}" for c in range(8))
    assert images.images.shape == (sum(range(3, 11)), channels, 32, 32)
    assert bool((images.images.flatten(1).float().std(dim=1) > 5).all())


def test_inverted(root):
    assert torch.equal(folder(root).images, 255 - folder(root, invert=True).images)


def test_classes_are_split(root):
    train, test = load_data(DataConfig(data=str(root)))
    assert set(train.classes) | set(test.classes) == {f"class {c}" for c in range(8)}
    assert not set(train.classes) & set(test.classes)
    assert min(train.way, test.way) >= 2


@given(names=st.sets(st.text("abcdefgh", min_size=1, max_size=6), min_size=40, max_size=80), data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_class_stays_on_its_side_when_others_come_or_go(names, data):
    def sides(chosen):
        images = torch.zeros(len(chosen), 1, 1, 1, dtype=torch.uint8)
        ones = torch.ones(len(chosen), dtype=torch.long)
        train, test = split_classes(LabelledImages(images, ones, tuple(chosen), ("mine",) * len(chosen)), 0.4)
        assert min(train.way, test.way) >= 2
        return set(train.classes), set(test.classes)

    before = sides(sorted(names))
    fewer = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=30))
    after = sides(sorted(fewer))
    if min(map(len, after)) > 2:
        assert after == (before[0] & fewer, before[1] & fewer)


def test_a_folder_with_a_split_of_its_own(root, tmp_path):
    own = tmp_path / "own"
    for part, chosen in (("train", range(5)), ("test", range(5, 8))):
        for c in chosen:
            (own / part).mkdir(parents=True, exist_ok=True)
            (root / f"class {c}").rename(own / part / f"class {c}")
    train, test = load_data(DataConfig(data=str(own)))
    assert (train.way, test.way) == (5, 3)
    (own / "test" / "class 6").rename(own / "test" / "class 2")
    with pytest.raises(InputError, match=r"1 classes are in both .* 'class 2'"):
        load_data(DataConfig(data=str(own)))


def test_rotations_only_when_asked_for(root):
    plain, rotated = (load_data(DataConfig(data=str(root), rotations=rotations)) for rotations in (None, True))
    assert plain.train.way + plain.test.way == 8
    assert rotated.train.way == 4 * plain.train.way


def test_errors_name_what_is_wrong(root, tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        folder(tmp_path / "nowhere")
    (root / "empty").mkdir()
    with pytest.raises(InputError, match=r"class 'empty' .* has no image"):
        folder(root)
    (root / "empty" / "text.png").write_text("I am text")
    with pytest.raises(InputError, match=r"text\.png is not a readable image"):
        folder(root)
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match="has no class in it"):
        folder(tmp_path / "bare")
    Image.new("L", (9, 9)).save(tmp_path / "bare" / "1.png")
    with pytest.raises(InputError, match="has no class in it"):
        folder(tmp_path / "bare")
    for name in "abc":
        (tmp_path / "few" / name).mkdir(parents=True)
        Image.new("L", (9, 9)).save(tmp_path / "few" / name / "1.png")
    with pytest.raises(InputError, match="few has 3 classes"):
        load_data(DataConfig(data=str(tmp_path / "few")))
