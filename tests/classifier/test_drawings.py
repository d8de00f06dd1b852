"""Drawings as people deliver them, the encoder that the examples choose, and warnings of images that do not fit."""

import warnings

import numpy as np
import pytest
from PIL import Image

import gaussproto as gp
from gaussproto.classifier.profile import Profile, difference
from gaussproto.data.look import Look, traits_of
from gaussproto.data.strokes import strokes

SIDE, WAY, SHOT = 105, 12, 3
y, x = np.mgrid[:SIDE, :SIDE] / (SIDE - 1) - 0.5


def framed(page):
    page = page.copy()
    page[[3, 4, -5, -4], 3:-3] = page[3:-3, [3, 4, -5, -4]] = 255
    return page


def third(page):
    small = np.zeros_like(page)
    small[60:95, 10:45] = np.asarray(Image.fromarray(page).resize((35, 35), Image.Resampling.BOX))
    return small


def paper(page, light):
    grain = np.random.default_rng(int(page.sum())).normal(0, 4, page.shape)
    return np.clip(light * (1 - 0.8 * page / 255) + grain, 0, 255).astype(np.uint8)


CHANGES = {
    "negative": lambda page: 255 - page,
    "frame": framed,
    "a third of the size": third,
    "lamp": lambda page: paper(page, 60 + 170 * np.exp(-((x - 0.2) ** 2 + (y + 0.2) ** 2) / 0.15)),
    "vignette": lambda page: paper(page, 240 * (1 - 0.6 * (x**2 + y**2))),
    "large": lambda page: np.asarray(Image.fromarray(255 - page).resize((900, 900))),
    "coloured paper": lambda page: np.stack([255 - page // 2, 230 - page // 2, 150 - page // 2], axis=-1),
}


@pytest.fixture(scope="module")
def pages():
    """(characters, drawings, H, W) with a margin, bright ink."""
    drawn = strokes(alphabets=1, drawings=8, size=85).dense[:WAY, :, 0].numpy()
    return np.pad(drawn, ((0, 0), (0, 0), (10, 10), (10, 10)))


@pytest.fixture(scope="module")
def clf(pages):
    examples, labels = pages[:, :SHOT].reshape(-1, SIDE, SIDE), np.repeat(np.arange(WAY), SHOT)
    return gp.GaussianPrototypeClassifier().fit(examples, labels)


def test_the_examples_choose_the_drawings(clf):
    assert clf.encoder_.source == "drawings-small"
    assert clf.encoder_.prepare == "ink"


@pytest.mark.filterwarnings("ignore::gaussproto.errors.ImageWarning")
@pytest.mark.parametrize("change", CHANGES)
def test_a_drawing_gets_its_class_however_it_was_delivered(clf, pages, change):
    queries = pages[:, SHOT:].reshape(-1, SIDE, SIDE)
    truth = np.repeat(np.arange(WAY), pages.shape[1] - SHOT)
    clean = np.mean(clf.predict(queries) == truth)
    changed = np.mean(clf.predict([CHANGES[change](page) for page in queries]) == truth)
    assert changed > clean - 0.12, (changed, clean)
    assert clean > 0.8


def test_without_preparation_a_frame_is_part_of_the_drawing(pages):
    pages = (pages > 90).astype(np.uint8) * 255
    examples = pages[:, 0]
    plain = gp.GaussianPrototypeClassifier("drawings-small", prepare="none").fit(examples, range(WAY))
    prepared = gp.GaussianPrototypeClassifier("drawings-small").fit(examples, range(WAY))
    page = pages[0, 1]
    assert not np.allclose(plain.transform([page]), plain.transform([framed(page)]))
    assert np.allclose(prepared.transform([page]), prepared.transform([framed(page)]))


def test_blank_images_are_said_to_be_blank(clf, pages):
    blank = np.full((50, 50), 240, np.uint8)
    with pytest.warns(gp.ImageWarning, match="found no ink in 2 of 3 images, for example image 0"):
        found = clf.confidence([blank, pages[0, 0], blank])
    assert found.blank.tolist() == [True, False, True]
    with pytest.warns(gp.ImageWarning, match="found no ink in image 0"):
        clf.predict([blank])


def photo(seed, size=120):
    """A smooth picture in many colours."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC))


def test_colour_and_ink_tell_photos_from_drawings(pages):
    drawings = [traits_of(Image.fromarray(change(page))) for page in pages[:, 0] for change in CHANGES.values()]
    photos = [traits_of(Image.fromarray(photo(seed))) for seed in range(20)]
    assert np.mean([each.is_drawing for each in drawings]) > 0.95
    assert not any(each.is_drawing for each in photos)
    assert Profile.of(drawings).encoder == "drawings-small"
    assert Profile.of(photos).encoder == "photo"


def profile(**changes):
    settled = {"images": 5, "drawings": 1, "colour": 0, "dark": 1, "ink_share": 0.1, "ink_size": 0.8, "side": 100}
    return Profile(**settled | changes)


@pytest.mark.parametrize(
    ("changes", "look", "sentence"),
    [
        ({}, Look(), None),
        ({"colour": 1}, Look(), "the examples are grey, but the new images have several colours"),
        ({"dark": 0}, Look(ink="bright"), "the ink of the examples is dark, but that of the new images is bright"),
        ({"dark": 0}, Look(ink="detect"), None),
        ({"ink_size": 0.3, "ink_share": 0.1 * (0.3 / 0.8) ** 2}, Look(), "spans 80 % .* but 30 %"),
        ({"ink_size": 0.3, "ink_share": 0.1 * (0.3 / 0.8) ** 2}, Look(prepare="ink"), None),
        ({"ink_share": 0.4}, Look(prepare="ink"), "4.0 times as much ink"),
        ({"side": 20}, Look(channels=3), "20 pixels a side, but the examples 100"),
    ],
)
def test_a_difference_that_matters_is_named(changes, look, sentence):
    found = difference(profile(), profile(**changes), look)
    if sentence is None:
        assert found is None
    else:
        import re

        assert re.search(sentence, found)


def test_images_that_do_not_look_like_the_examples_get_one_warning(clf, tmp_path):
    queries = [photo(seed) for seed in range(6)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.predict(queries)
    said = [str(each.message) for each in caught if "do not look like the examples" in str(each.message)]
    assert len(said) == 1
    assert "the examples are grey" in said[0]
    clf.save(tmp_path / "gallery")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.load(tmp_path / "gallery").predict(queries)
    assert any("the examples are grey" in str(each.message) for each in caught)


def test_the_explanation_shows_the_image_as_it_came(clf, pages, tmp_path):
    (path,) = clf.explain([framed(pages[0, 4])], tmp_path / "why.svg")
    text = path.read_text()
    assert "as it came" in text
    assert "as the network sees it" in text


@pytest.mark.parametrize(("ink", "paper"), [((40, 60, 150), (255, 255, 255)), ((200, 30, 30), (250, 230, 90))])
def test_coloured_pens_on_coloured_paper_are_drawings(pages, ink, paper):
    for page in pages[:, 0]:
        share = np.minimum(1, page[..., None] / 128)
        image = np.rint(np.array(paper) * (1 - share) + np.array(ink) * share).astype(np.uint8)
        assert traits_of(Image.fromarray(image)).is_drawing


@pytest.mark.parametrize("ink", ["dark", "bright", "detect"])
def test_one_grey_is_blank_whatever_the_ink(clf, pages, ink):
    other = gp.GaussianPrototypeClassifier("drawings-small", ink=ink).fit(pages[:2, 0], ["a", "b"])
    with pytest.warns(gp.ImageWarning, match="found no ink"):
        assert other.confidence([np.zeros((20, 30), np.uint8)]).blank.all()
