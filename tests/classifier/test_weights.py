"""The parameter `weights`: how much an example counts in its class."""

import json

import numpy as np
import pytest
from sklearn.base import clone

import gaussproto as gp
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.gallery import METADATA
from gaussproto.formulas.embedded import Embedded

LABELS = list("aaabbbbcc")


@pytest.fixture
def embedded():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(len(LABELS), 5)).astype(np.float32)
    return Embedded(x, np.exp(rng.normal(size=(len(LABELS), 1))).astype(np.float32))


def fitted(embedded, weights="precision", **parameters):
    encoder = Encoder(embed=lambda x: Embedded(x), source="identity", digest="identity", takes_vectors=True)
    parameters = {"prototype": "mean"} | parameters
    clf = gp.GaussianPrototypeClassifier("identity", weights=weights, **parameters)
    return clf.restore(encoder, embedded, LABELS, [""] * len(LABELS))


def members(label):
    return [i for i, each in enumerate(LABELS) if each == label]


def test_uniform_prototypes_are_plain_means(embedded):
    clf = fitted(embedded, "uniform")
    x = embedded.x.astype(np.float64)
    means = np.stack([x[members(label)].mean(axis=0) for label in "abc"])
    np.testing.assert_allclose(clf.prototypes_, means)
    assert clf.precisions_ is None
    np.testing.assert_allclose(clf.example_weights_, [1 / len(members(label)) for label in LABELS])
    np.testing.assert_array_equal(clf.example_precisions_, embedded.s)  # known, but not used
    query = np.random.default_rng(1).normal(size=(4, 5))
    distances = np.linalg.norm(query[:, None] - means, axis=2)
    np.testing.assert_allclose(clf.confidence(query).distances, distances)


def test_precision_prototypes_are_weighted_means(embedded):
    clf = fitted(embedded)
    x, s = embedded.map(lambda t: t.astype(np.float64))
    for c, label in enumerate("abc"):
        i = members(label)
        np.testing.assert_allclose(clf.prototypes_[c], (s[i] * x[i]).sum(axis=0) / s[i].sum())


@pytest.mark.parametrize("weights", ["precision", "uniform"])
def test_rescaling_the_precisions_of_a_class_changes_nothing(embedded, weights):
    factor = np.array([[{"a": 10.0, "b": 0.01, "c": 1.0}[label]] for label in LABELS], dtype=np.float32)
    one = fitted(embedded, weights, reject=0.5)
    two = fitted(Embedded(embedded.x, embedded.s * factor), weights, reject=0.5)
    query = np.random.default_rng(1).normal(size=(6, 5))
    for before, after in zip(one.confidence(query)[:2], two.confidence(query)[:2], strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-5)
    np.testing.assert_allclose(one.example_weights_, two.example_weights_, rtol=1e-5)
    # `reject` compares the precisions of all images, so only one unit for all of them changes nothing.
    three = fitted(Embedded(embedded.x, embedded.s * np.float32(8)), weights, reject=0.5)
    for before, after in zip(one.confidence(query)[:4], three.confidence(query)[:4], strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-5)


def test_uniform_ignores_precisions_altogether(embedded):
    query = np.random.default_rng(1).normal(size=(6, 5))
    with_s, without = (fitted(each, "uniform", reject=0.5) for each in (embedded, Embedded(embedded.x)))
    for one, two in zip(with_s.confidence(query)[:4], without.confidence(query)[:4], strict=True):
        np.testing.assert_array_equal(one, two)


def test_equal_precisions_make_no_difference(embedded):
    same = Embedded(embedded.x, np.full_like(embedded.s, 2.5))
    one, two = (fitted(same, weights).prototypes_ for weights in ("precision", "uniform"))
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_a_gallery_stores_the_choice(embedded, tmp_path, characters):
    drawings = characters.dense[:3, :3].flatten(0, 1)
    clf = gp.GaussianPrototypeClassifier("drawings-small", weights="uniform", prototype="mean")
    clf.fit(drawings, list("aaabbbccc")).save(tmp_path / "x.gallery")
    loaded = gp.load(tmp_path / "x.gallery")
    assert (loaded.weights, loaded.prototype) == ("uniform", "mean")
    np.testing.assert_allclose(loaded.prototypes_, clf.prototypes_)
    more = characters.dense[:3, 3]
    for each in (clf, loaded):
        each.partial_fit(more, list("abc")).forget("c")
    np.testing.assert_allclose(loaded.prototypes_, clf.prototypes_)
    np.testing.assert_allclose(clf.example_weights_, 1 / 4)


def test_a_gallery_from_before_the_parameter_loads(tmp_path):
    clf = gp.GaussianPrototypeClassifier("identity").fit([[0.0], [1.0]], ["low", "high"])
    clf.save(tmp_path / "x.gallery")
    file = read_arrays(tmp_path / "x.gallery", "gallery")
    settings = json.loads(file.metadata[METADATA])
    del settings["weights"]
    write_arrays(tmp_path / "old.gallery", file.arrays, {METADATA: json.dumps(settings)})
    assert gp.load(tmp_path / "old.gallery").weights == "precision"


def test_it_is_a_parameter_like_the_others():
    clf = gp.GaussianPrototypeClassifier("identity", weights="uniform")
    assert clone(clf).get_params()["weights"] == "uniform"
    with pytest.raises(gp.InputError, match="weights must be one of precision, uniform"):
        gp.GaussianPrototypeClassifier("identity", weights="distance").fit([[0.0], [1.0]], ["a", "b"])
