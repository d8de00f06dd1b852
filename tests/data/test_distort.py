import pytest
import torch

from gaussproto.data.distort import distort


def test_strength_zero_draws_nothing(generator):
    images = torch.rand(4, 1, 28, 28)
    before = generator.get_state()
    assert distort(images, 0.0, generator) is images
    assert torch.equal(before, generator.get_state())


def test_each_image_is_moved_its_own_way(generator):
    images = torch.rand(1, 1, 28, 28).expand(6, -1, -1, -1)
    moved = distort(images, 1.0, generator)
    assert moved.shape == images.shape
    assert len({tuple(image.flatten().tolist()) for image in moved}) == 6


def test_the_generator_decides(generator):
    images = torch.rand(3, 3, 20, 20)
    first, again = (distort(images, 1.0, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_a_blank_image_stays_blank(value, generator):
    """No border of another brightness comes in."""
    images = torch.full((5, 1, 28, 28), value)
    torch.testing.assert_close(distort(images, 2.0, generator), images)


def test_it_is_small_on_average(characters, generator):
    """At strength 1 most of a drawing still overlaps with what it was, and strength grows the change."""
    images = characters.images[::7].float() / 255
    change = [(distort(images, k, generator) - images).abs().mean().item() for k in (0.25, 0.5, 1.0)]
    assert change == sorted(change)
    assert change[-1] < images.mean() * 1.5
