"""The preparation of drawings: whatever the paper, the light and the place, a network sees the same drawing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gaussproto.data.ink import BOX, WORK, otsu, prepare_ink, prepare_or_resize, reduced_grey
from gaussproto.data.strokes import strokes
from gaussproto.data.vary import variants_of

SIDE = 105


@pytest.fixture(scope="module")
def pages():
    """Drawings with bright ink, black and white like Omniglot's."""
    drawn = strokes(alphabets=2, drawings=2, size=SIDE).images[:, 0].numpy()
    return [(page > 90).astype(np.uint8) * 255 for page in drawn[::3]]


def on_paper(page, light, depth=0.85, noise=4.0, seed=0):
    """Photograph a drawing in light from 0 to 255, with noise."""
    grain = np.random.default_rng(seed).normal(0, noise, page.shape)
    return np.clip(light * (1 - depth * page / 255) + grain, 0, 255).astype(np.uint8)


def likeness(a, b):
    """The correlation of two prepared images; 0 if one is empty."""
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) if a.std() * b.std() else 0.0


y, x = np.mgrid[:SIDE, :SIDE] / (SIDE - 1) - 0.5
LIGHTS = {
    "even": np.full((SIDE, SIDE), 230.0),
    "dark paper": np.full((SIDE, SIDE), 90.0),
    "from the left": 190 + 110 * x,
    "lamp": 60 + 170 * np.exp(-((x - 0.2) ** 2 + (y + 0.2) ** 2) / 0.15),
    "vignette": 240 * (1 - 0.6 * (x**2 + y**2)),
    "shadow": np.where(x + 0.3 * y > 0.05, 110.0, 215.0),
}

SMOOTH = [light for light in LIGHTS if light != "shadow"]


def test_a_negative_is_the_same_drawing(pages):
    for page in pages:
        assert np.array_equal(prepare_ink(page, 28), prepare_ink(255 - page, 28))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 30))
@settings(max_examples=20, deadline=None)
def test_the_place_on_the_page_does_not_matter(pages, across, down, more):
    page = pages[more % len(pages)]
    larger = np.zeros((SIDE + 40, SIDE + 40), np.uint8)
    larger[down : down + SIDE, across : across + SIDE] = page
    assert np.array_equal(prepare_ink(larger, 28), prepare_ink(page, 28))


def test_the_size_of_the_drawing_hardly_matters(pages):
    found = []
    for page in pages:
        small = np.zeros_like(page)
        small[40:100, 5:65] = np.asarray(Image.fromarray(page).resize((60, 60), Image.Resampling.BOX))
        large = np.asarray(Image.fromarray(page).resize((1050, 1050), Image.Resampling.BICUBIC))
        for other in (small, large):
            found.append(likeness(prepare_ink(other, 28), prepare_ink(page, 28)))
    assert np.median(found) > 0.95
    assert min(found) > 0.75


@pytest.mark.parametrize("light", LIGHTS)
def test_light_and_noise_hardly_matter(pages, light):
    found = [likeness(prepare_ink(on_paper(page, LIGHTS[light]), 28), prepare_ink(page, 28)) for page in pages]
    assert np.median(found) > 0.95
    assert np.mean([each > 0.85 for each in found]) > 0.95


def test_chalk_on_a_board(pages):
    for page in pages:
        board = np.clip(40 + 30 * x + 0.6 * page, 0, 255).astype(np.uint8)
        assert likeness(prepare_ink(board, 28), prepare_ink(page, 28)) > 0.9


@pytest.mark.parametrize(("across", "down"), [(14, 0), (10, 10)])
def test_ruled_and_squared_paper(pages, across, down):
    light = np.full((SIDE, SIDE), 235.0)
    light[8::across] = 175
    if down:
        light[:, 4::down] = 175
    found = [likeness(prepare_ink(on_paper(page, light), 28), prepare_ink(page, 28)) for page in pages]
    assert np.mean([each > 0.85 for each in found]) > 0.9


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_a_frame_around_the_drawing_is_dropped(pages, margin, width, i):
    page = pages[i % len(pages)]
    framed = np.zeros((SIDE + 40, SIDE + 40), np.uint8)
    framed[20:-20, 20:-20] = page
    a, b = margin, margin + width
    for line in (np.s_[a:b, a:-a], np.s_[-b:-a, a:-a], np.s_[a:-a, a:b], np.s_[a:-a, -b:-a]):
        framed[line] = 255
    assert np.array_equal(prepare_ink(framed, 28), prepare_ink(page, 28))


def test_a_frame_that_touches_the_drawing_is_dropped_too():
    page = np.zeros((100, 100), np.uint8)
    page[[3, 4, 95, 96], 3:97] = page[3:97, [3, 4, 95, 96]] = 255
    page[48:52, 5:95] = 255  # a stroke from frame to frame
    page[20:80, 48:52] = 255
    alone = page.copy()
    alone[:5] = alone[95:] = alone[:, :5] = alone[:, 95:] = 0
    assert np.array_equal(prepare_ink(page, 28), prepare_ink(alone, 28))


def test_a_ring_is_a_drawing_and_not_a_frame():
    """A shape around a dot is kept unless it runs along the edges of the image; an empty frame is the drawing."""
    page = np.zeros((100, 100), np.uint8)
    page[30:70, 30:70] = 255
    page[34:66, 34:66] = 0
    ring = prepare_ink(page, 28)
    page[48:52, 48:52] = 255
    assert not np.array_equal(prepare_ink(page, 28), ring)
    assert likeness(prepare_ink(page, 28), ring) > 0.8
    frame = np.full((100, 100), 255, np.uint8)
    frame[5:-5, 5:-5] = 0
    assert prepare_ink(frame, 28) is not None


def test_specks_do_not_matter(pages):
    rng = np.random.default_rng(0)
    for page in pages:
        dusty = page.copy()
        free = np.argwhere(np.asarray(Image.fromarray(page).resize((SIDE, SIDE))) == 0)
        far = [
            spot
            for spot in free
            if not page[max(0, spot[0] - 3) : spot[0] + 4, max(0, spot[1] - 3) : spot[1] + 4].any()
        ]
        for i in rng.choice(len(far), 8, replace=False):
            dusty[tuple(far[i])] = 255
        assert np.array_equal(prepare_ink(dusty, 28), prepare_ink(page, 28))


@given(st.integers(0, 255), st.integers(1, 200), st.integers(1, 200))
@settings(max_examples=20, deadline=None)
def test_one_grey_is_blank(level, H, W):
    assert prepare_ink(np.full((H, W), level, np.uint8), 28) is None


@pytest.mark.parametrize("light", SMOOTH)
def test_paper_without_ink_is_blank(light):
    empty = [
        on_paper(np.zeros((SIDE, SIDE)), LIGHTS[light], noise=noise, seed=seed)
        for noise in (0, 1, 3, 5)
        for seed in range(8)
    ]
    assert np.mean([prepare_ink(page, 28) is None for page in empty]) > 0.9
    assert prepare_ink(empty[0], 28) is None  # without noise
    pixels, found = prepare_or_resize(empty[0], 28)
    assert not found
    assert np.array_equal(pixels, np.asarray(Image.fromarray(empty[0]).resize((28, 28), Image.Resampling.BILINEAR)))


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 10**6), st.integers(8, 64), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_any_image_is_prepared_or_blank(H, W, seed, size, kind):
    rng = np.random.default_rng(seed)
    grey = rng.integers(0, 256, (H, W), dtype=np.uint8)
    if kind == 2:
        grey = (grey > 240).astype(np.uint8) * 255
    if kind == 3:
        grey = np.asarray(Image.fromarray(rng.integers(0, 256, (3, 4), dtype=np.uint8)).resize((W, H)))
    prepared = prepare_ink(grey, size)
    if prepared is not None:
        assert prepared.shape == (size, size)
        assert prepared.dtype == np.uint8
        assert prepared.any()


@pytest.mark.parametrize("size", [28, 32, 64])
def test_the_longer_side_of_the_ink_has_one_length_and_the_ink_is_in_the_centre(pages, size):
    for page in pages:
        prepared = prepare_ink(page, size)
        spans = [np.flatnonzero(prepared.any(axis=axis)) for axis in (0, 1)]
        lengths = [span[-1] - span[0] + 1 for span in spans]
        assert abs(max(lengths) - BOX * size) <= 2  # pixels at its ends may be covered in part
        for span in spans:
            assert abs((span[0] + span[-1]) / 2 - (size - 1) / 2) <= 0.5


@pytest.mark.parametrize("side", [25, 64, SIDE])
@pytest.mark.parametrize("size", [24, 27, 28, 32])
def test_a_turned_or_mirrored_drawing_is_prepared_turned_or_mirrored(pages, size, side):
    # Otherwise, the place of the ink would tell rotated classes apart.
    for page in pages:
        drawing = reduced_grey(Image.fromarray(page).resize((side, side), Image.Resampling.BILINEAR))
        for change in (np.rot90, np.fliplr, np.flipud, np.transpose):
            prepared, expected = prepare_ink(change(drawing), size), change(prepare_ink(drawing, size))
            np.testing.assert_allclose(prepared, expected.astype(int), atol=1)


def test_the_kind_of_ink_can_be_given():
    solid = np.full((50, 50), 255, np.uint8)
    solid[10:12, 5:45] = 0  # a dark line, or a bright square with a slit
    assert not np.array_equal(prepare_ink(solid, 28, "bright"), prepare_ink(solid, 28, "dark"))
    assert np.array_equal(prepare_ink(solid, 28, "dark"), prepare_ink(solid, 28))
    assert np.array_equal(prepare_ink(255 - solid, 28, "bright"), prepare_ink(solid, 28, "dark"))


@given(st.lists(st.integers(0, 50), min_size=256, max_size=256).filter(any))
@settings(max_examples=50, deadline=None)
def test_otsu_is_the_best_of_all_splits(counts):
    counts = np.array(counts)
    levels = np.arange(256)
    t, share = otsu(counts)

    def between(t):
        parts = levels <= t, levels > t
        sizes = [counts[part].sum() for part in parts]
        means = [
            np.average(levels[part], weights=counts[part]) if n else 0 for part, n in zip(parts, sizes, strict=True)
        ]
        return 0.0 if 0 in sizes else sizes[0] * sizes[1] * (means[0] - means[1]) ** 2 / sum(sizes)

    best = max(between(t) for t in range(255))
    assert between(t) == pytest.approx(best)
    variance = counts @ (levels - np.average(levels, weights=counts)) ** 2
    assert share == pytest.approx(best / variance if variance else 0)


def test_large_images_are_reduced_without_losing_thin_strokes():
    page = np.full((2000, 1500), 255, np.uint8)
    page[300:1700, 745:750] = page[995:1000, 300:1200] = 0  # a cross, five of 2,000 pixels thick
    prepared = prepare_ink(page, 28)
    assert prepared[4:24, 13].min() > 60
    assert WORK < 2000


def test_variants_depend_on_the_seed_only_and_are_prepared(pages):
    first, again, other = (variants_of(pages[0], 28, 6, seed) for seed in (1, 1, 2))
    assert first.shape == (6, 28, 28)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len({variant.tobytes() for variant in first}) == 6
    assert np.array_equal(variants_of(np.zeros((30, 30), np.uint8), 28, 2, 0), np.zeros((2, 28, 28)))


def test_variants_resemble_their_drawing_more_than_others(pages):
    def blurred(image):
        return np.asarray(Image.fromarray(image).resize((7, 7), Image.Resampling.BOX), dtype=float)

    clean = [blurred(prepare_ink(page, 28)) for page in pages[:12]]
    right = []
    for i, page in enumerate(pages[:12]):
        for variant in variants_of(page, 28, 8, i):
            right.append(max(range(12), key=lambda j: likeness(blurred(variant), clean[j])) == i)
    assert np.mean(right) > 0.6  # chance is a twelfth


@pytest.mark.parametrize(("ink", "paper"), [((220, 60, 60), (60, 150, 60)), ((60, 150, 60), (220, 60, 60))])
def test_ink_as_bright_as_its_paper_is_found_by_its_colour(pages, ink, paper):
    for page in pages[:10]:
        share = page[..., None] / 255
        image = np.rint(np.array(paper) * (1 - share) + np.array(ink) * share).astype(np.uint8)
        grey = reduced_grey(Image.fromarray(image))
        assert likeness(prepare_ink(grey, 28), prepare_ink(page, 28)) > 0.95


def test_a_grey_image_in_colour_is_the_grey_image(pages):
    for page in pages[:10]:
        photo = on_paper(page, LIGHTS["lamp"])
        assert np.array_equal(reduced_grey(Image.fromarray(photo).convert("RGB")), photo)
