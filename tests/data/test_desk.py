"""A sheet of paper on a desk: the drawing on it is found, and nothing else is taken for a sheet."""

import numpy as np
import pytest
from PIL import Image

from benchmarks.conditions import CONDITIONS
from gaussproto.data.desk import find_sheet
from gaussproto.data.ink import prepare_ink, reduced_grey
from gaussproto.data.look import traits_of
from gaussproto.data.strokes import strokes

DESKS = [name for name in CONDITIONS if "desk" in name]


@pytest.fixture(scope="module")
def pages():
    drawn = strokes(alphabets=2, drawings=1, size=105).images[:, 0].numpy()
    return [(page > 90).astype(np.uint8) * 255 for page in drawn[::2]]


def photos(pages, condition):
    rng = np.random.default_rng(0)
    return [Image.fromarray(CONDITIONS[condition](page, rng)) for page in pages]


def likeness(a, b):
    return 0.0 if a is None else float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


@pytest.mark.parametrize("condition", DESKS)
def test_a_drawing_on_a_desk_is_the_same_drawing(pages, condition):
    seen = photos(pages, condition)
    assert all(find_sheet(reduced_grey(photo)) is not None for photo in seen)
    prepared = [prepare_ink(reduced_grey(photo), 28) for photo in seen]
    found = [likeness(each, prepare_ink(page, 28)) for each, page in zip(prepared, pages, strict=True)]
    if "turned" in condition:  # the drawing is turned too
        assert np.median(found) > 0.7
    else:
        assert np.median(found) > 0.9
        assert np.mean([each > 0.7 for each in found]) > 0.95
    assert np.mean([traits_of(photo).is_drawing for photo in seen]) > 0.9


@pytest.mark.parametrize("condition", [name for name in CONDITIONS if name not in [*DESKS, "in a shadow"]])
def test_no_other_image_shows_a_desk(pages, condition):
    assert not any(find_sheet(reduced_grey(photo)) is not None for photo in photos(pages[::3], condition))


def test_a_drawing_in_half_a_shadow_keeps_all_its_ink(pages):
    """The edge of a shadow is as sharp as that of a sheet, but it has ink on both sides."""
    for page in pages[::3]:
        light = np.where(np.arange(105) < 52, 215.0, 110.0)
        if (page[:, 46:58] > 0).any():
            assert find_sheet((light * (1 - 0.85 * page / 255)).astype(np.uint8)) is None


def test_strokes_at_the_border_and_negatives_are_no_desks(pages):
    page = np.full((105, 105), 255, np.uint8)
    page[:4] = page[:, -4:] = page[40:44, 20:70] = 0
    for image in (page, 255 - page, *pages, *(255 - page for page in pages)):
        assert find_sheet(image) is None


def test_an_empty_sheet_is_left_as_it_is():
    image = np.full((105, 105), 120, np.uint8)
    image[20:80, 20:80] = 240
    assert find_sheet(image) is None  # the square may be the drawing
    image[45:50, 40:60] = 60
    assert find_sheet(image) is not None
