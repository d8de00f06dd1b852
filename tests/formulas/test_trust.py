"""Trust in supports: the geometric median and the agreement of labels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gaussproto.errors import InputError
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.trust import LEAST, support_trust

RULES = ("median", "agreement")
KINDS = ("none", "radius", "diagonal", "full")


def points(seed, *shape, spread=0.3):
    """Supports of well separated classes, (..., C, K, D)."""
    rng = np.random.default_rng(seed)
    *lead, C, _, D = shape
    return 4 * rng.normal(size=(*lead, C, 1, D)) + spread * rng.normal(size=shape)


def precisions(seed, kind, *shape):
    rng = np.random.default_rng(seed + 1)
    if kind == "none":
        return None
    if kind == "full":
        root = np.eye(shape[-1]) + 0.2 * rng.normal(size=(*shape, shape[-1]))
        return root @ root.swapaxes(-1, -2)
    return rng.uniform(0.5, 2, (*shape[:-1], 1 if kind == "radius" else shape[-1]))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_lists_and_batches_agree(rule, kind):
    x, s = points(0, 3, 6, 4, 5), precisions(0, kind, 3, 6, 4, 5)
    batch = support_trust(rule, x, s)
    assert batch.shape == (3, 6, 4)
    assert (batch > 0).all()
    assert (batch <= 1).all()
    tensors = support_trust(rule, torch.tensor(x), None if s is None else torch.tensor(s))
    close = {"rtol": 1e-2, "atol": 1e-4} if rule == "median" else {"rtol": 1e-8}  # it stops when all classes are still
    np.testing.assert_allclose(tensors.numpy(), batch, **close)
    for one in range(3):
        alone = support_trust(rule, x[one], None if s is None else s[one])
        np.testing.assert_allclose(alone, batch[one], **close)
        order = np.random.default_rng(one).permutation(24)
        flat = x[one].reshape(24, 5)[order]
        weights = None if s is None else s[one].reshape(24, *s.shape[3:])[order]
        listed = support_trust(rule, flat, weights, np.repeat(np.arange(6), 4)[order])
        np.testing.assert_allclose(listed, batch[one].reshape(24)[order], **close)


@pytest.mark.parametrize("rule", ["mean", *RULES])
@pytest.mark.parametrize("K", [1, 2])
def test_one_and_two_supports_give_the_mean(rule, K):
    x, s = points(1, 5, K, 3), precisions(1, "radius", 5, K, 3)
    trust = support_trust(rule, x, s)
    assert (trust == 1).all()
    np.testing.assert_array_equal(class_prototypes(x, s, trust=trust)[0], class_prototypes(x, s)[0])


@pytest.mark.parametrize("rule", RULES)
def test_small_classes_among_large_ones_keep_their_mean(rule):
    labels = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])
    x = np.random.default_rng(2).normal(size=(10, 4)) + 3 * labels[:, None]
    trust = support_trust(rule, x, labels=labels)
    assert (trust[:3] == 1).all()
    assert np.isfinite(trust).all()


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_median_minimises_the_sum_of_distances(kind, seed):
    x, s = points(seed, 1, 5, 3, spread=1.0), precisions(seed, kind, 1, 5, 3)
    p = class_prototypes(x, s, trust=support_trust("median", x, s))[0][0]
    S = np.eye(3)[None].repeat(5, 0) if s is None else s[0] if kind == "full" else s[0][..., None] * np.eye(3)

    def cost(q):
        away = x[0] - q
        return np.sqrt(np.einsum("kd,kde,ke->k", away, S, away)).sum()

    best = minimize(cost, x[0].mean(0), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000})
    assert cost(p) <= best.fun * (1 + 2e-4)


@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3))
@settings(max_examples=15, deadline=None)
def test_turning_shifting_and_scaling_change_nothing(rule, seed, scale):
    x, s = points(seed, 4, 5, 3, spread=1.0), precisions(seed, "radius", 4, 5, 3)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    moved = scale * (x @ turn + np.array([1.0, -2.0, 3.0]))
    np.testing.assert_allclose(support_trust(rule, moved, s), support_trust(rule, x, s), atol=1e-3)
    np.testing.assert_allclose(support_trust(rule, x, 7 * s), support_trust(rule, x, s), atol=1e-3)


@given(seed=st.integers(0, 10_000), K=st.integers(3, 9), far=st.floats(10, 1e6))
@settings(max_examples=25, deadline=None)
def test_a_minority_of_outliers_moves_the_median_only_a_little(seed, K, far):
    rng = np.random.default_rng(seed)
    wrong = (K - 1) // 2
    x = rng.normal(size=(1, K, 4))
    good = x[0, wrong:].copy()
    direction = rng.normal(size=4)
    x[0, :wrong] = far * direction / np.linalg.norm(direction) + rng.normal(size=(wrong, 4))
    p = class_prototypes(x, trust=support_trust("median", x))[0][0]
    # The geometric median stays within 2 (K - k) / (K - 2 k) radii of the good supports (Lopuhaä and Rousseeuw, 1991).
    radius = np.linalg.norm(good - good.mean(0), axis=1).max()
    assert np.linalg.norm(p - good.mean(0)) <= 2 * (K - wrong) / (K - 2 * wrong) * radius * 1.01


@pytest.mark.parametrize("kind", KINDS)
def test_agreement_finds_supports_of_other_classes(kind):
    """Two of five supports of every class come from other classes: they are not trusted, the others are."""
    C, K = 12, 5
    x = points(3, C, K, 16)
    clean = class_prototypes(x)[0]
    rng = np.random.default_rng(4)
    wrong = np.zeros((C, K), dtype=bool)
    wrong[:, :2] = True
    mixed = x.copy()
    for c in range(C):
        for k in range(2):
            mixed[c, k] = x[(c + rng.integers(1, C)) % C, 2 + k]
    s = precisions(3, kind, C, K, 16)
    trust = support_trust("agreement", mixed, s)
    assert trust[wrong].max() < 0.05
    assert trust[~wrong].min() > 0.9
    p = class_prototypes(mixed, s, trust=trust)[0]
    assert np.linalg.norm(p - clean, axis=1).max() < 1.0
    assert np.linalg.norm(class_prototypes(mixed, s)[0] - clean, axis=1).min() > 1.0


def test_agreement_finds_supports_of_no_class():
    x = points(5, 12, 5, 16)
    x[:, 0] = 4 * np.random.default_rng(6).normal(size=(12, 16))
    trust = support_trust("agreement", x)
    assert trust[:, 0].max() < 0.05
    assert trust[:, 1:].min() > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_agreement_trusts_clean_classes(kind):
    x, s = points(7, 20, 5, 16), precisions(7, kind, 20, 5, 16)
    trust = support_trust("agreement", x, s)
    assert trust.min() > 0.99
    np.testing.assert_allclose(class_prototypes(x, s, trust=trust)[0], class_prototypes(x, s)[0], atol=0.01)


def test_a_class_of_nothing_but_strangers_has_a_mean():
    x = points(8, 6, 4, 8)
    x[0] = [x[c, 0] for c in (1, 2, 3, 4)]
    trust = support_trust("agreement", x)
    assert (trust[0] >= LEAST).all()
    assert np.isfinite(class_prototypes(x, trust=trust)[0]).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("kind", "in_distance"), [("none", False), ("radius", False), ("diagonal", True)])
def test_gradients_are_right(rule, kind, in_distance, monkeypatch):
    monkeypatch.setattr("gaussproto.formulas.trust.MEDIAN_STEPS", 12)
    x, s = points(9, 3, 3, 2, spread=1.0), precisions(9, kind, 3, 3, 2)

    def prototype(x, *s):
        trust = support_trust(rule, x, *s, in_distance=in_distance)
        return class_prototypes(x, *s, trust=trust)[0]

    inputs = [torch.tensor(t, requires_grad=True) for t in (x, s) if t is not None]
    out = prototype(*inputs)
    out.square().sum().backward()
    assert all(torch.isfinite(t.grad).all() and bool(t.grad.any()) for t in inputs)
    # The typical distance is a constant in the gradient, so compare where it does not act.
    if rule == "median":
        assert torch.autograd.gradcheck(prototype, inputs, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("distance", ["euclidean", "squared_euclidean", "cosine"])
def test_agreement_uses_the_distance(distance):
    x = points(10, 8, 5, 12)
    x[0, 0] = x[1, 1]
    trust = support_trust("agreement", x, distance=distance)
    assert trust[0, 0] < 0.05 < 0.5 < trust[0, 1:].min()


def test_many_classes_are_compared_with_some(monkeypatch):
    """The order of classes decides which are compared, but a support of no class near is found in any case."""
    x = points(11, 60, 4, 16)
    x[3, 0] = points(12, 1, 1, 16)[0, 0]
    labels = np.repeat(np.arange(60), 4)
    flat = x.reshape(240, 16)
    everything = support_trust("agreement", flat, labels=labels)
    monkeypatch.setattr("gaussproto.formulas.agreement.MOST_CLASSES", 10)
    monkeypatch.setattr("gaussproto.formulas.agreement.PAIRS", 70)
    some = support_trust("agreement", flat, labels=labels)
    assert max(everything[12], some[12]) < 0.05
    assert np.delete(some, 12).min() > 0.9


def test_equal_supports_and_wrong_names():
    x = np.ones((3, 4, 2)) * np.arange(3)[:, None, None]
    for rule in RULES:
        p = class_prototypes(x, trust=support_trust(rule, x))[0]
        np.testing.assert_allclose(p, x[:, 0])
    with pytest.raises(
        InputError, match="unknown prototype rule 'mode': choose one of mean, median, agreement, sharing"
    ):
        support_trust("mode", x)
