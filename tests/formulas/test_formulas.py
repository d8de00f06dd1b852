"""Every formula of the paper against plain NumPy, for random shapes, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid

from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.formulas.covariance import find_covariance, find_transform
from gaussproto.formulas.distance import distances, find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.model.network import GaussianPrototypicalNetwork, LearnedTransform, Precision
from gaussproto.training.step import episode_loss
from tests.formulas import oracle

COVARIANCES = ["radius", "diagonal", "full"]
DISTANCES = ["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"]
sizes = st.fixed_dictionaries(
    {"C": st.integers(1, 6), "K": st.integers(1, 5), "D": st.integers(1, 7), "N": st.integers(1, 8)}
)
seeds = st.integers(0, 2**32 - 1)
several = settings(max_examples=60, deadline=None)


def points(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def precisions(seed, covariance, *shape):
    """Random precisions of the covariance's shape, as the network makes them."""
    *many, D = shape
    raw = points(seed + 1, int(np.prod(many)), find_covariance(covariance).raw_size(D))
    return precision(covariance, D)(raw).unflatten(0, many)


def precision(covariance, D):
    return Precision(find_covariance(covariance), D, find_transform("softplus"))


@pytest.mark.parametrize("name", oracle.TRANSFORMS)
@given(raw=st.lists(st.floats(-12, 12), min_size=1, max_size=9))
@several
def test_transform(name, raw):
    raw = np.array(raw)
    s = LearnedTransform(find_transform(name)).double()(torch.from_numpy(raw))
    np.testing.assert_allclose(s.detach(), oracle.TRANSFORMS[name](raw), rtol=1e-12)


@given(raw=st.floats(-9, 9), offset=st.floats(0.1, 3), scale=st.floats(0.1, 3), div=st.floats(0.3, 3))
@several
def test_learned_softplus_with_other_scalars(raw, offset, scale, div):
    transform = LearnedTransform(find_transform("learned_softplus")).double()
    with torch.no_grad():
        for parameter, value in zip(transform.parameters(), (offset, scale, div), strict=True):
            parameter.fill_(value)
    expected = oracle.TRANSFORMS["learned_softplus"](raw, offset, scale, div)
    assert transform(torch.tensor(raw, dtype=torch.float64)).item() == pytest.approx(expected)


@pytest.mark.parametrize("covariance", COVARIANCES)
@given(n=sizes, seed=seeds)
@several
def test_prototype(covariance, n, seed):
    x, s = points(seed, n["C"], n["K"], n["D"]), precisions(seed, covariance, n["C"], n["K"], n["D"])
    p, s_class = class_prototypes(x, s)
    for c in range(n["C"]):
        expected_p, expected_s = oracle.prototype(x[c].numpy(), s[c].numpy())
        np.testing.assert_allclose(p[c], expected_p, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(oracle.matrix(s_class[c].numpy(), n["D"]), expected_s, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
@pytest.mark.parametrize("distance", DISTANCES)
@given(n=sizes, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_distance(covariance, distance, n, seed):
    x, p = points(seed, n["N"], n["D"]), points(seed + 2, n["C"], n["D"])
    s_class = None if covariance == "none" else precisions(seed, covariance, n["C"], n["D"])
    d = distances(x, p, s_class, distance)
    assert d.shape == (n["N"], n["C"])
    for i in range(n["N"]):
        for c in range(n["C"]):
            S = np.eye(n["D"]) if s_class is None else oracle.matrix(s_class[c].numpy(), n["D"])
            expected = oracle.distance(x[i].numpy(), p[c].numpy(), S, distance)
            assert d[i, c].item() == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
@pytest.mark.parametrize("distance", DISTANCES)
@given(n=sizes, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_order_puts_the_classes_in_the_order_of_their_distances(covariance, distance, n, seed):
    x, p = points(seed, 2, n["N"], n["D"]), points(seed + 2, 2, n["C"], n["D"])
    s_class = None if covariance == "none" else precisions(seed, covariance, 2, n["C"], n["D"])
    order = find_distance(distance).order(x, p, s_class).argsort(dim=1).mT
    d = distances(x, p, s_class, distance).gather(2, order)
    assert bool((d.diff(dim=2) >= -1e-9).all())


@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
@pytest.mark.parametrize("weighting", ["prototype_and_distance", "prototype"])
@given(n=sizes, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_whole_episode(covariance, weighting, n, seed):
    """Algorithm 1: prototypes from the supports, distances, softmax cross-entropy, the nearest class."""
    C, K, D, Q = n["C"], n["K"], n["D"], 2
    network = GaussianPrototypicalNetwork(
        NetworkConfig(covariance=covariance, weighting=weighting, embedding_dim=D, filters=(2, 2, 2))
    )
    x = points(seed, C, K + Q, D)
    s = None if covariance == "none" else precisions(seed, covariance, C, K + Q, D)
    loss, accuracy = episode_loss(network, Embedded(x, s), K)

    d = np.empty((C * Q, C))
    for c in range(C):
        s_c = np.ones((K, 1)) if s is None else s[c, :K].numpy()
        p, S = oracle.prototype(x[c, :K].numpy(), s_c)
        if s is None or weighting == "prototype":
            S = np.eye(D)  # vanilla: the class weight is 1 whatever K
        for i, query in enumerate(x[:, K:].reshape(-1, D).numpy()):
            d[i, c] = oracle.distance(query, p, S, "euclidean")
    truth = np.repeat(np.arange(C), Q)
    assert loss.item() == pytest.approx(oracle.loss(d, truth), rel=1e-6, abs=1e-7)
    assert accuracy.item() == pytest.approx((d.argmin(1) == truth).mean(), abs=1e-6)


@given(n=sizes, seed=seeds)
@several
def test_none_is_nearest_centroid(n, seed):
    C, K, D, N = n["C"] + 1, n["K"] + 1, n["D"], n["N"]  # it wants two of each
    x, queries = points(seed, C, K, D), points(seed + 1, N, D)
    labels = torch.arange(C).repeat_interleave(K)
    p, s_class = class_prototypes(x)
    theirs = NearestCentroid().fit(x.flatten(0, 1).numpy(), labels.numpy())
    assert s_class is None
    np.testing.assert_allclose(p, theirs.centroids_, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(distances(queries, p).argmin(1), theirs.predict(queries.numpy()))


@given(n=sizes, seed=seeds)
@several
def test_diagonal_with_equal_entries_is_radius(n, seed):
    x, s = points(seed, n["C"], n["K"], n["D"]), precisions(seed, "radius", n["C"], n["K"], n["D"])
    queries = points(seed + 2, n["N"], n["D"])
    radius, diagonal = class_prototypes(x, s), class_prototypes(x, s.expand_as(x))
    torch.testing.assert_close(radius[0], diagonal[0])
    torch.testing.assert_close(distances(queries, *radius), distances(queries, *diagonal))


@given(n=sizes, seed=seeds)
@several
def test_full_with_a_diagonal_factor_is_diagonal(n, seed):
    C, K, D = n["C"], n["K"], n["D"]
    x, raw, queries = points(seed, C, K, D), points(seed + 1, C * K, D), points(seed + 2, n["N"], D)
    off_diagonal = torch.zeros(C * K, D * (D - 1) // 2, dtype=torch.float64)
    s_full = precision("full", D)(torch.cat([raw, off_diagonal], 1))
    s_diagonal = precision("diagonal", D)(raw)
    full = class_prototypes(x, s_full.unflatten(0, (C, K)))
    diagonal = class_prototypes(x, s_diagonal.unflatten(0, (C, K)))
    torch.testing.assert_close(full[0], diagonal[0])
    torch.testing.assert_close(distances(queries, *full), distances(queries, *diagonal))


@given(n=sizes, seed=seeds)
@several
def test_full_precision_is_symmetric_and_positive(n, seed):
    s = precisions(seed, "full", n["N"], n["D"])
    torch.testing.assert_close(s, s.mT)
    assert bool((torch.linalg.eigvalsh(s) > 0).all())


@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
@given(n=sizes, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_labelled_supports_give_the_same_prototypes_in_any_order(covariance, n, seed):
    C, K, D = n["C"], n["K"], n["D"]
    x = points(seed, C, K, D)
    s = None if covariance == "none" else precisions(seed, covariance, C, K, D)
    order = torch.randperm(C * K, generator=torch.Generator().manual_seed(seed))
    labels = torch.arange(C).repeat_interleave(K)[order]
    dense = class_prototypes(x, s)
    ragged = class_prototypes(x.flatten(0, 1)[order], None if s is None else s.flatten(0, 1)[order], labels)
    for a, b in zip(dense, ragged, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_unequal_shots(covariance):
    x, s = points(0, 5, 3), precisions(0, covariance, 5, 3)
    p, _ = class_prototypes(x, s, torch.tensor([1, 0, 1, 1, 0]))
    for c, chosen in enumerate([[1, 4], [0, 2, 3]]):
        np.testing.assert_allclose(p[c], oracle.prototype(x[chosen].numpy(), s[chosen].numpy())[0], rtol=1e-9)


def test_a_class_without_support_is_refused():
    with pytest.raises(ValueError, match=r"classes \[1\] have none"):
        class_prototypes(points(0, 2, 3), labels=torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="each of the 2 classes"):
        class_prototypes(points(0, 2, 3), labels=torch.tensor([0, 0]), way=2)


@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_where_a_query_is_a_prototype(covariance, distance, dtype):
    p = points(0, 4, 6).to(dtype)
    p[3] = 0  # and where both are zero, as after a ReLU
    s_class = None if covariance == "none" else precisions(0, covariance, 4, 6).to(dtype).detach()
    inputs = [t.clone().requires_grad_() for t in (p, p, s_class) if t is not None]
    d = distances(*inputs, distance=distance) if s_class is not None else distances(*inputs, None, distance)
    assert bool(torch.isfinite(d).all())
    (-d).log_softmax(1).sum().backward()
    assert all(bool(torch.isfinite(t.grad).all()) for t in inputs)


@given(far=st.floats(0, 1e4), seed=seeds)
@several
def test_distances_stay_exact_far_from_the_origin(far, seed):
    """In float32, embeddings that share a large offset keep distances of their own size."""
    x, p = points(seed, 5, 8), points(seed + 1, 4, 8)
    near = (distances((x + far).float(), (p + far).float())).double()
    # What is left is the rounding of the inputs themselves: far times the machine's precision.
    torch.testing.assert_close(near, distances(x, p), rtol=1e-4, atol=1e-3 * max(1.0, far / 1e3))


@given(seed=seeds, scale=st.floats(0.1, 10))
@several
def test_weights_scale_out_of_the_prototype(seed, scale):
    x, s = points(seed, 3, 4, 5), precisions(seed, "diagonal", 3, 4, 5)
    torch.testing.assert_close(class_prototypes(x, s)[0], class_prototypes(x, scale * s)[0])


def test_what_is_no_distance_and_what_has_no_support_is_refused():
    with pytest.raises(InputError, match="unknown distance 'Euclidean': did you mean 'euclidean'"):
        distances(torch.ones(1, 2), torch.zeros(1, 2), distance="Euclidean")
    with pytest.raises(InputError, match="at least one support"):
        class_prototypes(torch.zeros(2, 0, 3))


@given(seed=seeds, spread=st.floats(0.1, 6))
@several
def test_steep_full_precisions_in_single_precision(seed, spread):
    """The network's own numbers: what is exact in double precision comes out close, and never as an error."""
    C, K, D = 3, 2, 32
    raw = spread * points(seed, C * K, D * (D + 1) // 2).relu().float()
    s = precision("full", D)(raw).unflatten(0, (C, K))
    x = points(seed + 1, C, K, D).float()
    p, _ = class_prototypes(x, s)
    exact, _ = class_prototypes(x.double(), s.double())
    assert torch.isfinite(p).all()
    if spread < 1:
        torch.testing.assert_close(p.double(), exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("of_x", "of_p"), [((2, 5, 4), (2, 4)), ((5, 4), (3, 2, 4)), ((1, 5, 4), (3, 2, 4)), ((3, 1, 5, 4), (2, 2, 4))]
)
@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
def test_leading_axes_broadcast_even_where_points_coincide(of_x, of_p, covariance):
    x, p = points(0, *of_x), points(1, *of_p)
    x[..., 0, :] = p.reshape(-1, 4)[-1]  # needs the exact differences
    D, C = 4, of_p[-2]
    s = {"none": None, "radius": points(2, C, 1).abs(), "diagonal": points(2, C, D).abs()}.get(covariance)
    if covariance == "full":
        s = points(2, C, D, D)
        s = (s @ s.mT).expand(*of_p[:-2], C, D, D)
    elif s is not None:
        s = s.expand(*of_p[:-1], s.shape[-1])
    S = torch.eye(D, dtype=x.dtype).expand(C, D, D) if s is None else s if covariance == "full" else None
    S = torch.diag_embed(s.expand(*s.shape[:-1], D)) if S is None else S
    difference = x[..., :, None, :] - p[..., None, :, :]
    expected = torch.einsum("...ncd,...cde,...nce->...nc", difference, S, difference).clamp_min(0).sqrt()
    torch.testing.assert_close(distances(x, p, s), expected, rtol=1e-7, atol=1e-7)
    as_arrays = distances(x.numpy(), p.numpy(), None if s is None else s.numpy())
    np.testing.assert_allclose(as_arrays, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("covariance", ["none", *COVARIANCES])
@given(far=st.sampled_from([1e2, 1e4, 1e6, 1e8, 1e12]), seed=seeds)
@settings(max_examples=20, deadline=None)
def test_a_far_class_does_not_spoil_the_distances_of_the_others(dtype, covariance, far, seed):
    C, N, D = 5, 4, 6
    x, p = points(seed, N, D).to(dtype), points(seed + 1, C, D).to(dtype)
    p[-1] += far
    s = None
    if covariance != "none":
        shape = {"radius": (C, 1), "diagonal": (C, D), "full": (C, D, D)}[covariance]
        s = points(seed + 2, *shape).abs() + 0.5
        s = (s @ s.mT + torch.eye(D, dtype=s.dtype) if covariance == "full" else s).to(dtype)
    difference = x.double()[:, None] - p.double()
    S = torch.eye(D, dtype=torch.float64) * torch.ones(C, 1, 1)
    if s is not None:
        S = s.double() if covariance == "full" else torch.diag_embed(s.double().expand(C, D))
    expected = torch.einsum("ncd,cde,nce->nc", difference, S, difference).sqrt()
    tolerance = {"rtol": 1e-3 if dtype == torch.float32 else 1e-7, "atol": 0.0}
    torch.testing.assert_close(distances(x, p, s).double(), expected, **tolerance)
    as_arrays = distances(x.numpy(), p.numpy(), None if s is None else s.numpy())
    np.testing.assert_allclose(as_arrays, expected, **tolerance)
    order = find_distance("euclidean").order(x[None], p[None], None if s is None else s[None])[0]
    nearest, chosen = expected.min(dim=1).values, order.argmin(dim=0)
    assert (expected.gather(1, chosen[:, None])[:, 0] <= 1.001 * nearest).all()
