import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gaussproto import (
    GaussianPrototypeClassifier,
    GaussianPrototypicalNetwork,
    NetworkConfig,
    embed_all,
    load_network,
)
from gaussproto.data.damage import down_sample
from gaussproto.errors import InputError
from gaussproto.model.network import as_float
from tests.formulas import oracle

SMALL = {"filters": (6, 6, 6), "embedding_dim": 5}


@parametrize_with_checks([GaussianPrototypeClassifier("identity")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def network(covariance="radius", **settings):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        config = NetworkConfig(**SMALL, covariance=covariance, precision_relu=False, **settings)
        return GaussianPrototypicalNetwork(config).eval()


def uneven_examples(characters, counts=(1, 3, 2, 5)):
    """Images and labels, unequal shots, and queries of the same classes."""
    dense = characters.dense[:, :, 0].numpy()
    X = np.concatenate([dense[c, :n] for c, n in enumerate(counts)])
    y = [f"class {c}" for c, n in enumerate(counts) for _ in range(n)]
    return X, y, np.concatenate([dense[c, 10:14] for c in range(len(counts))])


def state(clf):
    """Everything that fitting has made, to compare; the network is told by its digest."""
    public = {name: value for name, value in vars(clf).items() if not name.startswith("_")}
    fitted = {name: copy.copy(value) if name.endswith("_") else value for name, value in public.items()}
    return fitted | {"encoder_": clf.encoder_.digest if hasattr(clf, "encoder_") else None}


def assert_same(a, b, tolerance=0.0):
    assert a.keys() == b.keys()
    for name, value in a.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            np.testing.assert_allclose(value, b[name], rtol=tolerance, atol=tolerance, err_msg=name)
        elif isinstance(value, np.ndarray):
            assert value.dtype == b[name].dtype
            assert value.tolist() == b[name].tolist(), name
        else:
            assert value == b[name] or value is b[name], name


@pytest.mark.parametrize("weighting", ["prototype", "prototype_and_distance"])
@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
def test_answers_are_those_of_the_equations(characters, covariance, weighting):
    net = network(covariance, weighting=weighting, distance="squared_euclidean")
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(net, temperature=2.0, prototype="mean").fit(X, y)
    x, s = embed_all(net, torch.from_numpy(X)[:, None]).map(lambda t: t.double().numpy())
    q = embed_all(net, torch.from_numpy(queries)[:, None]).x.double().numpy()
    matrices = [np.eye(5) if s is None else np.diag(np.broadcast_to(v, 5)) if v.ndim == 1 else v for v in
                ([None] * len(x) if s is None else s)]  # fmt: skip
    D = np.empty((len(q), 4))
    for c in range(4):
        own = [i for i, label in enumerate(y) if label == f"class {c}"]
        S = sum(matrices[i] for i in own)
        p = np.linalg.solve(S, sum(matrices[i] @ x[i] for i in own))
        np.testing.assert_allclose(clf.prototypes_[c], p, rtol=1e-9, atol=1e-12)
        shares = [np.trace(np.linalg.solve(S, matrices[i])) / 5 for i in own]
        np.testing.assert_allclose(clf.example_weights_[own], shares, rtol=1e-9)
        metric = S if weighting == "prototype_and_distance" and s is not None else np.eye(5)
        D[:, c] = [oracle.distance(v, p, metric, "squared_euclidean") for v in q]
    np.testing.assert_allclose(clf.decision_function(queries), -D, rtol=1e-6, atol=1e-9)
    expected = np.exp(-D / 2.0) / np.exp(-D / 2.0).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(queries), expected, rtol=1e-6)
    assert clf.predict(queries).tolist() == [f"class {c}" for c in D.argmin(axis=1)]
    np.testing.assert_allclose(clf.transform(queries), q, rtol=1e-5, atol=1e-6)
    assert (clf.precisions_ is None) == (covariance == "none")


def test_the_same_answers_as_the_networks_own_prototypes(characters, weights):
    net = load_network(weights)
    dense = characters.dense[:20]  # (20, 20, 1, 28, 28)
    with torch.no_grad():
        d = net(net.embed(dense.flatten(0, 1)).unflatten((20, 20)), shot=5)
    clf = GaussianPrototypeClassifier(weights, prototype="mean")
    clf.fit(dense[:, :5].flatten(0, 2), np.repeat(np.arange(20), 5))
    queries, truth = dense[:, 5:].flatten(0, 2), np.repeat(np.arange(20), 15)
    assert (clf.predict(queries) == d.argmin(dim=1).numpy()).all()
    assert clf.score(queries, truth) == pytest.approx((d.argmin(dim=1).numpy() == truth).mean())
    assert clf.score(queries, truth) > 0.7


@given(
    counts=st.lists(st.integers(1, 4), min_size=3, max_size=6),
    first=st.integers(2, 100),
    covariance=st.sampled_from(["none", "radius", "diagonal"]),
    random=st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=25)
def test_learning_in_parts_is_learning_at_once(characters, counts, first, covariance, random):
    X, y, _ = uneven_examples(characters, counts)
    order = list(range(len(X)))
    random.shuffle(order)
    X, y = X[order], [y[i] for i in order]
    first = min(first, len(X) - 1)
    while len(set(y[:first])) < 2:
        first += 1
    net = network(covariance)
    whole = GaussianPrototypeClassifier(net).fit(X, y)
    parts = GaussianPrototypeClassifier(net).partial_fit(X[:first], y[:first])
    if first < len(X):
        parts.partial_fit(X[first:], y[first:])
    assert_same(state(whole), state(parts), tolerance=1e-3)  # the trust is steep

    gone = y[0]
    kept = [i for i, label in enumerate(y) if label != gone]
    without = GaussianPrototypeClassifier(net).fit(X[kept], [y[i] for i in kept])
    assert_same(state(whole.forget(gone)), state(without), tolerance=1e-3)
    for c in whole.classes_:
        assert whole.example_weights_[whole.example_labels_ == c].sum() == pytest.approx(1)


@pytest.mark.parametrize("prototype", ["mean", "median", "agreement"])
def test_order_of_examples_does_not_matter(characters, prototype):
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network(weighting="prototype"), prototype=prototype)
    before = clf.fit(X, y).predict_proba(queries)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(clf.fit(X[order], np.array(y)[order]).predict_proba(queries), before, rtol=1e-5)


def test_repetition_of_examples_does_not_matter(characters):
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network(weighting="prototype"), prototype="mean")
    before = clf.fit(X, y).predict_proba(queries)
    np.testing.assert_allclose(clf.fit(np.concatenate([X, X]), y + y).predict_proba(queries), before, rtol=1e-5)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["b", "a", "c"], "U"),
        ([3, 1, 2], "i"),
        ([True, False, True], "b"),
        ([("x", 2), ("x", 1), ("y",)], "O"),
        ([b"b", b"a", b"c"], "O"),
        (["a", 1, 2.5], "O"),
        ([frozenset({1}), frozenset({2}), frozenset()], "O"),
        (["a\0", "a", "b"], "O"),
    ],
)
def test_labels_of_any_hashable_type_come_back_as_they_went_in(labels, kind):
    X = np.eye(3)
    clf = GaussianPrototypeClassifier("identity").fit(X, labels)
    assert clf.classes_.dtype.kind == kind
    if kind != "b":
        assert clf.predict(X).tolist() == labels
        assert clf.score(X, labels) == 1
        assert clf.example_labels_.tolist() == labels
    assert [type(label) for label in clf.classes_.tolist()] == [
        type(label) for label in sorted(set(labels), key=clf.classes_.tolist().index)
    ]


def test_damaged_examples_count_for_less(characters, weights):
    clean = characters.dense[:20, :6].flatten(0, 1)
    damaged = clean.unflatten(0, (20, 6)).clone()
    damaged[:, :3] = (down_sample(as_float(damaged[:, :3].flatten(0, 1)), 7) * 255).byte().unflatten(0, (20, 3))
    clf = GaussianPrototypeClassifier(weights).fit(damaged.flatten(0, 2), np.repeat(np.arange(20), 6))
    shares = clf.example_weights_.reshape(20, 6)
    assert shares[:, :3].mean() < 0.8 * shares[:, 3:].mean()


def test_dark_and_bright_ink_give_the_same_answers(characters, weights):
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(weights).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(255 - queries), clf.predict_proba(queries))
    stated = GaussianPrototypeClassifier(weights, ink="dark").fit(255 - X, y)
    np.testing.assert_array_equal(stated.predict_proba(255 - queries), clf.predict_proba(queries))


@pytest.fixture
def folder(tmp_path, characters):
    """Four classes of five drawings in dark ink, large and small; two more of each to ask about."""
    for c in range(4):
        for part, drawings in (("mine", range(5)), ("asked", range(5, 7))):
            place = tmp_path / part / f"class {c}"
            place.mkdir(parents=True)
            for i in drawings:
                image = Image.fromarray(255 - characters.dense[c, i, 0].numpy()).resize((40 + 9 * i, 60))
                image.convert("RGB" if i % 2 else "L").save(place / f"{i}.png")
    return tmp_path


def test_a_folder_is_its_files_and_their_folders_names(folder, weights):
    clf = GaussianPrototypeClassifier(weights).fit(folder / "mine")
    files = sorted((folder / "mine").glob("*/*.png"))
    assert clf.example_names_ == [str(file) for file in files]
    assert clf.example_labels_.tolist() == [file.parent.name for file in files]
    by_hand = GaussianPrototypeClassifier(weights).fit(files, [file.parent.name for file in files])
    assert_same(state(clf), state(by_hand))
    assert clf.score(str(folder / "asked")) > 0.5
    one = folder / "asked" / "class 0"
    np.testing.assert_array_equal(clf.predict(one), clf.predict(sorted(one.iterdir())))
    assert clf.partial_fit(folder / "asked").example_names_[20:] == list(map(str, sorted(folder.glob("asked/*/*"))))


def test_with_scikit_learns_tools(folder, weights):
    files = [str(file) for file in sorted((folder / "mine").glob("*/*.png"))]
    y = [file.split("/")[-2] for file in files]
    clf = GaussianPrototypeClassifier(weights)
    assert cross_val_score(clf, files, y, cv=2).mean() > 0.5
    search = GridSearchCV(clf, {"distance": ["euclidean", "cosine"], "ink": ["detect", "bright"]}, cv=2)
    search.fit(files, y)
    assert search.best_params_.keys() == {"distance", "ink"}
    assert search.predict(files[:3]).shape == (3,)
    copied = clone(clf.fit(files, y))
    assert copied.get_params() == clf.get_params()
    with pytest.raises(NotFittedError):
        copied.predict(files)
    assert "GaussianPrototypeClassifier" in clf._repr_html_()
    assert clf.set_params(temperature=3).temperature == 3


def test_in_a_pipeline_on_vectors():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    X = rng.normal(size=(60, 4)) * [1, 1, 100, 1] + 4 * np.repeat(np.eye(3, 4), 20, axis=0)
    pipeline = make_pipeline(StandardScaler(), GaussianPrototypeClassifier("identity"))
    assert cross_val_score(pipeline, X, y).mean() > 0.8
    names = GaussianPrototypeClassifier("identity").fit(X, y).get_feature_names_out()
    assert names.tolist() == [f"gaussianprototypeclassifier{i}" for i in range(4)]


def test_what_was_fitted_stays_when_parameters_change(characters):
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network(), ink="bright").fit(X, y)
    before = clf.predict_proba(queries)
    clf.set_params(ink="dark", image_size=40, encoder="identity")
    np.testing.assert_array_equal(clf.predict_proba(queries), before)
    clf.partial_fit(X, y)
    np.testing.assert_allclose(clf.example_embeddings_[: len(X)], clf.example_embeddings_[len(X) :], atol=1e-6)


def test_a_second_fit_leaves_nothing_of_the_first(characters):
    X, y, _ = uneven_examples(characters)
    clf = GaussianPrototypeClassifier("identity").fit(np.eye(3), [0, 1, 2])
    clf.set_params(encoder=network()).fit(X, y)
    assert not hasattr(clf, "n_features_in_")
    assert_same(state(clf), state(GaussianPrototypeClassifier(clf.encoder).fit(X, y)))


def test_in_other_processes(characters):
    X, y, _ = uneven_examples(characters, (4, 4, 4))
    clf = GaussianPrototypeClassifier(network(), temperature=np.float32(2))
    one, two = (cross_val_score(clf, X, y, cv=2, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    again = pickle.loads(pickle.dumps(clf.fit(X, y)))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_the_callers_arrays_are_their_own():
    X = np.eye(3)
    clf = GaussianPrototypeClassifier("identity").fit(X, [0, 1, 2])
    clf.transform(X)[:] = 5
    X[:] = 7
    assert clf.predict(np.eye(3)).tolist() == [0, 1, 2]
    assert clf.partial_fit(np.eye(3), [0, 1, 2]).example_embeddings_.max() == 1


TEXT = object()  # stands for a text file named .png
BAD = {
    "no image": ([], []),
    "nothing": (None, ["a"]),
    "no labels": (np.zeros((2, 28, 28)), None),
    "fewer labels": (np.zeros((3, 28, 28)), ["a", "b"]),
    "NaN": (np.full((2, 28, 28), np.nan), ["a", "b"]),
    "one NaN": ([np.zeros((28, 28)), np.full((9, 9), np.nan)], ["a", "b"]),
    "no pixels": ([np.zeros((0, 5))] * 2, ["a", "b"]),
    "too large": ([np.zeros((1, 100_000))] * 2, ["a", "b"]),
    "too bright": ([np.full((9, 9), 300)] * 2, ["a", "b"]),
    "ragged": (np.array([np.zeros((3, 3)), "x"], dtype=object), ["a", "b"]),
    "one image": (np.zeros((28, 28)), ["a"] * 28),
    "text": ([TEXT, np.zeros((28, 28))], ["a", "b"]),
    "missing file": (["nowhere.png", "nowhere else.png"], ["a", "b"]),
    "missing folder": ("nowhere", None),
    "two types": (np.zeros((2, 28, 28)), [1, "1"]),
    "None as a label": (np.zeros((2, 28, 28)), ["a", None]),
    "NaN as a label": (np.zeros((2, 28, 28)), [1.0, float("nan")]),
    "labels that are lists": (np.zeros((2, 28, 28)), [["a"], ["b"]]),
    "numbers of a regression": (np.zeros((2, 28, 28)), [0.5, 0.7]),
}
NO_IMAGES = {
    "no image",
    "nothing",
    "NaN",
    "one NaN",
    "no pixels",
    "too large",
    "too bright",
    "ragged",
    "one image",
    "text",
}
ALONE = {"one class": (np.zeros((2, 28, 28)), ["a", "a"])}


@given(name=st.sampled_from(sorted(BAD | ALONE)), method=st.sampled_from(["fit", "partial_fit"]), fitted=st.booleans())
@settings(deadline=None, max_examples=150)
def test_bad_input_is_a_clear_error_and_changes_nothing(characters, tmp_path_factory, name, method, fitted):
    if name in ALONE and method == "partial_fit" and fitted:
        return  # more of one class is welcome
    X, y = (BAD | ALONE)[name]
    if isinstance(X, list) and TEXT in [image for image in X if not isinstance(image, np.ndarray)]:
        path = tmp_path_factory.mktemp("bad") / "text.png"
        path.write_text("I am text")
        X = [path if image is TEXT else image for image in X]
    clf = GaussianPrototypeClassifier(network())
    if fitted:
        clf.fit(characters.images[:6, 0].numpy(), ["0", "0", "0", "1", "1", "c"])
    before, answers = state(clf), clf.predict_proba(characters.images[6:9]) if fitted else None
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (each has words of its own)
        getattr(clf, method)(X, y)
    words = str(caught.value)
    assert len(words) > 20
    assert "\n" not in words
    assert_same(state(clf), before)
    if fitted:
        np.testing.assert_array_equal(clf.predict_proba(characters.images[6:9]), answers)
        if name in NO_IMAGES:
            with pytest.raises(InputError):
                clf.predict(X)
            assert_same(state(clf), before)


def test_a_label_may_not_come_later_in_another_type():
    clf = GaussianPrototypeClassifier("identity").fit(np.eye(2), ["0", "1"])
    before = state(clf)
    with pytest.raises(InputError, match=r"the label 1 \(int\) also appears as '1' \(str\)"):
        clf.partial_fit(np.eye(2), [2, 1])
    with pytest.raises(InputError, match="'c' is not among"):
        clf.partial_fit(np.eye(2), ["1", "c"], classes=["0", "1"])
    assert_same(state(clf), before)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0.0, 1.0], [1.0]], [0, 1]),
        ([[0.0, np.nan], [1.0, 0.0]], [0, 1]),
        ([[0.0], [1.0]], [0, 1]),
        ([["a", "b"], ["c", "d"]], [0, 1]),
        (np.zeros((0, 2)), []),
        ([[1e308, 1e308]] * 2 + [[0.0, 0.0]], [0, 0, 1]),
    ],
)
def test_bad_vectors_change_nothing(X, y):
    clf = GaussianPrototypeClassifier("identity").fit([[0.0, 0.0], [1.0, 1.0]], [0, 1])
    before = state(clf)
    with pytest.raises(ValueError, match=r"\w"):
        clf.partial_fit(X, y)
    assert_same(state(clf), before)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"encoder": 7}, "found int"),
        ({"encoder": "nothing"}, "is not a run folder"),
        ({"ink": "blue"}, "ink must be one of"),
        ({"temperature": 0}, "temperature must be a positive number"),
        ({"distance": "far"}, "unknown distance"),
        ({"image_size": 3}, "image_size must be"),
    ],
)
def test_parameters_are_checked_when_fitting(characters, change, sentence):
    X, y, _ = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network()).fit(X, y)
    clf.set_params(**change)
    before = state(clf)
    with pytest.raises(InputError, match=sentence):
        clf.fit(X, y)
    assert_same(state(clf), before)


def test_forgetting_needs_a_class_that_is_there_and_two_that_stay():
    clf = GaussianPrototypeClassifier("identity").fit(np.eye(3), ["ant", "bee", "cow"])
    before = state(clf)
    with pytest.raises(InputError, match="did you mean 'bee'"):
        clf.forget("beee")
    assert_same(state(clf), before)
    assert clf.forget("bee").classes_.tolist() == ["ant", "cow"]
    before = state(clf)
    with pytest.raises(InputError, match="only one class"):
        clf.forget("cow")
    assert_same(state(clf), before)
