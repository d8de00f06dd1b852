"""The exact search finds what a plain computation of all distances finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.formulas.distance import Distance
from gaussproto.formulas.nearest import ExactSearch, Rows

DISTANCES = ("euclidean", "squared_euclidean", "sqrt_euclidean", "cosine")


class Manhattan(Distance):
    def value(self, x, p, s):
        return abs(x[..., :, None, :] - p[..., None, :, :]).sum(-1)


def classes(C=400, D=6, covariance="radius", seed=0):
    rng = np.random.default_rng(seed)
    p = rng.normal(size=(C, D)) + 3
    a = rng.normal(size=(C, D, D))
    s = {
        "none": None,
        "radius": rng.gamma(2, size=(C, 1)),
        "diagonal": rng.gamma(2, size=(C, D)),
        "full": a @ a.swapaxes(1, 2) + np.eye(D),
    }[covariance]
    return p, s, rng.normal(size=(50, D)) + 3


def oracle(x, p, s, distance):
    """All distances, each from its difference."""
    if distance == "cosine":
        S = np.eye(p.shape[1])[None] if s is None else s if s.ndim == 3 else s[:, None] * np.eye(p.shape[1])
        xx, pp = np.einsum("nd,cde,ne->nc", x, S, x), np.einsum("cd,cde,ce->c", p, S + 0 * p[:, None, :1], p)
        return 1 - np.einsum("nd,cde,ce->nc", x, S + 0 * p[:, None, :1], p) / np.sqrt(xx * pp)
    difference = x[:, None] - p
    if s is not None and s.ndim == 3:
        squared = np.einsum("ncd,cde,nce->nc", difference, s, difference)
    else:
        squared = ((1 if s is None else s) * difference**2).sum(axis=-1)
    return squared ** {"squared_euclidean": 1.0, "euclidean": 0.5, "sqrt_euclidean": 0.25}[distance]


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
@pytest.mark.parametrize("distance", DISTANCES)
def test_the_nearest_are_those_of_all_distances(distance, covariance):
    p, s, x = classes(covariance=covariance)
    d = oracle(x, p, s, distance)
    for k in (1, 7):
        found = ExactSearch(distance, p, s)(x, k)
        np.testing.assert_array_equal(found.classes, d.argsort(axis=1, kind="stable")[:, :k])
        np.testing.assert_allclose(found.distances, np.sort(d, axis=1)[:, :k], rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from(["none", "radius", "diagonal"]))
@settings(max_examples=25, deadline=None)
def test_of_equally_near_classes_the_first_comes_first(seed, k, covariance):
    rng = np.random.default_rng(seed)
    p = rng.integers(-1, 2, size=(60, 2)).astype(float)  # each place has several classes
    s = {"none": None, "radius": np.ones((60, 1)), "diagonal": np.ones((60, 2))}[covariance]
    x = p[:9]
    expected = ((x[:, None] - p) ** 2).sum(axis=-1).argsort(axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(ExactSearch("squared_euclidean", p, s)(x, k).classes, expected)


@pytest.mark.parametrize(("shift", "spread"), [(1e6, 1.0), (0.0, 1e-8), (1e3, 1e-6)])
def test_nearly_equal_distances_and_far_classes_do_not_round(shift, spread):
    """Products in float32 cannot tell these classes apart: exact distances must."""
    rng = np.random.default_rng(0)
    p = rng.normal(size=(300, 4)) * spread + shift
    p[:3] *= 1e4  # classes so far away that the others are one point beside them
    x = p[10:20] + spread * 1e-3
    expected = ((x[:, None] - p) ** 2).sum(axis=-1).argmin(axis=1)
    np.testing.assert_array_equal(ExactSearch("euclidean", p)(x, 1).classes[:, 0], expected)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e150])
def test_any_unit_of_length_gives_the_same_classes(scale):
    p, s, x = classes()
    expected = ExactSearch("euclidean", p, s)(x, 3).classes
    np.testing.assert_array_equal(ExactSearch("euclidean", scale * p, s)(scale * x, 3).classes, expected)


def test_a_distance_of_a_user_is_compared_with_all_classes():
    from gaussproto.formulas import distance

    p, _, x = classes(C=100)
    distance.DISTANCES["manhattan"] = Manhattan()
    try:
        found = ExactSearch("manhattan", p)(x, 4)
    finally:
        del distance.DISTANCES["manhattan"]
    d = np.abs(x[:, None] - p).sum(axis=-1)
    np.testing.assert_array_equal(found.classes, d.argsort(axis=1)[:, :4])
    np.testing.assert_allclose(found.distances, np.sort(d, axis=1)[:, :4])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 39)), max_size=30), st.sampled_from(["none", "radius"]))
@settings(max_examples=20, deadline=None)
def test_adding_and_removing_leaves_the_classes_that_are_there(steps, covariance):
    p, s, x = classes(C=40, covariance=covariance)
    search, there = ExactSearch("euclidean", p[:5], None if s is None else s[:5]), dict(enumerate(range(5)))
    for add, c in steps:
        if add:
            there[len(search.p)] = c
            search.add(p[c : c + 1], None if s is None else s[c : c + 1])
        elif c in there:
            search.remove(c)
            del there[c]
    found = search(x, 3)
    slots = sorted(there)
    there_s = None if s is None else s[[there[i] for i in slots]]
    d = oracle(x, p[[there[i] for i in slots]], there_s, "euclidean") if slots else np.empty((50, 0))
    k = min(3, len(slots))
    np.testing.assert_allclose(found.distances[:, :k], np.sort(d, axis=1)[:, :k], atol=1e-12)
    assert (found.classes[:, k:] == -1).all()
    assert set(found.classes[:, :k].ravel().tolist()) <= set(slots)


def test_rows_grow_without_changing():
    rows = Rows(np.arange(3))
    before = rows.array
    for i in range(3, 100):
        rows.add(np.array([i]))
    np.testing.assert_array_equal(rows.array, np.arange(100))
    np.testing.assert_array_equal(before, np.arange(3))


def test_the_search_takes_little_more_memory_than_the_prototypes():
    import tracemalloc

    rng = np.random.default_rng(0)
    p, s = rng.normal(size=(100_000, 64)).astype(np.float32), np.ones((100_000, 1), dtype=np.float32)
    tracemalloc.start()
    ExactSearch("euclidean", p, s)(p[:64], 1)
    assert tracemalloc.get_traced_memory()[1] < 1.2 * (p.nbytes + s.nbytes)
    tracemalloc.stop()
