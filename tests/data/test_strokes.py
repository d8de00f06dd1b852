import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gaussproto.data.images import LabelledImages
from gaussproto.data.strokes import strokes
from gaussproto.errors import InputError


@pytest.fixture(scope="module")
def data() -> LabelledImages:
    return strokes(alphabets=6)


def features(data: LabelledImages) -> Tensor:
    """(C, drawings, pixels) blurred to a quarter of the resolution and of unit length."""
    blurred = F.avg_pool2d(data.images.float(), 4, stride=2).flatten(1)
    return F.normalize(blurred, dim=1).view(data.way, -1, blurred.shape[1])


def members(data: LabelledImages) -> list[list[int]]:
    """The classes of each alphabet."""
    return [[c for c in range(data.way) if data.alphabets[c] == name] for name in dict.fromkeys(data.alphabets)]


def test_it_is_a_data_set_of_named_classes_of_twenty_drawings(data: LabelledImages) -> None:
    assert data.images.shape == (20 * data.way, 1, 28, 28)
    assert data.images.dtype == torch.uint8
    assert data.counts.tolist() == [20] * data.way
    assert len(set(data.classes)) == data.way
    assert len(set(data.alphabets)) == 6
    for name, alphabet in zip(data.classes, data.alphabets, strict=True):
        assert name.startswith(f"{alphabet}/character")
        assert alphabet.isalpha()
        assert alphabet.istitle()


def test_alphabets_have_14_to_40_characters_and_not_all_as_many(data: LabelledImages) -> None:
    sizes = [len(classes) for classes in members(data)]
    assert 14 <= min(sizes) < max(sizes) <= 40


def test_the_same_seed_gives_the_same_images_and_another_seed_others(data: LabelledImages) -> None:
    again, other = strokes(alphabets=6), strokes(alphabets=6, seed=1)
    assert torch.equal(again.images, data.images)
    assert again.classes == data.classes
    assert not set(other.alphabets) & set(data.alphabets)
    assert not torch.equal(other.images[:20], data.images[:20])


def test_fewer_alphabets_are_the_beginning_of_more(data: LabelledImages) -> None:
    fewer = strokes(alphabets=2)
    assert torch.equal(fewer.images, data.images[: len(fewer)])
    assert fewer.classes == data.classes[: fewer.way]


def test_the_global_seeds_neither_matter_nor_change() -> None:
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    strokes(alphabets=1, drawings=1)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


@settings(max_examples=12, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**40), drawings=st.integers(1, 5), size=st.sampled_from([14, 28, 40]))
def test_no_drawing_is_blank_black_faint_or_cut(seed: int, drawings: int, size: int) -> None:
    images = strokes(alphabets=1, drawings=drawings, size=size, seed=seed).images[:, 0].float() / 255
    ink = images.mean((1, 2))
    assert ink.min() > 0.01
    assert ink.max() < 0.3
    assert images.amax((1, 2)).min() > 0.5
    border = torch.cat([images[:, [0, -1]].flatten(1), images[:, :, [0, -1]].flatten(1)], 1)
    assert border.max() < 0.25


def test_there_is_as_much_ink_as_in_omniglot(data: LabelledImages) -> None:
    # Omniglot's evaluation characters at 28 x 28: half of them have 0.066 to 0.101 ink, 9 in 10 from 0.04 to 0.135.
    low, middle, high = (data.images.float() / 255).mean((1, 2, 3)).quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    assert 0.03 < low < 0.066 < middle < 0.101 < high < 0.16


def test_another_size_shows_the_same_drawings() -> None:
    small, large = strokes(alphabets=1, drawings=3), strokes(alphabets=1, drawings=3, size=56)
    assert large.images.shape[-2:] == (56, 56)
    reduced = F.avg_pool2d(large.images.float(), 2)
    assert (reduced - small.images).abs().mean() < 3  # of 255
    assert F.cosine_similarity(reduced.flatten(1), small.images.float().flatten(1)).min() > 0.97


def test_drawings_resemble_their_own_character_most_but_not_always(data: LabelledImages) -> None:
    unit = features(data)
    rates = []
    for classes in members(data):
        means = F.normalize(unit[classes, :10].mean(1), dim=-1)
        nearest = (unit[classes, 10:] @ means.T).argmax(-1)
        rates.append((nearest == torch.arange(len(classes))[:, None]).float().mean().item())
    assert min(rates) > 0.3  # by chance: 1/14 at most
    assert 0.4 < sum(rates) / len(rates) < 0.9


def test_no_two_characters_of_an_alphabet_are_the_same(data: LabelledImages) -> None:
    # The means of two halves of the drawings know each other, which those of doubles would do by chance only.
    unit = features(data)
    halves = F.normalize(unit[:, :10].mean(1), dim=-1), F.normalize(unit[:, 10:].mean(1), dim=-1)
    confused = []
    for classes in members(data):
        nearest = (halves[0][classes] @ halves[1][classes].T).argmax(1)
        confused.append((nearest != torch.arange(len(classes))).float().mean().item())
    assert max(confused) < 0.3
    assert sum(confused) / len(confused) < 0.15


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"alphabets": 0}, "alphabets .* at least 1 \\(found 0\\)"),
        ({"drawings": -2}, "drawings .* at least 1 \\(found -2\\)"),
        ({"size": 7}, "size .* at least 8 \\(found 7\\)"),
        ({"seed": -1}, "seed .* at least 0 \\(found -1\\)"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(arguments: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        strokes(**arguments)
