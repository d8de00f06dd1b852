"""What figures show is what the network says."""

import numpy as np
import pytest
import torch

from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.evaluation.confusions import confusions
from gaussproto.evaluation.robustness import Precisions, damage_sizes, each_precision, measure_precisions
from gaussproto.evaluation.views import principal_plane, view_episode
from gaussproto.figures.histogram import mode
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from tests.conftest import uneven


def network(covariance="radius", weighting="prototype_and_distance"):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = NetworkConfig(filters=(6, 6, 6), embedding_dim=6, covariance=covariance, weighting=weighting)
        return GaussianPrototypicalNetwork(
            config.model_copy(update={"precision_relu": False, "transform": "exp"})
        ).eval()


def test_the_plane_of_points_in_a_plane_keeps_distances():
    random = np.random.default_rng(0)
    flat = random.normal(size=(30, 2)) * [3, 1]
    x = flat @ np.linalg.qr(random.normal(size=(7, 7)))[0][:2] + 5
    plane = principal_plane(x)
    seen = plane.project(x)
    assert np.allclose(
        np.linalg.norm(seen[:, None] - seen, axis=-1), np.linalg.norm(x[:, None] - x, axis=-1), atol=1e-9
    )
    assert sum(plane.share) == pytest.approx(1)
    assert plane.share[0] > plane.share[1]
    assert np.allclose(plane.axes.T @ plane.axes, np.eye(2))
    assert np.allclose(principal_plane(x[::-1]).axes, plane.axes)  # the sign does not depend on the order


def test_the_covariance_in_the_plane():
    random = np.random.default_rng(1)
    plane = principal_plane(random.normal(size=(20, 5)))
    assert np.allclose(plane.covariance(np.array([4.0])), np.eye(2) / 4)
    s = random.uniform(1, 3, 5)
    expected = plane.axes.T @ np.diag(1 / s) @ plane.axes
    assert np.allclose(plane.covariance(s), expected)
    assert np.allclose(plane.covariance(np.diag(s)), expected)


@pytest.mark.parametrize("points", [1, 2])
def test_a_plane_of_few_points(points):
    plane = principal_plane(np.ones((points, 4)) * np.arange(points)[:, None])
    assert np.isfinite(plane.project(np.ones((3, 4)))).all()


@pytest.mark.parametrize("weighting", ["prototype", "prototype_and_distance"])
@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
def test_the_episode_is_the_networks_own(characters, covariance, weighting):
    net = network(covariance, weighting)
    view = view_episode(net, characters, way=5, shot=3, query=2)
    images = torch.from_numpy(np.concatenate([view.support, view.query], axis=1))
    with torch.no_grad():
        d = net(net.embed(images.flatten(0, 1)).map(lambda t: t.unflatten(0, images.shape[:2])), shot=3)
    assert np.allclose(view.d.reshape(10, 5), d.numpy(), rtol=1e-3, atol=1e-4)
    assert np.allclose(view.probabilities.sum(axis=-1), 1)
    assert (view.probabilities.argmax(axis=-1) == view.d.argmin(axis=-1)).all()
    margins = np.sort(view.d, axis=-1)[..., 1] - view.d.min(axis=-1)
    assert margins[view.hardest] == margins.min()


def test_an_episode_fits_what_is_there(characters):
    view = view_episode(network(), uneven(characters, [1, 2, 3]), way=10, shot=5, query=15)
    assert (view.support.shape[:2], view.query.shape[:2]) == ((2, 1), (2, 1))
    with pytest.raises(InputError, match="two classes of two images"):
        view_episode(network(), uneven(characters, [1, 5]), way=10, shot=5, query=15)


def test_precisions_clean_and_damaged(characters):
    images = characters.images[:200]
    found = measure_precisions(network(), images)
    _, s = embed_all(network(), images)
    assert np.allclose(found.clean, each_precision(s))
    assert np.array_equal(
        measure_precisions(network(), images, clean=found.clean).partly, found.partly
    )  # what is known is not measured again
    assert 0 < len(found.damaged) < len(found.clean)
    changed = found.partly[found.partly != found.clean]
    assert np.isin(changed, found.damaged).all()
    assert measure_precisions(network("none"), images) is None
    assert damage_sizes(28) == (16, 12, 8)


def test_which_way_damage_goes_is_said():
    low, high = np.linspace(1, 2, 50), np.linspace(3, 4, 50)
    down = Precisions(high, high, low, (7,))
    assert down.clean_is_higher == 1
    assert "lowers" in down.sentence()
    up = Precisions(low, low, high, (7,))
    assert up.clean_is_higher == 0
    assert "raises" in up.sentence()
    same = Precisions(low, low, low, (7,))
    assert same.clean_is_higher == pytest.approx(0.5)
    assert "dead" in Precisions(np.ones(9), np.ones(9), np.ones(9), (7,)).sentence()


def test_the_mode_is_where_a_sample_is_densest():
    random = np.random.default_rng(0)
    sample = np.concatenate([random.normal(3, 0.05, 700), random.uniform(-5, 5, 300)])
    assert mode(sample) == pytest.approx(3, abs=0.1)
    assert mode(sample + 2) == pytest.approx(mode(sample) + 2)


def test_confusions_count_every_query_once(characters):
    images = characters.sample_of_classes(20)
    assert images.way == 20
    net = network()
    found = confusions(net, images, embed_all(net, images.images), pairs=1000)
    wrong = sum(sum(pair.mistaken) for pair in found.pairs)
    assert found.accuracy == pytest.approx(1 - wrong / (20 * 15))
    totals = [sum(pair.mistaken) for pair in found.pairs]
    assert totals == sorted(totals, reverse=True)
    for pair in found.pairs:
        for side in (0, 1):
            assert len(pair.examples[side]) == pair.mistaken[side] <= pair.asked[side]
            assert all(images.labels[i] == pair.classes[side] for i in pair.examples[side])
