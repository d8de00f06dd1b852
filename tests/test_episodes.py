import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.config import EpisodeConfig
from gaussproto.data.images import LabelledImages
from gaussproto.episodes import check_enough, fit_episode_to, sample_drawings, sample_episode, sample_neighbours
from gaussproto.errors import InputError
from tests.conftest import uneven


@given(counts=st.lists(st.integers(2, 12), min_size=1, max_size=10), seed=st.integers(0, 999))
@settings(deadline=None)
def test_drawings_are_different_and_there(counts, seed):
    K = min(counts)
    drawn = sample_drawings(torch.tensor(counts), K, torch.Generator().manual_seed(seed))
    assert drawn.shape == (len(counts), K)
    for row, count in zip(drawn.tolist(), counts, strict=True):
        assert len(set(row)) == K
        assert set(row) <= set(range(count))


def test_every_drawing_comes_as_often():
    counts = torch.tensor([4, 7])
    g = torch.Generator().manual_seed(0)
    drawn = torch.stack([sample_drawings(counts, 3, g) for _ in range(4000)])
    for c, count in enumerate(counts.tolist()):
        share = torch.bincount(drawn[:, c].flatten(), minlength=7) / 4000
        torch.testing.assert_close(share[:count], torch.full((count,), 3 / count), atol=0.04, rtol=0)


def test_classes_are_different_and_an_episode_holds_their_own_images(characters, generator):
    marked = LabelledImages(
        characters.labels.to(torch.uint8)[:, None, None, None].contiguous(),
        characters.counts,
        characters.classes,
        characters.alphabets,
    )
    episode = sample_episode(marked, 30, 5, generator)[..., 0, 0, 0]
    assert episode.shape == (30, 5)
    assert bool((episode == episode[:, :1]).all())
    assert len(set(episode[:, 0].tolist())) == 30


def test_the_generator_decides_everything(characters):
    first, again = (sample_episode(characters, 10, 4, torch.Generator().manual_seed(3)) for _ in range(2))
    other = sample_episode(characters, 10, 4, torch.Generator().manual_seed(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_mirrored_class_is_mirrored_in_all_its_drawings(characters):
    plain, mirrored = (
        sample_episode(characters, 40, 3, torch.Generator().manual_seed(5), mirror) for mirror in (False, True)
    )
    flipped = (mirrored != plain).flatten(1).any(dim=1)
    assert 8 < int(flipped.sum()) < 32
    assert torch.equal(mirrored[flipped], plain[flipped].flip(-1))


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), data=st.data())
@settings(deadline=None)
def test_neighbours_fill_whole_alphabets_but_one(sizes, data):
    groups = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    way = data.draw(st.integers(1, len(groups)))
    drawn = sample_neighbours(groups, way, torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    assert len(set(drawn.tolist())) == way
    taken = torch.bincount(groups[drawn], minlength=len(sizes))
    assert int(((taken > 0) & (taken < torch.tensor(sizes))).sum()) <= 1


def test_neighbours_begin_with_every_alphabet_equally_often():
    groups, g = torch.tensor([0, 0, 0, 1, 1, 2]), torch.Generator().manual_seed(0)
    alone = torch.cat([sample_neighbours(groups, 1, g) for _ in range(6000)])
    share = torch.bincount(alone, minlength=6) / 6000  # a third for each alphabet
    torch.testing.assert_close(share, torch.tensor([1, 1, 1, 1.5, 1.5, 3]) / 9, atol=0.03, rtol=0)


def test_an_alphabet_is_turned_and_mirrored_as_a_whole(characters):
    """Each image is replaced by the number of its group, with its left half in another shade."""
    turned = characters.with_rotations()
    assert len(turned.groups.unique()) == 4 * len(set(characters.alphabets))
    marks = torch.zeros_like(turned.images)
    marks[:, :, :, : marks.shape[-1] // 2] = 200
    marks[..., 0, :] = turned.groups[turned.labels].to(torch.uint8)[:, None, None]
    marked = LabelledImages(marks, turned.counts, turned.classes, turned.alphabets, turned.characters)
    g = torch.Generator().manual_seed(0)
    for _ in range(20):
        episode = sample_episode(marked, 40, 2, g, mirror=True, within_alphabet=1.0)
        group, left = episode[:, :, 0, 0, 0], episode[:, :, 0, 1, 0]
        for one in group.unique():
            assert len(left[group == one].unique()) == 1
        fewest = int((turned.groups.bincount().sort(descending=True).values.cumsum(0) < 40).sum()) + 1
        assert fewest <= len(group.unique()) < 40


def test_without_neighbours_an_episode_draws_classes_drawings_and_mirrors(characters):
    """In this order, so that runs from before the setting `within_alphabet` can be repeated."""
    g = torch.Generator().manual_seed(3)
    classes = torch.randperm(characters.way, generator=g)[:10]
    drawn = characters.gather(classes, sample_drawings(characters.counts[classes], 4, g))
    flipped = torch.rand(10, generator=g) < 0.5
    drawn[flipped] = drawn[flipped].flip(-1)
    assert torch.equal(sample_episode(characters, 10, 4, torch.Generator().manual_seed(3), mirror=True), drawn)


EPISODES = st.builds(
    lambda way, shot, more, query, splits: EpisodeConfig(
        way=way, shot=shot, max_shot=more and shot + more, query=query, splits=min(splits, shot + query), adapt=True
    ),
    st.integers(2, 30), st.integers(1, 6), st.none() | st.integers(1, 4), st.integers(1, 9), st.integers(1, 4),
)  # fmt: skip


@given(counts=st.lists(st.integers(2, 12), min_size=2, max_size=12), episode=EPISODES)
@settings(deadline=None)
def test_an_episode_adapts_to_what_there_is(characters, counts, episode):
    images = uneven(characters, counts)
    fits = fit_episode_to(episode, images)
    check_enough(images, fits.way, fits.drawings)
    assert EpisodeConfig.model_validate(fits.model_dump()) == fits
    for name in ("way", "shot", "query", "splits", "drawings"):
        assert 1 <= getattr(fits, name) <= getattr(episode, name)
    assert fits.way == min(episode.way, len(counts))
    assert fits.drawings == min(episode.drawings, min(counts))  # nothing that is there is given up
    assert fit_episode_to(fits, images) == fits
    assert fit_episode_to(episode.model_copy(update={"adapt": False}), images) == episode.model_copy(
        update={"adapt": False}
    )


def test_what_no_episode_fits(characters):
    with pytest.raises(InputError, match=r"an episode needs at least two classes of two images each .* has only one"):
        fit_episode_to(EpisodeConfig(adapt=True), uneven(characters, [5, 1, 4]))
    with pytest.raises(InputError, match="found only one class"):
        fit_episode_to(EpisodeConfig(adapt=True), uneven(characters, [5]))


def test_too_few_classes_or_images(characters):
    with pytest.raises(InputError, match=r"way must be at most the \d+ classes \(found 1000\)"):
        check_enough(characters, 1000, 5)
    few = uneven(characters, [5, 3, 9])
    with pytest.raises(InputError, match="has 3 images"):
        sample_episode(few, 2, 4, torch.Generator())
    with pytest.raises(InputError, match=rf"class '{characters.classes[1]}' has 3 images, but an episode needs 4"):
        check_enough(few, 2, 4)
