import datetime
import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaussproto.data.labels import as_array, check_among, classes_of, from_json, read_labels, to_json
from gaussproto.errors import InputError

scalars = st.text(max_size=6) | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
json_labels = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
any_labels = json_labels | st.binary(max_size=4) | st.dates() | st.frozensets(st.integers(), max_size=3)


def typed(label):
    return (type(label), tuple(map(typed, label)) if isinstance(label, tuple) else label)


@given(st.lists(any_labels, max_size=8))
@settings(deadline=None)
def test_an_array_gives_back_the_very_labels(labels):
    array = as_array(labels)
    assert array.shape == (len(labels),)
    assert list(map(typed, array.tolist())) == list(map(typed, labels))


@given(st.lists(json_labels, max_size=8))
@settings(deadline=None)
def test_json_gives_back_the_very_labels(labels):
    text = to_json(labels)
    json.loads(text, parse_constant=pytest.fail)  # plain JSON, without NaN and the like
    assert list(map(typed, from_json(text))) == list(map(typed, labels))


@pytest.mark.parametrize("label", [b"bytes", datetime.date(2020, 1, 1), frozenset({1}), ("a", b"b"), ((1, 2j),)])
def test_what_json_cannot_carry_is_named(label):
    with pytest.raises(InputError, match="cannot save the label"):
        to_json(["fine", label])


@given(st.lists(any_labels, min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_each_class_is_there_once(labels, random):
    try:
        classes = classes_of(labels)
    except InputError:
        assume(False)
    assert len(set(classes)) == len(classes)
    assert set(classes) == set(labels)
    assert classes_of(classes + labels) == classes
    if all(type(label) is type(labels[0]) for label in labels) and isinstance(labels[0], str | int | float | bytes):
        assert classes == sorted(set(labels))
        random.shuffle(labels)
        assert classes_of(labels) == classes


@pytest.mark.parametrize(
    "pair", [(1, "1"), ("1", 1), (1, 1.0), (1, True), (0, False), ((1, 2), (1.0, 2)), ("(1, 2)", (1, 2)), ("1.5", 1.5)]
)
def test_a_label_in_two_types_is_refused(pair):
    with pytest.raises(InputError, match="also appears as"):
        classes_of(pair)


def test_numpy_and_python_numbers_are_the_same_labels():
    assert read_labels([np.int32(1), 1, np.str_("a"), np.bool_(True)]) == [1, 1, "a", True]
    assert [type(label) for label in read_labels(np.array([1, 2], dtype=np.uint8))] == [int, int]
    assert read_labels(("a", ("b", 2))) == ["a", ("b", 2)]


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("text", "must be a list or an array"),
        (3, "must be a list or an array"),
        ([None, "a"], "a label is None"),
        ([float("nan"), 1.0], "must be finite"),
        ([["a"], ["b"]], "hashable"),
        ([0.5, 1.5], "continuous"),
        (np.zeros((2, 2)), "1d array"),
    ],
)
def test_what_cannot_be_a_label(labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_labels(labels)


def test_labels_outside_the_announced_classes():
    check_among(["a"], ["a", "b"])
    with pytest.raises(InputError, match="'c' is not among"):
        check_among(["a", "c"], ["a", "b"])
