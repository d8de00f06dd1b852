import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from gaussproto import GaussianPrototypeClassifier, load
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.gallery import METADATA
from gaussproto.errors import ImageWarning, InputError
from gaussproto.formulas.confidence import RATES, Calibration, distance_scale
from gaussproto.formulas.embedded import Embedded
from gaussproto.runs.weights import write_calibration
from tests.classifier.test_estimator import assert_same, network, state, uneven_examples
from tests.classifier.test_gallery import whole_state

CALIBRATION = Calibration(temperature=0.6, thresholds=tuple(np.linspace(2, 1, len(RATES))), classes=9, held_out=True)


def vectors(seed=0, way=6, shot=8, D=5, apart=6.0):
    """Gaussian classes: examples, labels, more of the same, and of classes that are not among them."""
    rng = np.random.default_rng(seed)
    means = apart * rng.normal(size=(2 * way, D))
    x = means[:, None] + rng.normal(size=(2 * way, shot + 40, D))
    y = np.repeat([f"class {c}" for c in range(way)], shot)
    return x[:way, :shot].reshape(-1, D), y, x[:way, shot:].reshape(-1, D), x[way:, shot:].reshape(-1, D)


def test_an_image_that_is_far_from_every_class_is_none():
    X, y, known, unknown = vectors()
    always = GaussianPrototypeClassifier("identity").fit(X, y)
    clf = GaussianPrototypeClassifier("identity", reject=0.05).fit(X, y)
    assert None not in always.predict(unknown).tolist()
    found = clf.predict(unknown)
    assert found.dtype == object
    assert np.mean([label is None for label in found]) > 0.9
    kept = [(a, b) for a, b in zip(clf.predict(known), always.predict(known), strict=True) if a is not None]
    assert len(kept) / len(known) == pytest.approx(0.95, abs=0.05)
    assert all(a == b for a, b in kept)
    np.testing.assert_array_equal(clf.predict_proba(known), always.predict_proba(known))
    assert clf.predict([[1e9] * 5]).tolist() == [None]
    assert clf.predict(clf.prototypes_).tolist() == clf.classes_.tolist()


@pytest.mark.parametrize("distance", ["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"])
def test_copies_of_an_example_are_known(distance):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(2, 9)), 6, axis=0)
    clf = GaussianPrototypeClassifier("identity", reject=0.2, distance=distance).fit(X, list("aaaaaabbbbbb"))
    assert clf.predict(X).tolist() == list("aaaaaabbbbbb")


def test_the_wanted_rate_is_kept_over_many_classifiers():
    rates = []
    for seed in range(60):
        X, y, known, _ = vectors(seed)
        clf = GaussianPrototypeClassifier("identity", reject=0.1).fit(X, y)
        rates.append(clf.confidence(known).unknown.mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.025)


def test_a_class_of_few_examples_lets_images_be_farther():
    """As its prototype is less certain, the same share of its images is called unknown."""
    shares = []
    for seed in range(40):
        X, y, known, _ = vectors(seed)
        some = [i for i in range(len(X)) if y[i] != "class 0" or i < 2]  # two examples of the first class
        verdict = GaussianPrototypeClassifier("identity", reject=0.1).fit(X[some], y[some]).confidence(known)
        assert verdict.thresholds[0] > verdict.thresholds[1]
        assert verdict.thresholds[0] / verdict.thresholds[1] == pytest.approx(
            distance_scale(2, "euclidean", False) / distance_scale(8, "euclidean", False)
        )
        shares.append([verdict.unknown[:40].mean(), verdict.unknown[40:].mean()])
    few, many = np.mean(shares, axis=0)
    assert few == pytest.approx(many, abs=0.05)


@given(seed=st.integers(0, 50), low=st.floats(0.05, 0.45), more=st.floats(0, 0.05), scale=st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=40)
def test_laws_of_rejection(seed, low, more, scale):
    X, y, known, unknown = vectors(seed)
    asked = np.concatenate([known, unknown])
    one, two = (GaussianPrototypeClassifier("identity", reject=rate).fit(X, y) for rate in (low, low + more))
    verdict = one.confidence(asked)
    assert (verdict.unknown <= two.confidence(asked).unknown).all()  # more false alarms, more unknown
    np.testing.assert_array_equal(verdict.unknown, (verdict.distances > verdict.thresholds).all(axis=1))
    scaled = GaussianPrototypeClassifier("identity", reject=low).fit(scale * X + 3, y)
    near_limit = np.abs(verdict.distances / verdict.thresholds - 1).min(axis=1) < 1e-9
    assert ((scaled.confidence(scale * asked + 3).unknown == verdict.unknown) | near_limit).all()


@pytest.mark.parametrize("labels", [[3, 1, 2], ["a", "b", "c"], [("x", 1), ("x", 2), ("y",)], [0.0, 1.0, 2.0]])
def test_labels_beside_none_keep_their_type(labels):
    X = np.repeat(np.eye(3), 4, axis=0) + np.random.default_rng(0).normal(scale=0.01, size=(12, 3))
    y = [label for label in labels for _ in range(4)]
    clf = GaussianPrototypeClassifier("identity", reject=0.2).fit(X, y)
    found = clf.predict([[1, 0, 0], [0, 1, 0], [50, 0, 0]]).tolist()
    assert found == [labels[0], labels[1], None]
    assert type(found[0]) is type(labels[0])


@pytest.fixture
def calibrated(weights, tmp_path):
    path = tmp_path / "calibrated.safetensors"
    path.write_bytes(weights.read_bytes())
    write_calibration(path, CALIBRATION)
    return path


def test_probabilities_take_the_temperature_of_the_weights(characters, weights, calibrated):
    X, y, queries = uneven_examples(characters)  # 11 examples of 4 classes
    T = 0.6 * distance_scale(11 / 4, "euclidean", False)
    assert find_encoder(weights).weighting == "prototype"

    def asked(encoder, **settings):
        return GaussianPrototypeClassifier(encoder, **settings).fit(X, y).predict_proba(queries)

    np.testing.assert_allclose(asked(calibrated), asked(weights, temperature=T), rtol=1e-9)
    np.testing.assert_array_equal(asked(weights), asked(weights, temperature=1.0))
    np.testing.assert_array_equal(asked(calibrated, temperature=3.0), asked(weights, temperature=3.0))
    # another distance has another scale
    np.testing.assert_array_equal(asked(calibrated, distance="cosine"), asked(weights, distance="cosine"))
    assert find_encoder(calibrated).digest == find_encoder(weights).digest


def test_one_example_of_each_class_takes_the_limits_of_the_weights(characters, weights, calibrated):
    X, y, queries = uneven_examples(characters, (1, 1, 1))
    clf = GaussianPrototypeClassifier(calibrated, reject=0.05).fit(X, y)
    limit = CALIBRATION.threshold(0.05) * distance_scale(1, "euclidean", False)
    with pytest.warns(ImageWarning, match=r"reject=0.05 needs 19 .* found 0\): using the thresholds of the weights"):
        np.testing.assert_allclose(clf.confidence(queries).thresholds, [limit] * 3)
    clf.predict(queries)  # warned once
    clf.partial_fit(X[:1], y[:1])
    with pytest.warns(ImageWarning, match="too few"):
        clf.predict(queries)
    clf = GaussianPrototypeClassifier(weights, reject=0.05).fit(X, y)
    before = state(clf)
    with pytest.raises(InputError, match=r"reject=0.05 needs 19 examples"):
        clf.predict(queries)
    assert_same(state(clf), before)
    assert clf.set_params(reject=None).predict(queries).shape == (12,)


def test_galleries_carry_how_sure_they_are(characters, calibrated, tmp_path):
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(calibrated, reject=0.2).fit(X, y)
    clf.save(tmp_path / "my.gallery")
    loaded = load(tmp_path / "my.gallery")
    assert_same(whole_state(loaded), whole_state(clf))
    for mine, theirs in zip(loaded.confidence(queries), clf.confidence(queries), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert loaded.temperature is None
    assert loaded.encoder_.calibration == CALIBRATION


def test_a_gallery_of_a_later_version_is_refused(tmp_path):
    path = tmp_path / "it"
    GaussianPrototypeClassifier("identity").fit(np.eye(3), list("abc")).save(path)
    with safe_open(path, framework="numpy") as file:
        settings = json.loads(file.metadata()[METADATA])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata={METADATA: json.dumps(settings | {"version": 4})})
    with pytest.raises(InputError, match="version 4, but this gaussproto reads versions up to 3: install"):
        load(path)


@pytest.mark.parametrize("change", [{"reject": 0}, {"reject": 1.5}, {"reject": "no"}, {"temperature": -1}])
def test_parameters_are_checked(characters, change):
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network()).fit(X, y).set_params(**change)
    for ask in (lambda: clf.fit(X, y), lambda: clf.predict_proba(queries)):
        with pytest.raises(InputError, match="must be a"):
            ask()


def test_a_low_precision_makes_an_image_unknown(characters, weights):
    """The same embedding is known with a usual precision, and unknown with a very low one."""
    X, y, queries = uneven_examples(characters, (8, 8, 8))
    clf = GaussianPrototypeClassifier(weights, reject=0.1).fit(X, y)
    embedded, seen = clf._embed(queries)
    usual = clf.confidence_of(embedded, seen)
    assert not usual.unknown.all()
    low = clf.confidence_of(Embedded(embedded.x, embedded.s * 1e-4), seen)
    assert low.unknown.all()
    assert (low.enlarged > 10).all()
    np.testing.assert_array_equal(low.probabilities, usual.probabilities)
    high = clf.confidence_of(Embedded(embedded.x, embedded.s * 1e4), seen)
    np.testing.assert_array_equal(high.unknown, (high.distances > high.thresholds).all(axis=1))
    plain = GaussianPrototypeClassifier(weights, reject=0.1, weights="uniform").fit(X, y)
    assert (plain.confidence(queries).enlarged == 1).all()


def test_rubbish_is_unknown_and_characters_are_known(characters):
    """With the bundled weights and five examples a class: blank pages, specks and noise."""
    X = np.concatenate([characters.dense[c, :5, 0].numpy() for c in range(10)])
    known = np.concatenate([characters.dense[c, 5:15, 0].numpy() for c in range(10)])
    clf = GaussianPrototypeClassifier("drawings-small", reject=0.05).fit(X, np.repeat(np.arange(10), 5))
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (105, 105), dtype=np.uint8) for _ in range(10)]
    specks = [np.full((105, 105), 255, dtype=np.uint8) for _ in range(11)]
    for page in specks[1:]:
        for down, across in rng.integers(2, 100, (6, 2)):
            page[down : down + 3, across : across + 3] = 0
    with pytest.warns(ImageWarning):
        found = clf.confidence([*noise, *specks])
    assert found.unknown.mean() >= 0.9
    assert found.unknown[found.blank].all()
    assert found.why_unknown(10) == "no ink"
    assert clf.confidence(known).unknown.mean() <= 0.12
