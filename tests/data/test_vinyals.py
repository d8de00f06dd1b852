"""The split of Omniglot that most papers use, against the published lists of its characters."""

from pathlib import Path

import pytest

from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import omniglot


def published(root: Path, part: str) -> list[str]:
    file = root / "vinyals" / f"{part}.txt"
    if not file.exists():
        pytest.skip(f"needs the published lists: put {part}.txt into {file.parent}")
    return file.read_text().split()


def test_the_characters_are_those_of_the_published_lists(omniglot_root):
    train, test = load_data(DataConfig(data="omniglot-vinyals", rotations=False), omniglot_root)
    assert (train.way, test.way) == (1200, 423)
    assert sorted(train.classes) == sorted(published(omniglot_root, "train") + published(omniglot_root, "val"))
    assert sorted(test.classes) == sorted(published(omniglot_root, "test"))


def test_the_drawings_are_those_of_the_two_parts(omniglot_root):
    train, test = load_data(DataConfig(data="omniglot-vinyals", rotations=False), omniglot_root)
    parts = [omniglot(part, data_root=omniglot_root) for part in ("train", "test")]
    drawings = {name: part.dense[c] for part in parts for c, name in enumerate(part.classes)}
    for side in (train, test):
        assert all(bool((side.dense[c] == drawings[name]).all()) for c, name in enumerate(side.classes))


def test_rotations_are_classes_on_both_sides(omniglot_root):
    train, test = load_data(DataConfig(data="omniglot-vinyals"), omniglot_root)
    assert (train.way, test.way) == (4800, 1692)
    assert not set(train.characters) & set(test.characters)
