"""Laws of large galleries, at a small size: they answer as a fresh `fit` does, from memory and from a mapped file."""

import sys
import threading
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gaussproto as gp
from gaussproto.classifier import index, known, search
from gaussproto.classifier.estimator import GaussianPrototypeClassifier
from gaussproto.errors import InputError
from gaussproto.formulas.nearest import ExactSearch

C, D = 60, 4
NUMBER = count()


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    """Every size above which something changes is small here."""
    monkeypatch.setattr(known, "LARGE", 20)
    monkeypatch.setattr(known, "STEADY", 0.5)
    monkeypatch.setattr(search, "MANY", 30)
    monkeypatch.setattr(search, "PLANS", ((1000, 14),))  # all lists
    monkeypatch.setattr(search, "CANDIDATES", 1000)
    monkeypatch.setattr(index, "SAMPLE", 8)
    monkeypatch.setattr("gaussproto.classifier.estimator.FEW", 10)


def vectors(seed=0, classes=C, shots=1):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(classes, D)) * 3
    X = (means[:, None] + 0.3 * rng.normal(size=(classes, shots, D))).reshape(-1, D)
    return X, [f"c{i:03d}" for i in range(classes) for _ in range(shots)], rng.normal(size=(40, D)) * 3


def classifier(**parameters):
    return GaussianPrototypeClassifier("identity", **parameters)


def assert_equal(a, b, queries):
    for name in ("classes_", "example_labels_", "prototypes_", "example_weights_", "example_embeddings_"):
        left, right = getattr(a, name), getattr(b, name)
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, atol=1e-12)
        else:
            np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.predict(queries), b.predict(queries))
    np.testing.assert_allclose(a.predict_proba(queries), b.predict_proba(queries), atol=1e-12)


step = st.tuples(st.sampled_from(["add", "add", "forget"]), st.integers(0, C + 15), st.integers(0, 5))


@given(st.lists(step, max_size=14), st.sampled_from(["exact", "faiss"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_classes_added_and_removed_in_any_order_are_those_of_a_fresh_fit(steps, engine, ask):
    if engine == "faiss":
        pytest.importorskip("faiss")
    X, y, queries = vectors()
    clf = classifier(search=engine, prototype="mean").fit(X, y)
    clf.predict(queries[:2])  # the search exists before the changes
    examples = list(zip(X.tolist(), y, strict=True))
    for what, c, seed in steps:
        label = f"c{c:03d}"
        if what == "add":
            x = np.random.default_rng((seed, c)).normal(size=D) * 3
            clf.partial_fit([x], [label])
            examples.append((x.tolist(), label))
        elif any(name == label for _, name in examples):
            clf.forget(label)
            examples = [each for each in examples if each[1] != label]
        fresh = classifier(search="exact", prototype="mean").fit(*map(list, zip(*examples, strict=True)))
        if ask:
            np.testing.assert_array_equal(clf.predict(queries), fresh.predict(queries))
    fresh = classifier(search="exact", prototype="mean").fit(*map(list, zip(*examples, strict=True)))
    found, expected = clf.nearest(queries, 5), fresh.nearest(queries, 5)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.distances, expected.distances)
    np.testing.assert_allclose(found.rest, expected.rest)
    assert_equal(clf, fresh, queries)


@pytest.mark.parametrize("distance", ["euclidean", "cosine", "sqrt_euclidean"])
@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_every_search_gives_the_nearest_of_all_distances(engine, distance):
    if engine == "faiss":
        pytest.importorskip("faiss")
    X, y, queries = vectors(shots=2)
    clf = classifier(search=engine, distance=distance).fit(X, y)
    d = -clf.decision_function(queries)
    np.testing.assert_array_equal(clf.predict(queries), clf.classes_[d.argmin(axis=1)])
    found = clf.nearest(queries, 6)
    np.testing.assert_array_equal(found.labels, clf.classes_[d.argsort(axis=1)[:, :6]])
    np.testing.assert_allclose(found.distances, np.sort(d, axis=1)[:, :6], atol=1e-9)
    p = np.sort(clf.predict_proba(queries), axis=1)[:, ::-1][:, :6]
    assert (found.probabilities * (1 - found.rest[:, None]) <= p + 1e-12).all()
    assert (p <= found.probabilities + 1e-12).all()


@pytest.mark.parametrize("E", [1, D])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_faiss_with_precisions_finds_what_the_exact_search_finds(distance, E):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    p, s, x = rng.normal(size=(300, D)), rng.gamma(2, size=(300, E)), rng.normal(size=(30, D))
    index = search.learn_index(distance, p, s)
    exact = search.ExactSearch(distance, p, s)
    if index is None:
        assert (distance, E) == ("cosine", D)  # no inner product
        return
    found = search.FaissSearch(p, s, index, lambda name, rows: None)
    for removed in (None, 7, 8):
        if removed is not None:
            exact.remove(removed)
            found.remove(removed)
        for a, b in zip(found(x, 4), exact(x, 4), strict=True):
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("reject", [0.05, 0.3])
def test_unknown_images_are_those_of_all_distances(reject):
    rng = np.random.default_rng(0)
    X, y, queries = vectors(shots=4)
    keep = rng.random(len(y)) < 0.7
    keep[::4] = True  # classes of one to four examples, with different thresholds
    clf = classifier(reject=reject, search="exact").fit(X[keep], np.array(y)[keep])
    near = X[~keep][:40]
    both = np.concatenate([queries, near, near + 0.5])
    answers, whole = clf.predict(both), clf.confidence(both)
    np.testing.assert_array_equal(np.equal(answers, None), whole.unknown)
    assert 0 < whole.unknown.mean() < 1


def test_a_class_that_joins_many_is_trusted_as_in_a_fit(monkeypatch):
    """Agreement: the trust in a new class is that of a fit, up to what the class changes for the others."""
    X, y, _ = vectors(shots=5, classes=200)
    new = np.concatenate([X[:5] + 6, X[:1] + 7])  # the last is unlike the others
    clf = classifier(prototype="agreement").fit(X, y)
    clf.partial_fit(new, ["z"] * 6)
    assert len(clf._known._changed) == 1  # not fitted again
    fresh = classifier(prototype="agreement").fit(np.concatenate([X, new]), [*y, *["z"] * 6])
    np.testing.assert_allclose(clf.example_weights_[-6:], fresh.example_weights_[-6:], atol=0.02)
    assert clf.example_weights_[-1] < 0.5 * clf.example_weights_[-6:].max()


@pytest.fixture(params=["exact", "faiss"])
def saved(request, tmp_path):
    if request.param == "faiss":
        pytest.importorskip("faiss")
    X, y, queries = vectors(shots=3)
    clf = classifier(search=request.param).fit(X, y)
    clf.save(tmp_path / "my.gallery")
    return clf, tmp_path / "my.gallery", queries


def test_a_mapped_gallery_answers_changes_and_is_saved_again(saved):
    clf, path, queries = saved
    opened = gp.load(path)
    assert opened.search == clf.search
    assert isinstance(opened.example_embeddings_.base, np.ndarray) or not opened.example_embeddings_.flags.owndata
    np.testing.assert_array_equal(opened.predict(queries), clf.predict(queries))
    for each in (clf, opened):
        each.partial_fit(queries[:2], ["new", "c000"]).forget("c003")
    assert_equal(opened, clf, queries)
    opened.save(path)
    assert_equal(gp.load(path), clf, queries)


def test_a_gallery_without_faiss_is_searched_exactly_and_says_so_once(saved, monkeypatch):
    clf, path, queries = saved
    monkeypatch.setattr(search, "has_faiss", lambda: False)
    opened = gp.load(path).set_params(search="auto")
    with pytest.warns(UserWarning, match=r"pip install 'gaussproto\[gallery\]'"):
        np.testing.assert_array_equal(opened.predict(queries), clf.predict(queries))
    opened.predict(queries)  # warnings are errors


@pytest.mark.parametrize("part", ["embeddings", "prototypes", "index.lists"])
def test_damage_is_found_where_it_is_used(saved, part):
    from gaussproto.mapped import map_arrays

    clf, path, queries = saved
    file = map_arrays(path, "gallery")
    if part not in file.arrays:
        pytest.skip("this gallery has no index")
    content = bytearray(path.read_bytes())
    content[file.starts[part] + 5] ^= 16
    path.write_bytes(content)
    opened = gp.load(path).set_params(search=clf.search)
    with pytest.raises(InputError, match="is a damaged gallery"):
        (opened.predict if part != "embeddings" else lambda _: opened.example_weights_)(queries)


def test_damage_of_anything_else_is_found_on_opening(saved):
    from gaussproto.mapped import map_arrays

    _, path, _ = saved
    file = map_arrays(path, "gallery")
    for name in ("labels", "classes", "prototypes.crc32"):
        content = bytearray(path.read_bytes())
        content[file.starts[name] + 2] ^= 1
        damaged = Path(path.parent) / f"{next(NUMBER)}.gallery"
        damaged.write_bytes(content)
        with pytest.raises(InputError, match="is a damaged gallery"):
            gp.load(damaged)


@pytest.mark.parametrize("change", ["replaced", "smaller", "gone"])
def test_a_loaded_gallery_stays_what_it_was_when_its_file_changes(saved, change):
    clf, path, queries = saved
    opened = gp.load(path)
    if change == "gone":
        path.unlink()
    else:
        X, y, _ = vectors(seed=5, classes=C if change == "replaced" else 25)
        classifier().fit(X, y).save(path)
    np.testing.assert_array_equal(opened.predict(queries), clf.predict(queries))


@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_answers_while_another_thread_changes_the_gallery(engine):
    """Classes that nobody touches are found at any moment, whatever is added, removed and joined meanwhile."""
    if engine == "faiss":
        pytest.importorskip("faiss")
    X, y, _ = vectors(classes=200)
    clf = classifier(search=engine).fit(X, y)
    untouched = slice(0, 100)
    expected, wrong, done = np.array(y[untouched]), [], threading.Event()

    def ask():
        while not done.is_set():
            wrong.extend(np.flatnonzero(clf.predict(X[untouched]) != expected).tolist())

    askers = [threading.Thread(target=ask) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for asker in askers:
            asker.start()
        for i in range(100, 160):
            clf.partial_fit(X[i : i + 1] + 50, [f"new {i}"]).forget(f"c{i:03d}")
            assert len(clf.classes_) == 200  # joins
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for asker in askers:
            asker.join()
    assert not wrong


@pytest.mark.parametrize(("spread", "clusters"), [(0.0, 20), (0.5, 400)])
def test_an_index_keeps_the_promise_of_its_plan(monkeypatch, spread, clusters):
    """It compares with as many lists as these classes need. Without clusters, and with precisions, it needs most."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(search, "PLANS", ((4, 6), (16, 30), (400, 100)))
    rng = np.random.default_rng(0)
    means = rng.normal(size=(clusters, 16))
    p = means[rng.integers(clusters, size=4000)] + 0.5 * rng.normal(size=(4000, 16))
    s = np.exp(spread * rng.normal(size=(4000, 1))) if spread else None
    index = search.learn_index("euclidean", p, s)
    queries = p[rng.permutation(4000)[:400]] + 0.1 * rng.normal(size=(400, 16))
    found = search.FaissSearch(p, s, index, lambda name, rows: None)(queries, 1)
    truth = ExactSearch("euclidean", p, s)(queries, 1)
    assert index.plan[2] >= 990
    assert (found.classes == truth.classes).mean() >= 0.98
    assert (index.plan[0] == 400) == bool(spread)


def test_an_index_that_cannot_keep_it_says_so(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(search, "PLANS", ((1, 1),))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 24))
    with pytest.warns(UserWarning, match="hard to search: the index finds the nearest class of"):
        classifier(search="faiss").fit(X, list(range(2000))).predict(X[:1])


def test_numbers_that_are_too_large_for_single_precision(saved):
    clf, _, queries = saved
    clf.partial_fit(np.full((1, D), 1e200), ["far"])
    assert "far" not in clf.predict(queries)
    assert clf.predict(np.full((1, D), 1e200)).tolist() == ["far"]


def test_searches_that_do_not_exist(saved):
    clf, *_, queries = saved
    with pytest.raises(InputError, match="search must be one of auto, exact, faiss"):
        clf.set_params(search="fast").predict(queries)
    with pytest.raises(InputError, match="whole number"):
        clf.nearest(queries, 0)
    with pytest.raises(InputError, match="unknown class 'nobody'"):
        clf.set_params(search="exact").forget("nobody")


def test_a_large_classifier_is_copied_and_pickled(saved):
    import copy
    import pickle

    clf, _, queries = saved
    clf.predict(queries)
    clf.partial_fit(queries[:1], ["new"])
    for other in (copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))):
        assert_equal(other, clf, queries)
