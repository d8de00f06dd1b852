"""Every formula gives the same for NumPy arrays, as the classifier uses it, and for tensors, as the network does."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.formulas.confidence import probabilities
from gaussproto.formulas.distance import distances
from gaussproto.formulas.prototype import class_prototypes, support_shares

DISTANCES = ["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"]


def precisions(rng, covariance, N, D):
    if covariance == "none":
        return None
    if covariance == "full":
        L = rng.normal(size=(N, D, D))
        return L @ L.transpose(0, 2, 1) + 0.1 * np.eye(D)
    return rng.gamma(2.0, size=(N, 1 if covariance == "radius" else D)) + 0.01


def tensor(array):
    return None if array is None else torch.from_numpy(array)


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    D=st.integers(1, 6),
    covariance=st.sampled_from(["none", "radius", "diagonal", "full"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=100)
def test_the_same_as_the_networks_own(counts, D, covariance, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    x, queries = 3 + rng.normal(size=(len(labels), D)), 3 + 2 * rng.normal(size=(4, D))
    s = precisions(rng, covariance, len(labels), D)

    p, s_class = class_prototypes(x, s, labels, len(counts))
    p_torch, s_torch = class_prototypes(tensor(x), tensor(s), tensor(labels), len(counts))
    np.testing.assert_allclose(p, p_torch, rtol=1e-10, atol=1e-10)
    assert (s_class is None) == (s_torch is None)
    if s_class is not None:
        np.testing.assert_allclose(s_class, s_torch, rtol=1e-10, atol=1e-10)
    shares = support_shares(s, s_class, labels)
    for i, c in enumerate(labels):  # the mean over the directions of how much of the class's precision is its own
        own = np.eye(D) if s is None else s[i] if s.ndim == 3 else np.diag(np.broadcast_to(s[i], D))
        all_of_it = (
            counts[c] * np.eye(D) if s is None else s_class[c] if s.ndim == 3 else np.diag(s_class[c] * np.ones(D))
        )
        assert shares[i] == pytest.approx(np.trace(np.linalg.inv(all_of_it) @ own) / D, rel=1e-8)
    for metric in (None, s_class):
        for name in DISTANCES:
            d = distances(queries, p, metric, name)
            d_torch = distances(tensor(queries), tensor(p), tensor(metric), name)
            np.testing.assert_allclose(d, d_torch, rtol=1e-10, atol=1e-10, err_msg=name)
            np.testing.assert_allclose(probabilities(d), torch.softmax(-tensor(d), dim=1), rtol=1e-10)


@pytest.mark.parametrize("name", DISTANCES[:3])
def test_a_query_at_its_prototype_is_nearest_to_it(name):
    rng = np.random.default_rng(0)
    p = 1e6 + rng.normal(size=(5, 8))  # far from the origin, where rounding is largest
    d = distances(p, p, None, name)
    assert d.argmin(axis=1).tolist() == [0, 1, 2, 3, 4]
    assert np.isfinite(d).all()
    assert (np.diag(d) >= 0).all()


def test_probabilities_of_large_distances():
    np.testing.assert_array_equal(probabilities(np.array([[1e300, 0.0], [5e8, 5e8]])), [[0, 1], [0.5, 0.5]])
