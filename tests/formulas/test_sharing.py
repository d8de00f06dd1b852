"""Sharing: a support counts in each class by the probability that it belongs to it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.formulas.agreement import LEAST
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.trust import support_trust
from tests.formulas.test_trust import KINDS, points, precisions


def swapped(x, wrong):
    """Exchange the first supports of every class with other classes, as in a cycle."""
    mixed = x.copy()
    for k in range(wrong):
        mixed[..., k, :] = np.roll(x[..., k, :], -k - 1, axis=-2)
    return mixed


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_lists_and_batches_agree(kind):
    x, s = points(0, 3, 6, 4, 5, spread=2.0), precisions(0, kind, 3, 6, 4, 5)
    batch = support_trust("sharing", x, s)
    assert batch.shape == (3, 6, 4, 6)
    p, s_class = class_prototypes(x, s, trust=batch)
    tensors = [None if t is None else torch.tensor(t) for t in (x, s)]
    share = support_trust("sharing", *tensors)
    np.testing.assert_allclose(share.numpy(), batch, rtol=1e-8)
    np.testing.assert_allclose(class_prototypes(*tensors, trust=share)[0].numpy(), p, rtol=1e-8)
    order = np.random.default_rng(1).permutation(24)
    labels = np.repeat(np.arange(6), 4)[order]
    for one in range(3):
        flat, weights = (None if t is None else t[one].reshape(24, *t.shape[3:])[order] for t in (x, s))
        listed = support_trust("sharing", flat, weights, labels)
        np.testing.assert_allclose(listed, batch[one].reshape(24, 6)[order], rtol=1e-8, atol=1e-12)
        p_listed, s_listed = class_prototypes(flat, weights, labels, trust=listed)
        np.testing.assert_allclose(p_listed, p[one], rtol=1e-7)
        if s is not None:
            np.testing.assert_allclose(s_listed, s_class[one], rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prototype_is_the_mean_of_all_supports_with_their_shares(kind):
    x, s = points(2, 4, 5, 3, spread=3.0), precisions(2, kind, 4, 5, 3)
    share = np.random.default_rng(3).uniform(size=(4, 5, 4))
    p, _ = class_prototypes(x, s, trust=share)
    for c in range(4):
        everything = x.reshape(1, 20, 3), None if s is None else s.reshape(1, 20, *s.shape[2:])
        one, _ = class_prototypes(*everything, trust=share[..., c].reshape(1, 20))
        np.testing.assert_allclose(p[c], one[0])


def test_shares_of_only_the_own_class_are_the_trust():
    x, s = points(4, 4, 5, 3), precisions(4, "radius", 4, 5, 3)
    trust = np.random.default_rng(4).uniform(0.1, 1, (4, 5))
    share = trust[..., None] * np.eye(4)[:, None]
    for several, one in zip(class_prototypes(x, s, trust=share), class_prototypes(x, s, trust=trust), strict=True):
        np.testing.assert_allclose(several, one)


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3))
@settings(max_examples=15, deadline=None)
def test_turning_shifting_and_scaling_change_nothing(seed, scale):
    x, s = points(seed, 4, 5, 3, spread=1.0), precisions(seed, "radius", 4, 5, 3)
    share = support_trust("sharing", x, s)
    assert (share >= 0).all()
    assert (share.sum(-1) <= 1 + LEAST).all()
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    moved = scale * (x @ turn + np.array([1.0, -2.0, 3.0]))
    np.testing.assert_allclose(support_trust("sharing", moved, s), share, atol=1e-6)
    np.testing.assert_allclose(support_trust("sharing", x, 7 * s), share, atol=1e-6)


@pytest.mark.parametrize("K", [1, 2])
def test_one_and_two_supports_belong_to_their_class(K):
    x, s = points(1, 5, K, 3), precisions(1, "radius", 5, K, 3)
    share = support_trust("sharing", x, s)
    np.testing.assert_array_equal(share, np.eye(5)[:, None].repeat(K, 1))
    np.testing.assert_allclose(class_prototypes(x, s, trust=share)[0], class_prototypes(x, s)[0])
    assert (support_trust("sharing", x[:1]) == 1).all()


def test_small_classes_among_large_ones_keep_their_supports():
    labels = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])
    x = np.random.default_rng(2).normal(size=(10, 4)) + 3 * labels[:, None]
    share = support_trust("sharing", x, labels=labels)
    np.testing.assert_array_equal(share[:3], np.eye(4)[labels[:3]])
    assert np.isfinite(share).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distance", ["euclidean", "squared_euclidean", "cosine"])
def test_supports_with_wrong_labels_count_in_their_true_class(kind, distance):
    C, K = 12, 5
    x, s = points(3, C, K, 16), precisions(3, kind, C, K, 16)
    mixed = swapped(x, 2)
    share = support_trust("sharing", mixed, s, distance=distance)
    for k in range(2):
        true = (np.arange(C) + k + 1) % C
        assert share[np.arange(C), k, true].min() > 0.95
        assert share[np.arange(C), k, np.arange(C)].max() < 0.05
    assert share[:, 2:][np.arange(C), :, np.arange(C)].min() > 0.95
    p = class_prototypes(mixed, s, trust=share)[0]
    assert np.linalg.norm(p - class_prototypes(x)[0], axis=1).max() < 1.0


def test_supports_of_no_class_count_little():
    x = points(5, 12, 5, 16)
    x[:, 0] = 12 * np.random.default_rng(6).normal(size=(12, 16))
    share = support_trust("sharing", x)
    assert share[:, 0].max() < 0.05
    assert share[:, 1:].max(-1).min() > 0.95


@pytest.mark.parametrize("far", [10, 30, 100, 1000])
def test_a_support_that_is_far_from_everything_moves_no_class_far(far):
    x = points(9, 6, 5, 16, spread=1.0)
    good = class_prototypes(x, trust=support_trust("sharing", x))[0]
    x[3, 0] = far * np.random.default_rng(10).normal(size=16)
    p = class_prototypes(x, trust=support_trust("sharing", x))[0]
    assert np.linalg.norm(p - good, axis=1).max() < 2


def test_where_classes_overlap_it_is_nearer_to_the_truth_than_other_rules():
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(400, 5, 1, 20))
    good = centres + rng.normal(size=(400, 5, 5, 20)) * 1.2
    away = {}
    for wrong in (0, 2):
        x = swapped(good, wrong)
        for rule in ("mean", "median", "agreement", "sharing"):
            p = class_prototypes(x, trust=support_trust(rule, x))[0]
            away[rule, wrong] = np.linalg.norm(p - centres[:, :, 0], axis=-1).mean()
    assert away["sharing", 2] < 0.95 * min(away[rule, 2] for rule in ("mean", "median", "agreement"))
    assert away["sharing", 0] < 1.02 * away["mean", 0]


def test_equal_supports_and_gradients():
    x = np.ones((3, 4, 2)) * np.arange(3)[:, None, None]
    np.testing.assert_allclose(class_prototypes(x, trust=support_trust("sharing", x))[0], x[:, 0], atol=1e-6)
    inputs = [torch.tensor(points(8, 4, 5, 3, spread=2.0), requires_grad=True), torch.ones(4, 5, 1).double()]
    inputs[1].requires_grad_()
    class_prototypes(*inputs, trust=support_trust("sharing", *inputs))[0].square().sum().backward()
    assert all(torch.isfinite(t.grad).all() and bool(t.grad.any()) for t in inputs)
