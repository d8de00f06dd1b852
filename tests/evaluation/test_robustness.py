"""Damage: the study agrees with the protocol, and sees what is there."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import evaluate
from gaussproto.evaluation.robustness import damage_study, share_higher
from gaussproto.model.network import GaussianPrototypicalNetwork


@pytest.fixture(scope="module")
def few(characters):
    return characters.select(range(24))


def network(**settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return GaussianPrototypicalNetwork(NetworkConfig(embedding_dim=8, filters=(6, 6, 6), **settings)).eval()


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
def test_without_damage_it_is_the_protocol(few, covariance):
    net = network(covariance=covariance, precision_relu=False)
    study = damage_study(net, few, way=6, shot=3, rounds=40)
    score = evaluate(net, few, ways=[6], shots=[3], rounds=40).scores[0]
    assert len(study.accuracy) == 4
    assert abs(study.accuracy[0] - score.accuracy) < 1e-6  # the same groups from the same seed
    assert (study.precision_clean is None) == (covariance == "none")


@pytest.mark.parametrize(
    ("asked", "words"), [({"way": 25}, "ways must be from 2 to 24"), ({"shot": 20}, "shots must be from 1 to 19")]
)
def test_what_the_classes_cannot_give_is_refused(few, asked, words):
    with pytest.raises(InputError, match=words):
        damage_study(network(), few, **asked)


class Sharpness(nn.Module):
    """A backbone whose first outputs are the image in small and whose last tells a sharp image from a blurred one."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))  # a network is where its parameters are

    def forward(self, images):
        small = nn.functional.adaptive_avg_pool2d(images, 7).flatten(1)
        return torch.cat([small, 40 * images.var(dim=(1, 2, 3))[:, None]], dim=1)


def test_a_precision_that_sees_damage_is_seen(few):
    config = NetworkConfig(embedding_dim=49, transform="exp", precision_relu=False, weighting="prototype")
    net = GaussianPrototypicalNetwork(config)
    net.encoder = Sharpness()
    study = damage_study(net, few, way=6, shot=5, size=5, rounds=5)
    assert study.clean_is_higher > 0.99
    assert study.precision_clean > study.precision_damaged


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
@settings(deadline=None)
def test_share_higher_counts_pairs(some, others):
    pairs = [(a > b) + 0.5 * (a == b) for a in some for b in others]
    assert share_higher(np.array(some, float), np.array(others, float)) == pytest.approx(sum(pairs) / len(pairs))
