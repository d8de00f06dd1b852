"""Images from memory and from a function of the user's."""

import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto import DataConfig, InputError, LabelledImages, load_data
from gaussproto.formulas.named import _import
from gaussproto.split import ClassSplit

LABELS = st.lists(st.one_of(st.integers(0, 4)), min_size=1, max_size=30)


@given(labels=LABELS)
@settings(deadline=None)
def test_every_image_keeps_its_label(labels):
    pixels = np.arange(len(labels), dtype=np.uint8)[:, None, None] * np.ones((1, 3, 3), dtype=np.uint8)
    made = LabelledImages.from_labels(pixels, labels)
    assert made.classes == tuple(str(label) for label in sorted(set(labels)))
    named = [made.classes[c] for c in made.labels.tolist()]
    for value, name in zip(made.images[:, 0, 0, 0].tolist(), named, strict=True):
        assert str(labels[value]) == name


def test_what_cannot_be_grouped():
    with pytest.raises(InputError, match=r"must have the same length \(found 3 and 2\): pass one label for each image"):
        LabelledImages.from_labels(np.zeros((3, 8, 8), dtype=np.uint8), ["a", "b"])
    with pytest.raises(InputError, match=r"images must be a uint8 tensor .* \(found torch.float64 of shape"):
        LabelledImages.from_labels(np.zeros((2, 8, 8)), ["a", "b"])


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (np.zeros((2, 28, 28, 3), dtype=np.uint8), r"shape \(N, channels, H, W\) \(found .*\): move the channels"),
        ([np.zeros((3, 3)), np.zeros((4, 4))], "one array of pixels"),
        (["a.png", "b.png"], "one array of pixels"),
    ],
)
def test_images_that_are_no_array_of_pixels(images, problem):
    with pytest.raises(InputError, match=problem):
        LabelledImages.from_labels(images, ["a", "b"])


def test_views_of_arrays_are_taken():
    assert len(LabelledImages.from_labels(np.zeros((4, 8, 8), dtype=np.uint8)[::-1, :, ::2], list("abab"))) == 4


def test_two_classes_of_one_name():
    with pytest.raises(InputError, match="the class 'a' appears more than once"):
        LabelledImages(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([1, 1]), ("a", "a"), ("x", "x"))


@pytest.fixture
def lab(monkeypatch):
    module = types.ModuleType("my_lab_of_data")
    monkeypatch.setitem(sys.modules, "my_lab_of_data", module)
    yield module
    _import.cache_clear()


def images(names, channels=1):
    pixels = torch.zeros(2 * len(names), channels, 28, 28, dtype=torch.uint8)
    return LabelledImages.from_labels(pixels, [*names, *names])


def test_the_classes_of_a_function_are_split_like_those_of_a_folder(lab):
    seen = []
    lab.signs = lambda config: seen.append(config) or images("abcdefgh")
    config = DataConfig(data="my_lab_of_data:signs")
    split = load_data(config)
    assert seen == [config]
    assert (split.train.way, split.test.way) == (6, 2)
    assert split.train.source.split == ClassSplit(train=split.train.classes, test=split.test.classes)
    assert load_data(split.train.source).test.classes == split.test.classes
    chosen = load_data(DataConfig(data="my_lab_of_data:signs", split=ClassSplit(test=("a", "h"))))
    assert chosen.test.classes == ("a", "h")
    assert load_data(DataConfig(data="my_lab_of_data:signs", rotations=True)).train.way == 24


def test_a_function_may_split_by_itself(lab):
    lab.signs = lambda config: (images("abc"), images("de"))
    split = load_data(DataConfig(data="my_lab_of_data:signs"))
    assert (split.train.classes, split.test.classes) == (("a", "b", "c"), ("d", "e"))
    with pytest.raises(InputError, match="my_lab_of_data:signs has a fixed split: leave out --split"):
        load_data(DataConfig(data="my_lab_of_data:signs", split=ClassSplit(test=("a", "b"))))


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda config: "abc", r"must return one LabelledImages object, or two .* \(found str\)"),
        (lambda config: (images("abc"), 3), "must return one LabelledImages object, or two"),
        (lambda config: images("abcdefgh", 3), r"must return images of .* = 1 x 28 x 28 \(found 3 x 28 x 28\)"),
        (lambda config: (images("abc"), images("cde")), "must not share classes .found 1, for example"),
        (lambda config: images("abc"), "must have at least four classes"),
        (3, "cannot be called: pass the name of a class or a function"),
    ],
)
def test_what_a_function_may_not_return(lab, function, problem):
    lab.signs = function
    with pytest.raises(InputError, match=problem):
        load_data(DataConfig(data="my_lab_of_data:signs"))


def test_a_function_that_is_not_there():
    with pytest.raises(InputError, match="cannot import the data source my_lab_of_data:signs"):
        load_data(DataConfig(data="my_lab_of_data:signs"))


@pytest.mark.parametrize("name", ["C:/data/images", "/tmp/no:where", "no/such folder"])
def test_a_folder_that_is_not_there_is_no_function(name):
    with pytest.raises(InputError, match=r"folder|not a folder"):
        load_data(DataConfig(data=name))


def test_loaded_data_is_printed_in_a_line():
    assert len(repr(load_data(DataConfig(data="strokes")))) < 250
