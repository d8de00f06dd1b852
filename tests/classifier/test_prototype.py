"""The parameter `prototype`: how far the classifier trusts each example."""

import json

import numpy as np
import pytest

import gaussproto as gp
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.gallery import METADATA, read_gallery
from gaussproto.formulas.distance import distances
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.trust import support_trust


@pytest.fixture(scope="module")
def task(characters):
    """Five examples of 20 characters, and other drawings of them."""
    dense = characters.dense[:20, :, 0].numpy()
    return dense[:, :5].reshape(100, 28, 28), np.repeat(np.arange(20), 5), dense[:, 5:10].reshape(100, 28, 28)


def with_wrong_labels(y, per_class, seed=0):
    """Give the last examples of every class the label of another class."""
    rng, wrong = np.random.default_rng(seed), y.reshape(20, 5).copy()
    for k in range(5 - per_class, 5):
        wrong[:, k] = (wrong[:, k] + rng.integers(1, 20, 20)) % 20
    return wrong.reshape(-1)


@pytest.mark.parametrize("prototype", ["mean", "median", "agreement", "sharing"])
@pytest.mark.parametrize("weights", ["precision", "uniform"])
def test_prototypes_are_those_of_the_formulas(task, prototype, weights):
    X, y, queries = task
    clf = gp.GaussianPrototypeClassifier("drawings-small", prototype=prototype, weights=weights).fit(X, y)
    x, s = clf.example_embeddings_.astype(np.float64), clf.example_precisions_.astype(np.float64)
    s = None if weights == "uniform" else s
    trust = support_trust(prototype, x, s, y)
    p, _ = class_prototypes(x, s, y, trust=trust)
    np.testing.assert_allclose(clf.prototypes_, p)
    trust = trust[np.arange(len(y)), y] if prototype == "sharing" else trust
    weight = trust if s is None else trust * s[:, 0]
    np.testing.assert_allclose(clf.example_weights_, weight / np.bincount(y, weight)[y])
    np.testing.assert_allclose(clf.decision_function(queries), -distances(clf.transform(queries).astype(float), p))


def test_wrong_labels_cost_less(task):
    X, y, queries = task
    encoder = gp.GaussianPrototypeClassifier("drawings-small").fit(X, y)
    x, x_query, s = encoder.transform(X), encoder.transform(queries), encoder.example_precisions_
    score = {}
    for prototype in ("mean", "agreement"):
        for wrong in (0, 2):
            right = []
            for seed in range(10):
                labels = with_wrong_labels(y, wrong, seed)
                p, _ = class_prototypes(x, s, labels, trust=support_trust(prototype, x, s, labels))
                right.append(distances(x_query, p).argmin(axis=1) == y)
            score[prototype, wrong] = np.mean(right)
    assert score["agreement", 2] > score["mean", 2] + 0.02
    assert score["agreement", 2] > score["mean", 0] - 0.02
    assert abs(score["agreement", 0] - score["mean", 0]) < 0.015  # one query of 100


def test_examples_count_in_the_class_that_they_look_like(task, monkeypatch):
    X, y, _ = task
    labels = y.copy()
    labels[4] = 7  # a drawing of class 0
    sharing, right = (
        gp.GaussianPrototypeClassifier("drawings-small", prototype="sharing").fit(X, each) for each in (labels, y)
    )
    assert sharing.example_weights_[4] < 0.05
    np.testing.assert_allclose(np.bincount(labels, sharing.example_weights_), 1)
    moved = np.linalg.norm(sharing.prototypes_ - right.prototypes_, axis=1)
    assert moved.max() < 0.05 * np.linalg.norm(right.prototypes_, axis=1).mean()
    monkeypatch.setattr("gaussproto.classifier.examples.SHARED", 100)  # with more pairs, the examples are only trusted
    many, agreement = (
        gp.GaussianPrototypeClassifier("drawings-small", prototype=rule).fit(X, labels)
        for rule in ("sharing", "agreement")
    )
    np.testing.assert_allclose(many.prototypes_, agreement.prototypes_)


def test_a_wrong_example_weighs_little_and_says_so(task):
    X, y, _ = task
    labels = y.copy()
    labels[4] = 7  # a drawing of class 0
    clf = gp.GaussianPrototypeClassifier("drawings-small").fit(X, labels)
    assert clf.example_weights_[4] < 0.05
    assert np.delete(clf.example_weights_, 4).min() > 0.05


@pytest.mark.parametrize("prototype", ["median", "agreement", "sharing"])
def test_a_gallery_stores_the_choice(task, tmp_path, prototype):
    X, y, queries = task
    clf = gp.GaussianPrototypeClassifier("drawings-small", prototype=prototype).fit(X, with_wrong_labels(y, 1))
    clf.save(tmp_path / "x.gallery")
    loaded = gp.load(tmp_path / "x.gallery")
    assert loaded.prototype == prototype
    np.testing.assert_allclose(loaded.predict_proba(queries), clf.predict_proba(queries))
    listed = read_gallery(tmp_path / "x.gallery").examples()
    np.testing.assert_allclose(listed.weights, clf.example_weights_)


def test_a_gallery_from_before_keeps_its_means(task, tmp_path):
    X, y, _ = task
    clf = gp.GaussianPrototypeClassifier("drawings-small", prototype="mean").fit(X, y)
    clf.save(tmp_path / "x.gallery")
    file = read_arrays(tmp_path / "x.gallery", "gallery")
    settings = json.loads(file.metadata[METADATA])
    for name in ("prototype", "encoder_distance", "in_distance"):
        del settings[name]
    write_arrays(tmp_path / "old.gallery", file.arrays, {METADATA: json.dumps(settings)})
    loaded = gp.load(tmp_path / "old.gallery")
    assert loaded.prototype == "mean"
    np.testing.assert_array_equal(loaded.prototypes_, clf.prototypes_)


def test_thresholds_do_not_come_from_wrong_examples(task):
    """An example that is not trusted does not tell how far images of its class are."""
    X, y, _ = task
    right, wrong = (
        gp.GaussianPrototypeClassifier("drawings-small", reject=0.05).fit(X, labels).confidence(X[:1]).thresholds
        for labels in (y, with_wrong_labels(y, 1))
    )
    np.testing.assert_allclose(wrong, right, rtol=0.25)


def test_unknown_rules_are_refused(task):
    X, y, _ = task
    with pytest.raises(gp.InputError, match="prototype must be one of auto, mean, median, agreement, sharing"):
        gp.GaussianPrototypeClassifier("drawings-small", prototype="mode").fit(X, y)


@pytest.mark.parametrize("prototype", ["agreement", "sharing"])
@pytest.mark.filterwarnings("ignore::gaussproto.errors.ImageWarning")
def test_a_blank_example_changes_no_other_class(task, tmp_path, prototype):
    """A blank image says nothing about the images of other classes, and is not trusted beside others of its class."""
    X, y, queries = task
    clf = gp.GaussianPrototypeClassifier("drawings-small", prototype=prototype).fit(X, y)
    with_blank = gp.GaussianPrototypeClassifier("drawings-small", prototype=prototype)
    with_blank.fit(np.concatenate([X, np.zeros_like(X[:2])]), [*y, 20, 7])
    others = np.flatnonzero(y != 7)
    np.testing.assert_array_equal(with_blank.example_weights_[others], clf.example_weights_[others])
    assert with_blank.example_weights_[-2] == 1
    assert with_blank.example_weights_[-1] < 0.001
    with_blank.save(tmp_path / "x.gallery")
    loaded = gp.load(tmp_path / "x.gallery")
    np.testing.assert_array_equal(loaded.example_weights_, with_blank.example_weights_)
    for each in (loaded, with_blank):
        each.partial_fit(queries[:1], [20])
    np.testing.assert_array_equal(loaded.example_weights_, with_blank.example_weights_)


def test_without_precisions_the_default_is_the_mean():
    x = np.random.default_rng(0).normal(size=(30, 4)) + np.repeat(np.arange(3), 10)[:, None]
    y = np.repeat(list("abc"), 10)
    default, mean, agreement = (
        gp.GaussianPrototypeClassifier("identity", **chosen).fit(x, y)
        for chosen in ({}, {"prototype": "mean"}, {"prototype": "agreement"})
    )
    np.testing.assert_array_equal(default.prototypes_, mean.prototypes_)
    assert not np.allclose(agreement.prototypes_, mean.prototypes_)


def test_with_precisions_the_default_is_the_agreement(task):
    X, y, _ = task
    default, agreement = (
        gp.GaussianPrototypeClassifier("drawings-small", **chosen).fit(X, with_wrong_labels(y, 1))
        for chosen in ({}, {"prototype": "agreement"})
    )
    np.testing.assert_array_equal(default.prototypes_, agreement.prototypes_)
