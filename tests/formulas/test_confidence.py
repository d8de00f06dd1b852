import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.data.images import LabelledImages
from gaussproto.data.load import Split
from gaussproto.errors import InputError
from gaussproto.evaluation import calibrate as module
from gaussproto.evaluation.calibrate import calibrate, calibrate_weights, measure_confidence
from gaussproto.formulas.confidence import (
    RATES,
    Calibration,
    distance_scale,
    expected_calibration_error,
    left_out_distances,
    negative_log_likelihood,
    probabilities,
    reject_threshold,
)
from gaussproto.formulas.distance import distances
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.temperature import TEMPERATURES, fit_temperature
from gaussproto.runs.checkpoint import load_checkpoint, save_checkpoint
from gaussproto.runs.folder import load_network
from gaussproto.runs.weights import open_weights, write_calibration

DISTANCES = ["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"]


def answers(seed, N=400, C=5, temperature=1.0, scale=3.0):
    """Distances, and classes drawn with the probabilities that these give at that temperature."""
    rng = np.random.default_rng(seed)
    d = scale * rng.gamma(2.0, size=(N, C))
    chances = probabilities(d, temperature)
    truth = (chances.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    return d, truth


@given(seed=st.integers(0, 1000), temperature=st.floats(0.1, 10))
@settings(deadline=None, max_examples=50)
def test_measures_are_their_definitions(seed, temperature):
    d, truth = answers(seed, N=60)
    p = np.exp(-d / temperature) / np.exp(-d / temperature).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities(d, temperature), p, rtol=1e-9)
    expected = -np.mean([np.log(row[c]) for row, c in zip(p, truth, strict=True)])
    assert negative_log_likelihood(d, truth, temperature) == pytest.approx(expected)

    error = 0.0
    for b in range(15):
        inside = [i for i in range(len(p)) if b / 15 <= p[i].max() < (b + 1) / 15 or (b == 14 and p[i].max() == 1)]
        if inside:
            sure = np.mean([p[i].max() for i in inside])
            right = np.mean([p[i].argmax() == truth[i] for i in inside])
            error += len(inside) / len(p) * abs(sure - right)
    assert expected_calibration_error(p, truth) == pytest.approx(error)


def test_far_distances_stay_numbers():
    d = np.array([[1e5, 2e5], [3e300, 1.0]])
    np.testing.assert_array_equal(probabilities(d), [[1, 0], [0, 1]])
    assert negative_log_likelihood(d[:1], np.array([1])) == pytest.approx(1e5)
    np.testing.assert_array_equal(probabilities(np.array([[1.0, 2.0]]), temperature=1e-310), [[1, 0]])


@pytest.mark.parametrize("truly", [0.3, 1.0, 4.0])
def test_the_temperature_that_made_the_answers_is_found(truly):
    sets = [answers(seed, N=6000, C=C, temperature=truly) for seed, C in ((0, 3), (1, 10))]
    found = fit_temperature(sets)
    assert found == pytest.approx(truly, rel=0.08)
    assert fit_temperature([(7 * d, truth) for d, truth in sets], (0.02, 50)) == pytest.approx(7 * found, rel=1e-3)
    for d, truth in sets:
        assert expected_calibration_error(probabilities(d, found), truth) < 0.03


@given(seed=st.integers(0, 1000), other=st.floats(*TEMPERATURES))
@settings(deadline=None, max_examples=50)
def test_no_other_temperature_is_likelier(seed, other):
    sets = [answers(seed, N=50), answers(seed + 1, N=80, C=3)]
    best = fit_temperature(sets)
    costs = [np.mean([negative_log_likelihood(d, truth, t) for d, truth in sets]) for t in (best, other)]
    assert costs[0] <= costs[1] + 1e-6


@pytest.mark.parametrize("distance", DISTANCES[:3])
@pytest.mark.parametrize("in_distance", [False, True])
def test_distances_grow_as_their_spread(distance, in_distance):
    """Of Gaussian classes with a precision of 1 the mean distance, measured against it, is the same for every shot."""
    generator = torch.Generator().manual_seed(0)
    means = []
    for shot in (1, 2, 5, 20):
        x = torch.randn(2000, shot, 30, generator=generator, dtype=torch.float64)
        queries = torch.randn(2000, 1, 30, generator=generator, dtype=torch.float64)
        p, s_class = class_prototypes(x, torch.ones_like(x[..., :1]))
        d = distances(queries, p[:, None], s_class[:, None] if in_distance else None, distance)
        means.append(d.mean().item() / distance_scale(shot, distance, in_distance))
    np.testing.assert_allclose(means, means[0], rtol=0.02)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
@pytest.mark.parametrize("in_distance", [False, True])
def test_left_out_is_fitted_without(distance, covariance, in_distance):
    rng = np.random.default_rng(0)
    labels = np.array([0, 1, 2, 1, 2, 3, 2, 3, 3, 3])  # one of 0, two of 1, three of 2, four of 3
    x = rng.normal(size=(10, 4)) + 1
    root = 0.3 * rng.normal(size=(10, 4, 4))
    s = {
        "none": None,
        "radius": rng.uniform(1, 1.9, size=(10, 1)),
        "diagonal": rng.uniform(1, 1.9, size=(10, 4)),
        "full": root @ root.transpose(0, 2, 1) + np.eye(4),
    }[covariance]
    in_distance = in_distance and s is not None
    t = [None if a is None else torch.tensor(a) for a in (x, s, labels)]
    found = left_out_distances(Embedded(x, s), labels, distance, in_distance)
    expected = []
    for i in (1, 2, 4, 5, 6, 7, 8, 9):  # 3 is as far from 1 as 1 is from 3
        others = [j for j in range(10) if labels[j] == labels[i] and j != i]
        q, metric = class_prototypes(t[0][None, others], None if s is None else t[1][None, others])
        d = distances(t[0][i : i + 1], q, metric if in_distance else None, distance).item()
        expected.append(d / distance_scale(len(others), distance, in_distance))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
    if s is not None:  # bad examples, wherever they are, change nothing
        bad = np.array([0, 3, 2, 1, 3])
        more = np.concatenate([x, 100 * rng.normal(size=(5, 4))]), np.concatenate([s, 0.2 * s[:5]])
        again = left_out_distances(Embedded(*more), np.concatenate([labels, bad]), distance, in_distance)
        np.testing.assert_allclose(again, found, rtol=1e-7, atol=1e-12)


def test_classes_of_one_example_leave_nothing_out():
    x = np.eye(3)
    assert left_out_distances(Embedded(x), np.arange(3), "euclidean", False).shape == (0,)


def test_limits_keep_the_wanted_rate():
    """Over many sets of examples, one more of the same kind is beyond the limit as often as was asked for."""
    rng = np.random.default_rng(0)
    for n, rate in ((19, 0.05), (60, 0.05), (30, 0.2)):
        alarms = [rng.gamma(3) > reject_threshold(rng.gamma(3, size=n), rate, None) for _ in range(8000)]
        assert np.mean(alarms) <= rate + 0.007
        assert np.mean(alarms) > 0.7 * rate


def test_too_few_examples_take_the_limit_of_the_weights():
    own = np.linspace(1, 2, 18)
    calibration = Calibration(temperature=1, thresholds=tuple(range(9, 0, -1)), classes=5, held_out=True)
    assert reject_threshold(own, 0.05, calibration) == calibration.threshold(0.05) == 4
    assert reject_threshold(own, 0.1, calibration) == own[-1]
    assert [calibration.threshold(rate) for rate in RATES] == list(range(9, 0, -1))
    assert 4 < calibration.threshold(0.03) < 5
    with pytest.raises(InputError, match=r"reject=0.05 needs 19 examples.*\(found 18\)"):
        reject_threshold(own, 0.05, None)


def test_a_calibration_stays_with_its_weights(weights, tmp_path):
    path = tmp_path / "last.safetensors"
    path.write_bytes(weights.read_bytes())
    assert open_weights(path).calibration is None
    calibration = Calibration(
        temperature=0.7, thresholds=tuple(np.linspace(3, 1, 9).tolist()), classes=9, held_out=False
    )
    for _ in range(2):
        write_calibration(path, calibration)
        assert open_weights(path).calibration == calibration
    before, after = load_checkpoint(weights), load_checkpoint(path)
    assert (after.config, after.position) == (before.config, before.position)
    assert after.tensors.keys() == before.tensors.keys()
    for name, tensor in before.tensors.items():
        assert torch.equal(after.tensors[name], tensor)


def test_a_broken_calibration_is_named(weights, tmp_path):
    path = tmp_path / "last.safetensors"
    path.write_bytes(weights.read_bytes())
    broken = Calibration.model_construct(temperature=-1.0, thresholds=(1.0,), classes=1, held_out=False)
    write_calibration(path, broken)
    with pytest.raises(InputError, match="has a damaged calibration"):
        _ = open_weights(path).calibration


@pytest.fixture
def _few_queries(monkeypatch):
    monkeypatch.setattr(module, "QUERIES", 4000)


@pytest.fixture(scope="module")
def halves(characters):
    C = characters.way // 2
    return characters.select(range(C)), characters.select(range(C, characters.way))


@pytest.mark.usefixtures("_few_queries")
def test_a_network_learns_how_sure_it_is(weights, halves):
    network = load_network(weights)
    fitted, asked = halves
    calibration = calibrate(network, fitted, held_out=True)
    assert (calibration.classes, calibration.held_out) == (fitted.way, True)
    assert list(calibration.thresholds) == sorted(calibration.thresholds, reverse=True)
    again = measure_confidence(network, fitted, calibration, ways=[5, 10], rate=0.1)
    assert np.mean([one.nll_after for one in again]) < np.mean([one.nll_before for one in again])
    for one in measure_confidence(network, asked, calibration, ways=[5], shots=[1, 5], rate=0.1):
        assert one.ece_after < 0.05
        assert one.auroc > 0.7
        assert one.unknown_rejected > one.known_rejected
        assert one.known_rejected == pytest.approx(0.1, abs=0.07)


@pytest.mark.usefixtures("_few_queries")
@pytest.mark.parametrize("holdout", [0, 1])
def test_alphabets_held_out_are_what_it_is_fitted_on(weights, characters, tmp_path, monkeypatch, holdout):
    quarters = [characters.select(range(c, characters.way, 4)) for c in range(3)]
    trained, held_out, test = quarters
    splits = {0: Split(trained, test), 1: Split(trained, held_out)}
    monkeypatch.setattr(module, "load_data", lambda config, *_: splits[config.holdout])
    checkpoint = load_checkpoint(weights)
    path = tmp_path / "it.safetensors"
    save_checkpoint(path, checkpoint.config.override(holdout=holdout), checkpoint.network(), checkpoint.position)
    calibration, found = calibrate_weights(path, rate=0.2)
    network = load_network(weights)
    expected = calibrate(network, held_out if holdout else trained, held_out=bool(holdout))
    assert calibration == expected
    assert found == measure_confidence(network, test, expected, rate=0.2)
    assert open_weights(path).calibration is None


@pytest.mark.usefixtures("_few_queries")
def test_what_an_unknown_is_does_not_depend_on_the_scale_of_embeddings(weights, halves):
    """The whole of it, for a network and one whose embeddings are three times as large."""
    network, large = load_network(weights), load_network(weights)
    embed = large.embed
    large.embed = lambda images: Embedded(3 * embed(images).x, embed(images).s)
    small = calibrate(network, halves[0], held_out=False)
    scaled = calibrate(large, halves[0], held_out=False)
    assert scaled.evidence.fitted == pytest.approx(3 * small.evidence.fitted, rel=1e-3)
    assert scaled.low_precision == small.low_precision
    np.testing.assert_allclose(scaled.thresholds, 3 * np.array(small.thresholds), rtol=1e-5)


def test_too_few_classes_are_refused(weights, characters):
    one = LabelledImages(characters.images[:3], torch.ones(3, dtype=torch.int64), ("a", "b", "c"), ("x",) * 3)
    with pytest.raises(InputError, match=r"classes of two images each \(found 3 classes, the smallest with 1 image\)"):
        calibrate(load_network(weights), one, held_out=False)
