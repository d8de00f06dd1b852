"""Corruptions: what each changes and what it leaves alone, in grey and in colour."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from gaussproto.data.corrupt import CORRUPTIONS, SEVERITIES, corrupt
from gaussproto.data.damage import down_sample
from gaussproto.errors import InputError

GREY_ONLY = {"thick strokes", "thin strokes"}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def drawings(characters):
    return characters.images[::97]


@pytest.fixture
def photos():
    return torch.randint(256, (6, 3, 32, 40), generator=seeded(), dtype=torch.uint8)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_higher_severity_changes_more(name, drawings):
    before = drawings.clone()
    changes = []
    for severity in SEVERITIES:
        changed = corrupt(drawings, name, severity, seeded())
        assert (changed.shape, changed.dtype) == (drawings.shape, torch.uint8)
        assert torch.equal(changed, corrupt(drawings, name, severity, seeded()))
        changes.append((changed.float() - drawings.float()).abs().mean().item())
    assert changes == sorted(changes)
    assert changes[0] > 0
    assert torch.equal(drawings, before)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_colour_images_of_any_size(name, photos):
    if name in GREY_ONLY:
        with pytest.raises(InputError, match=f"{name} changes bright strokes .* which colour images do not have"):
            corrupt(photos, name, 1)
        return
    changed = corrupt(photos, name, 3, seeded())
    assert changed.shape == photos.shape
    assert (changed != photos).flatten(1).any(dim=1).all()


def test_blur_is_that_of_scipy(photos):
    for severity, share in zip(SEVERITIES, CORRUPTIONS["blur"].amounts, strict=True):
        sigma = share * 32
        radius = int(np.ceil(4 * sigma))
        expected = ndimage.gaussian_filter(
            photos.double().numpy(), (0, 0, sigma, sigma), mode="nearest", radius=(0, 0, radius, radius)
        )
        assert np.abs(corrupt(photos, "blur", severity).numpy() - expected).max() <= 0.51  # rounded to whole levels


def test_down_sampling_is_the_damage_of_the_paper(drawings):
    expected = down_sample(drawings.float() / 255, 7).mul(255).round().byte()
    assert torch.equal(corrupt(drawings, "down-sampling", 4), expected)


def test_strokes_grow_and_shrink_as_in_scipy(drawings):
    """By whole pixels, and between them in proportion."""
    image = drawings[0, 0].numpy()
    cross, square = ndimage.generate_binary_structure(2, 1), np.ones((3, 3), bool)
    once = ndimage.grey_dilation(image, footprint=cross, mode="nearest").astype(float)
    twice = ndimage.grey_dilation(once, footprint=square, mode="nearest")
    share = CORRUPTIONS["thick strokes"].amounts[3] * 28 - 1
    assert np.abs(corrupt(drawings[:1], "thick strokes", 4)[0, 0].numpy() - (once + share * (twice - once))).max() < 1
    eroded = ndimage.grey_erosion(image, footprint=cross, mode="nearest").astype(float)
    share = -CORRUPTIONS["thin strokes"].amounts[2] * 28
    assert np.abs(corrupt(drawings[:1], "thin strokes", 3)[0, 0].numpy() - (image + share * (eroded - image))).max() < 1


def test_an_occlusion_is_one_square_of_one_colour(photos):
    covered = corrupt(photos, "occlusion", 3, seeded())
    side = round(CORRUPTIONS["occlusion"].amounts[2] * 32)
    for before, after in zip(photos, covered, strict=True):
        rows, columns = (before != after).any(dim=0).nonzero().T
        top, left = int(rows.min()), int(columns.min())
        assert max(int(rows.max()) - top, int(columns.max()) - left) < side
        square = after[:, top : int(rows.max()) + 1, left : int(columns.max()) + 1]
        assert (square == square[:, :1, :1]).all()


def test_clutter_consists_of_pieces_of_the_images(photos):
    cluttered = corrupt(photos, "clutter", 5, seeded())
    pieces = (cluttered[:, None] == photos[None]).all(dim=2)  # (N, images, H, W), the same colour at the same place
    assert pieces.any(dim=1).all()


@pytest.mark.parametrize(
    ("images", "name", "severity", "message"),
    [
        (torch.zeros(1, 1, 8, 8, dtype=torch.uint8), "fog", 1, "unknown corruption 'fog': choose one of down-sampling"),
        (torch.zeros(1, 1, 8, 8, dtype=torch.uint8), "blur", 6, r"severity must be one of 1, 2, .* \(found 6\)"),
        (torch.zeros(1, 1, 8, 8), "blur", 1, "must be a uint8 tensor"),
    ],
)
def test_mistakes(images, name, severity, message):
    with pytest.raises(InputError, match=message):
        corrupt(images, name, severity)
