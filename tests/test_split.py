import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.config import DataConfig
from gaussproto.errors import InputError
from gaussproto.presets import preset
from gaussproto.split import ClassSplit, choose_split

NAMES = st.sets(st.text("abcdefgh", min_size=1, max_size=4), min_size=8, max_size=30)


@given(names=NAMES, fraction=st.sampled_from([0.1, 0.25, 0.5]), data=st.data())
@settings(max_examples=50, deadline=None)
def test_exactly_the_fraction_is_held_out_whatever_the_order(names, fraction, data):
    split = choose_split(data.draw(st.permutations(sorted(names))), fraction, "mine")
    assert len(split.test) == max(2, int(fraction * len(names) + 0.5))
    assert {*split.train, *split.test} == names
    assert set(split.test) == set(choose_split(sorted(names), fraction, "mine").test)


@given(names=NAMES)
@settings(max_examples=50, deadline=None)
def test_a_new_class_moves_at_most_one_other(names):
    before = choose_split(sorted(names), 0.25, "mine")
    after = choose_split(sorted({*names, "new class"}), 0.25, "mine")
    moved = (set(before.test) ^ set(after.test)) - {"new class"}
    assert len(moved) <= 1


@given(names=st.sets(st.text(min_size=1), min_size=4, max_size=9), fraction=st.floats(0.01, 0.99))
@settings(deadline=None)
def test_both_sides_have_two_classes_and_the_file_says_the_same(names, fraction):
    split = choose_split(sorted(names), fraction, "mine")
    assert min(len(split.train), len(split.test)) >= 2
    assert ClassSplit.model_validate(json.loads(split.model_dump_json())) == split
    assert ClassSplit(test=split.test).among(sorted(names)) == split  # without train, all others train


def test_a_file_becomes_a_part_of_the_configuration(tmp_path):
    path = tmp_path / "split.json"
    path.write_text('{"train": ["a", "b"], "test": ["c", "d"]}')
    config = preset("demo", data="mine", split=str(path))
    path.unlink()
    assert config.data.split == ClassSplit(train=("a", "b"), test=("c", "d"))
    assert DataConfig.model_validate_json(config.data.model_dump_json()) == config.data
    assert hash(config.data)  # the report keeps images by it


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", r"split\.json is not a readable JSON file"),
        ('["a", "b"]', r'split\.json is not a split of classes: write \{"train"'),
        ('{"train": ["a", "b"]}', "is not a split of classes"),
        ('{"test": "ab"}', "is not a split of classes"),
        ('{"test": [1, 2]}', "is not a split of classes"),
        ('{"test": ["a", "b"], "valid": ["c"]}', "is not a split of classes"),
        ('{"test": []}', r"at least two classes in test \(found 0\): add classes"),
        ('{"train": ["c"], "test": ["a", "b"]}', r"at least two classes in train \(found 1\)"),
        ('{"test": ["a", "b", "a"]}', "the class 'a' more than once in test"),
        ('{"train": ["b", "c"], "test": ["a", "b"]}', "the class 'b' in both train and test"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "split.json"
    path.write_text(content)
    with pytest.raises(InputError, match=sentence) as caught:
        preset("demo", split=str(path))
    assert "\n" not in str(caught.value)


def test_classes_that_are_not_there():
    with pytest.raises(InputError, match=r"found 2 unknown, for example 'x'\): use the names"):
        ClassSplit(test=("x", "y")).among(("a", "b", "c", "d"))
    with pytest.raises(InputError, match=r"at least two training classes \(found 1\)"):
        ClassSplit(test=("a", "b")).among(("a", "b", "c"))
