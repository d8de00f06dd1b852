import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.config import RunConfig, TrainingConfig
from gaussproto.data.augment import augment
from gaussproto.presets import preset


@settings(deadline=None, max_examples=20)
@given(side=st.integers(1, 9), flip=st.booleans(), seed=st.integers(0, 99))
def test_each_crop_is_a_part_of_its_image(side, flip, seed):
    images = torch.arange(4 * 3 * 81.0).view(4, 3, 9, 9) / 1000
    cut = augment(images, flip, side, 0.0, torch.Generator().manual_seed(seed))
    assert cut.shape == (4, 3, side, side)
    for image, part in zip(images, cut, strict=True):
        views = [image, image.flip(-1)] if flip else [image]
        windows = torch.cat([each.unfold(1, side, 1).unfold(2, side, 1).flatten(1, 2) for each in views], dim=1)
        assert (windows == part[:, None]).all(dim=(0, 2, 3)).any()


def test_every_place_and_both_sides_occur(generator):
    images = torch.arange(16.0).view(1, 1, 4, 4).expand(400, -1, -1, -1) / 16
    cut = augment(images, True, 3, 0.0, generator)
    assert len({tuple(part.flatten().tolist()) for part in cut}) == 2 * 2 * 2


def test_jitter_keeps_the_range_and_the_mean_factor_is_one(generator):
    images = torch.rand(1, 3, 8, 8, generator=generator).expand(500, -1, -1, -1) * 0.4 + 0.3
    changed = augment(images, False, 0, 0.4, generator)
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert len({round(float(x), 5) for x in changed.mean(dim=(1, 2, 3))}) > 400
    torch.testing.assert_close(changed.mean(), images.mean(), atol=0.02, rtol=0)
    grey = torch.rand(5, 1, 8, 8, generator=generator)
    assert augment(grey, True, 6, 0.4, generator).shape == (5, 1, 6, 6)


def test_a_crop_must_fit():
    with pytest.raises(ValueError, match="random_crop must be 0 or from 16 to the image size 28"):
        RunConfig(name="it", training=TrainingConfig(random_crop=29))
    assert preset("cifar-fs-none").override(random_crop=0).training.random_crop == 0
