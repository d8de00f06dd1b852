"""Episodes with wrong labels and corrupted images: exactly as wrong as stated, and measured as a plain loop would."""

from collections import Counter

import numpy as np
import pytest
import torch

from gaussproto.config import NetworkConfig
from gaussproto.data.corrupt import corrupt
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.noise import (
    MOST_QUERIES,
    _episodes,
    _generator,
    _supports,
    fewer_images,
    noise_accuracies,
)
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.folder import load_network
from gaussproto.runs.noise import Condition
from tests.conftest import uneven

WAY, SHOT = 5, 5


@pytest.fixture(scope="module")
def images(characters):
    return characters.select(range(12))


@pytest.mark.parametrize("source", ["swap", "pair", "outlier"])
@pytest.mark.parametrize("wrong", [0, 1, 2, 3])
def test_every_class_has_this_number_of_wrong_supports(images, source, wrong):
    condition = Condition(wrong=wrong, source=source)
    (episodes,) = _episodes(images, WAY, 4, 20, seed=0)
    supports = _supports(episodes, condition, SHOT)
    shown = images.labels[supports]  # (G, way, shot) the class that each support shows
    assert (shown[:, :, wrong:] == episodes.classes[:, :, None]).all()
    queries = episodes.images[:, :, SHOT + 3 :].flatten(1)
    for classes, of_episode, used, asked in zip(episodes.classes, shown, supports, queries, strict=True):
        drawn = [*used.flatten().tolist(), *asked.tolist()]
        assert len(drawn) == len(set(drawn))
        for own, labels in zip(classes.tolist(), of_episode[:, :wrong].tolist(), strict=True):
            assert own not in labels
            assert all((label in classes) == (source != "outlier") for label in labels)
            assert len(set(labels)) == (min(1, wrong) if source == "pair" else wrong)
            assert source == "pair" or max(Counter(labels).values(), default=0) < SHOT - wrong  # a plurality


def test_the_accuracy_is_that_of_a_plain_loop(images, weights):
    """With wrong labels among the supports and blurred queries, by the two means."""
    network = load_network(weights)
    condition = Condition(wrong=2, corruption="blur", severity=3, queries=True)
    (found,) = noise_accuracies(network, images, [condition], way=WAY, shot=SHOT, rounds=2)
    blurred = corrupt(images.images, "blur", 3, _generator(0, "blur 3"))
    (x, s), (q, _) = (
        (each.double().numpy() for each in embed_all(network, pixels)) for pixels in (images.images, blurred)
    )
    assert not network.config.in_distance
    right = {"plain mean": np.zeros(12), "weighted mean": np.zeros(12)}
    asked = np.zeros(12)
    (episodes,) = _episodes(images, WAY, 2, min(20, SHOT + 2 + MOST_QUERIES), seed=0)
    supports = _supports(episodes, condition, SHOT)
    for g, classes in enumerate(episodes.classes.tolist()):
        p = {rule: [] for rule in right}
        for c in range(WAY):
            own = supports[g, c].numpy()
            p["plain mean"].append(x[own].mean(axis=0))
            p["weighted mean"].append((s[own] * x[own]).sum(axis=0) / s[own].sum(axis=0))
        for c, true in enumerate(classes):
            for m in range(SHOT + 2, episodes.images.shape[2]):
                if not episodes.counted[g, c, m]:
                    continue
                asked[true] += 1
                query = q[episodes.images[g, c, m]]
                for rule, prototypes in p.items():
                    nearest = np.argmin([np.sum((query - each) ** 2) for each in prototypes])
                    right[rule][true] += int(nearest) == c
    for rule, count in right.items():
        np.testing.assert_allclose(found[rule], count / asked, atol=1e-6)


def test_a_condition_does_not_depend_on_the_others(images, weights):
    network = load_network(weights)
    conditions = [
        Condition(),
        Condition(wrong=2),
        Condition(wrong=1, corruption="noise", severity=4, corrupted=2),
        Condition(corruption="noise", severity=2, queries=True),
    ]
    together = noise_accuracies(network, images, conditions, way=WAY, shot=SHOT, rounds=1)
    reverse = noise_accuracies(network, images, conditions[::-1], way=WAY, shot=SHOT, rounds=1)
    for one, other in zip(together, reversed(reverse), strict=True):
        assert one.keys() == other.keys() == {"plain mean", "weighted mean", "median", "agreement", "sharing"}
        for rule, accuracy in one.items():
            np.testing.assert_array_equal(accuracy, other[rule])
    clean, wrong, *_ = ({rule: each.mean() for rule, each in accuracies.items()} for accuracies in together)
    assert wrong["plain mean"] < clean["plain mean"]
    assert wrong["agreement"] > wrong["plain mean"]


def test_colour_images_and_a_vanilla_network():
    pixels = torch.randint(256, (30, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images = LabelledImages.from_labels(pixels, [n % 3 for n in range(30)])
    config = NetworkConfig(covariance="none", filters=(4, 4, 4), embedding_dim=4, channels=3)
    network = GaussianPrototypicalNetwork(config).eval()
    conditions = [Condition(wrong=1), Condition(corruption="clutter", severity=2, corrupted=3)]
    for accuracies in noise_accuracies(network, images, conditions, way=3, shot=SHOT, rounds=2):
        assert accuracies.keys() == {"plain mean", "median", "agreement", "sharing"}
        assert all(np.isfinite(accuracy).all() for accuracy in accuracies.values())


def test_fewer_images_are_of_every_class(images):
    some = uneven(images, [20, 3, 9])
    fewer = fewer_images(some, 8)
    assert fewer.counts.tolist() == [8, 3, 8]
    assert torch.equal(fewer.images[8:11], some.images[20:23])
    assert fewer.fingerprint() == fewer_images(some, 8).fingerprint() != fewer_images(some, 8, seed=1).fingerprint()
    assert fewer_images(fewer, 8) is fewer


@pytest.mark.parametrize(
    ("condition", "settings", "message"),
    [
        (Condition(wrong=3, source="pair"), {}, "leaves the right class no majority of 5 supports"),
        (Condition(wrong=4), {}, "leaves the right class no plurality of 5 supports"),
        (Condition(wrong=2, corrupted=4, corruption="blur", severity=1), {}, "needs 6 supports"),
        (Condition(wrong=1, source="outlier"), {"way": 12}, r"1 other classes outside the episode \(found 0\)"),
        (Condition(wrong=3), {"way": 3}, r"3 other classes in the episode \(found 2\)"),
        (Condition(), {"way": 13}, "way must be from 2 to 12"),
        (Condition(wrong=1), {"shot": 19}, "every class needs at least 21 images"),
    ],
)
def test_mistakes(images, weights, condition, settings, message):
    with pytest.raises(InputError, match=message):
        noise_accuracies(load_network(weights), images, [condition], **{"way": WAY, "shot": SHOT} | settings)
