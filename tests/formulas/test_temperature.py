"""What is said about confidence holds for classes that were not fitted on."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.evaluation import calibrate as module
from gaussproto.evaluation.calibrate import calibrate
from gaussproto.formulas.confidence import (
    LOW_SHARE,
    RATES,
    Calibration,
    Evidence,
    enlargement,
    left_out_distances,
    low_precision,
    negative_log_likelihood,
    reject_threshold,
)
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.temperature import TEMPERATURES, Answers, cross_fit
from gaussproto.runs.folder import load_network


def answers(seed, temperature, groups=30, each=20, way=5):
    """Distances, and classes drawn with the probabilities that these give at a temperature, which differs by group."""
    rng = np.random.default_rng(seed)
    d = 3 * rng.gamma(2.0, size=(groups * each, way))
    group = np.repeat(np.arange(groups), each)
    T = temperature * np.exp(rng.normal(scale=0.2, size=groups))[group, None]
    p = np.exp(-d / T) / np.exp(-d / T).sum(axis=1, keepdims=True)
    truth = np.minimum((p.cumsum(axis=1) < rng.random((len(d), 1))).sum(axis=1), way - 1)
    return Answers(d, truth, group)


@pytest.mark.parametrize("temperature", [0.4, 3.0])
def test_a_temperature_that_helps_is_found_to_help(temperature):
    for seed in range(5):
        evidence = cross_fit([answers(seed, temperature)], np.random.default_rng(seed))
        assert evidence.helps
        assert evidence.fitted == pytest.approx(temperature, rel=0.3)


@pytest.mark.parametrize("temperature", [0.4, 0.8, 1.0, 1.2, 3.0])
def test_a_temperature_that_is_kept_is_no_worse_than_one_on_other_classes(temperature):
    """On average over many fits of few classes, each tested on many others."""
    test = answers(999, temperature, groups=400)
    at_one = negative_log_likelihood(test.d, test.truth)
    differences = []
    for seed in range(20):
        evidence = cross_fit([answers(seed, temperature, groups=8, each=15)], np.random.default_rng(seed))
        T = evidence.fitted if evidence.helps else 1.0
        differences.append(negative_log_likelihood(test.d, test.truth, T) - at_one)
    assert np.mean(differences) <= 0.002


def test_answers_without_a_mistake_do_not_make_a_temperature_of_zero():
    d = np.array([[1.0, 9.0], [9.0, 1.0]] * 50)
    task = Answers(d, d.argmin(axis=1), np.arange(100) // 10)
    assert cross_fit([task], np.random.default_rng(0)).fitted == pytest.approx(TEMPERATURES[0], rel=0.01)


def test_one_class_is_no_evidence():
    task = answers(0, 3.0, groups=1)
    evidence = cross_fit([task], np.random.default_rng(0))
    assert (evidence.gain, evidence.helps) == (0, False)


@given(seed=st.integers(0, 100), scale=st.floats(0.5, 2))
@settings(deadline=None, max_examples=10)
def test_evidence_depends_neither_on_the_names_of_groups_nor_on_their_order(seed, scale):
    task = answers(seed, 2.0, groups=10)._replace(scale=scale)
    order = np.random.default_rng(seed).permutation(len(task.d))
    other = Answers(task.d[order], task.truth[order], 7 * task.group[order] + 3, scale)
    one, two = (cross_fit([each], np.random.default_rng(0)) for each in (task, other))
    for name in Evidence.model_fields:
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-6)


@pytest.mark.parametrize("held_out", [True, False])
def test_training_classes_never_make_a_network_more_certain(weights, characters, monkeypatch, held_out):
    monkeypatch.setattr(module, "QUERIES", 2000)
    calibration = calibrate(load_network(weights), characters.select(range(30)), held_out=held_out)
    evidence = calibration.evidence
    assert evidence.helps
    assert evidence.fitted < 1
    assert calibration.scaled == held_out
    assert calibration.temperature == (evidence.fitted if held_out else 1)
    assert calibration.temperature_at(1.4) == pytest.approx(1.4 * evidence.fitted if held_out else 1)


def test_calibrations_of_earlier_versions_stay_as_they_are():
    old = {"temperature": 0.6, "thresholds": [float(9 - i) for i in range(len(RATES))], "classes": 7, "held_out": True}
    calibration = Calibration.model_validate_json(json.dumps(old))
    assert json.loads(calibration.model_dump_json()) == old
    assert (calibration.low_precision, calibration.evidence, calibration.temperature_at(2)) == (None, None, 1.2)
    limits = {("limits" if name == "thresholds" else name): value for name, value in old.items()}
    assert Calibration.model_validate(limits) == calibration
    evidence = Evidence(fitted=0.6, gain=0.1, error=0.01, ece_before=0.02, ece_after=0.01)
    new = calibration.model_copy(update={"scaled": False, "low_precision": 2.5, "evidence": evidence})
    assert Calibration.model_validate_json(new.model_dump_json()) == new


def gaussian_classes(rng, way, shot, queries=20, D=8):
    """Images whose precision varies: x is farther from its class where the precision is low."""
    centres = 30 * rng.normal(size=(way, 1, D))
    s = np.exp(0.3 * rng.normal(size=(way, shot + queries, 1)))
    return centres + rng.normal(size=(way, shot + queries, D)) / np.sqrt(s), s


@pytest.mark.parametrize(("way", "shot", "rate"), [(5, 5, 0.05), (20, 5, 0.05), (10, 3, 0.1)])
def test_the_rate_is_kept_with_the_precision(way, shot, rate):
    """Examples and new images are alike, so as many new ones are rejected as was asked for, whatever s₀ is."""
    rng, lost = np.random.default_rng(0), []
    for _ in range(150):
        x, s = gaussian_classes(rng, way, shot)
        labels = np.repeat(np.arange(way), shot)
        examples = Embedded(x[:, :shot].reshape(way * shot, -1), s[:, :shot].reshape(-1, 1))
        low = low_precision(examples, labels)
        own = left_out_distances(examples, labels, "euclidean", False, low)
        p, _ = class_prototypes(x[:, :shot], s[:, :shot])
        d = np.linalg.norm(x[:, shot:] - p[:, None], axis=-1) / np.sqrt(1 + 1 / shot)
        far = d.ravel() * enlargement(s[:, shot:].reshape(-1, 1), low, "euclidean")
        lost.append((far > reject_threshold(own, rate, None)).mean())
    assert np.mean(lost) == pytest.approx(rate, abs=0.02)


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    st.floats(1e-3, 1e3),
    st.sampled_from(["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"]),
)
def test_laws_of_the_enlargement(sizes, low, distance):
    s = np.sort(sizes)[:, None]
    factors = enlargement(s, low, distance)
    assert (factors >= 1).all()
    assert (np.diff(factors) <= 0).all()  # a higher precision never counts as farther
    assert (factors[s[:, 0] >= low] == 1).all()
    np.testing.assert_allclose(enlargement(8 * s, 8 * low, distance), factors)
    np.testing.assert_allclose(enlargement(np.repeat(s, 3, axis=1), low, distance), factors)
    np.testing.assert_allclose(enlargement(s[:, :, None] * np.eye(3), low, distance), factors)
    assert enlargement(None, low, distance) == enlargement(s, None, distance) == 1


def test_the_low_precision_ignores_bad_examples():
    rng = np.random.default_rng(0)
    s, labels = rng.uniform(1, 1.5, (200, 1)), np.repeat(np.arange(20), 10)
    low = low_precision(Embedded(np.zeros((200, 2)), s), labels)
    assert (s < low).mean() == pytest.approx(LOW_SHARE, abs=0.01)
    more = Embedded(np.zeros((220, 2)), np.concatenate([s, np.full((20, 1), 0.1)]))
    assert low_precision(more, np.concatenate([labels, np.arange(20)])) == low
    assert low_precision(Embedded(np.zeros((3, 2))), np.arange(3)) is None
