"""A check leaves each example out as refitting without it would, and finds what was planted."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score

from gaussproto import GaussianPrototypeClassifier, load
from gaussproto.classifier.check import relative_precision
from gaussproto.classifier.duplicates import find_copies
from gaussproto.classifier.examples import Examples
from gaussproto.data.damage import down_sample
from gaussproto.data.strokes import strokes
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.interval import wilson_interval
from gaussproto.formulas.left_out import left_out_medians, left_out_prototypes, medians
from tests.classifier.test_estimator import network, uneven_examples

COUNTS = (1, 2, 3, 5)


def blobs(counts, D=8, spread=6.0, seed=0):
    """Vectors around a random middle of each class, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    return spread * rng.normal(size=(len(counts), D))[y] + rng.normal(size=(len(y), D)), y


def rows_in_order(check):
    return sorted(check.examples, key=lambda row: row.index)


@pytest.mark.parametrize("weighting", ["prototype", "prototype_and_distance"])
@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_an_example_is_left_out_as_refitting_without_it_would(characters, covariance, distance, weighting):
    if covariance == "none" and weighting != "prototype":
        pytest.skip("a vanilla network has no precision")
    X, y, _ = uneven_examples(characters, COUNTS)
    encoder = network(covariance, **({} if covariance == "none" else {"weighting": weighting}))
    clf = GaussianPrototypeClassifier(encoder, distance=distance, ink="bright", prototype="mean").fit(X, y)
    for row in rows_in_order(clf.check()):
        if row.label == "class 0":
            assert row.reason == "alone"
            continue
        rest = [i for i in range(len(X)) if i != row.index]
        refitted = GaussianPrototypeClassifier(encoder, distance=distance, ink="bright", prototype="mean")
        refitted.fit(X[rest], [y[i] for i in rest])
        (p,) = refitted.predict_proba(X[[row.index]])
        assert row.answer == refitted.predict(X[[row.index]])[0]
        np.testing.assert_allclose(row.probability, p[refitted.classes_.tolist().index(row.looks_like)], rtol=1e-6)


@pytest.mark.parametrize("parameters", [{}, {"temperature": 0.3}, {"weights": "uniform"}])
def test_the_temperature_is_that_of_one_example_fewer(characters, parameters):
    X, y, _ = uneven_examples(characters, (2, 3, 4))
    clf = GaussianPrototypeClassifier("drawings-small", ink="bright", **parameters).fit(X, y)
    row = rows_in_order(clf.check())[4]
    rest = [i for i in range(len(X)) if i != 4]
    refitted = GaussianPrototypeClassifier("drawings-small", ink="bright", **parameters)
    refitted.fit(X[rest], [y[i] for i in rest])
    (p,) = refitted.predict_proba(X[[4]])
    np.testing.assert_allclose(row.probability, p[refitted.classes_.tolist().index(row.looks_like)], 1e-4, 1e-9)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 5), min_size=3, max_size=5).filter(lambda counts: max(counts) > 1), st.integers(0, 99))
def test_vectors_are_left_out_exactly(counts, seed):
    x, y = blobs(counts, 3, spread=1.0, seed=seed)
    for row in GaussianPrototypeClassifier("identity", prototype="mean").fit(x, y).check().examples:
        if counts[row.label] > 1:
            rest = np.arange(len(x)) != row.index
            refitted = GaussianPrototypeClassifier("identity", prototype="mean").fit(x[rest], y[rest])
            assert row.answer == refitted.predict(x[[row.index]])[0]
            p = refitted.predict_proba(x[[row.index]])[0, row.looks_like]
            np.testing.assert_allclose(row.probability, p, rtol=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=5), st.integers(0, 99))
def test_prototypes_without_one_example_match_plain_sums(counts, seed):
    x, y = blobs(counts, 3, seed=seed)
    s = np.exp(9 * np.random.default_rng(seed).normal(size=(len(x), 1)))  # one example may outweigh all others
    p, others = left_out_prototypes(Embedded(x, s), y)
    for i in range(len(x)):
        rest = (y == y[i]) & (np.arange(len(x)) != i)
        if not rest.any():
            assert np.isnan(p[i]).all()
            continue
        np.testing.assert_allclose(others[i], s[rest].sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(p[i], (s[rest] * x[rest]).sum(axis=0) / s[rest].sum(), rtol=1e-9, atol=1e-12)


def test_medians_have_the_smallest_sum_of_distances():
    x, y = blobs([1, 2, 5, 9, 40], 3)
    of_class = medians(x, y, 5)
    without = left_out_medians(x, y, of_class)

    def cost(p, points):
        return np.linalg.norm(points - p, axis=1).sum()

    for c in range(5):
        best = minimize(cost, x[y == c].mean(axis=0), args=(x[y == c],), tol=1e-12).fun
        assert cost(of_class[c], x[y == c]) <= best + 1e-5
    for i in np.flatnonzero(np.isin(y, (2, 3, 4))):
        rest = x[(y == y[i]) & (np.arange(len(x)) != i)]
        best = minimize(cost, rest.mean(axis=0), args=(rest,), tol=1e-12).fun
        assert cost(without[i], rest) <= best * (1 + (1e-6 if y[i] < 4 else 2e-3))
    assert np.isnan(without[y == 0]).all()
    np.testing.assert_allclose(without[y == 1], x[y == 1][::-1])


@settings(deadline=None, max_examples=15)
@given(st.permutations(range(17)), st.floats(0.01, 100), st.floats(-100, 100))
def test_order_scale_and_place_of_vectors_do_not_matter(order, scale, shift):
    x, y = blobs([3, 4, 5, 5], spread=1.0)
    order = np.array(order)
    a = GaussianPrototypeClassifier("identity").fit(x, y).check()
    b = GaussianPrototypeClassifier("identity").fit(scale * x[order] + shift, y[order]).check()
    np.testing.assert_allclose(b.suspicion, a.suspicion[order], rtol=1e-4, atol=1e-9)
    assert [row.looks_like for row in rows_in_order(b)] == [rows_in_order(a)[i].looks_like for i in order]


def test_planted_wrong_labels_come_first():
    drawings = strokes(alphabets=3).dense[:60, :5].flatten(0, 1).numpy()
    truth = np.repeat(np.arange(60), 5)
    labels, chosen = truth.copy(), np.arange(0, 300, 10)
    labels[chosen] = np.roll(truth[chosen], 1)
    check = GaussianPrototypeClassifier("drawings-small", ink="bright").fit(drawings, labels).check()
    assert average_precision_score(labels != truth, check.suspicion) > 0.95
    named = [row.looks_like == truth[row.index] for row in check.suspicious if row.index in chosen]
    assert np.mean(named) > 0.8
    assert len(named) >= 29
    assert len(check.suspicious) < 45


def test_damaged_images_are_poor(characters):
    images = characters.images.clone().float().div(255)[: 20 * 30].unflatten(0, (30, 20))[:, :5].flatten(0, 1)
    bad = np.zeros(150, dtype=bool)
    bad[::15] = True
    images[bad] = down_sample(images[bad], 7)
    clf = GaussianPrototypeClassifier("drawings-small", ink="bright", prepare="none")
    check = clf.fit(images.numpy(), np.repeat(np.arange(30), 5)).check()
    poor = [row.index for row in check.suspicious if row.reason == "poor image"]
    assert set(np.flatnonzero(bad)) <= set(poor)
    assert len(poor) <= bad.sum() + 3


def test_the_precision_is_relative_to_the_median_of_the_others():
    s = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 0.5, 3.0])
    examples = Examples.of(
        Embedded(np.random.default_rng(0).normal(size=(7, 2)), s[:, None]), list("aaaabbc"), [""] * 7
    )
    others = [np.median([np.log(s[j]) for j in some] or -np.inf) for some in
              ([1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [5], [4], [])]  # fmt: skip
    usual = np.maximum(others, np.median(np.log(s)))
    np.testing.assert_allclose(relative_precision(examples), s / np.exp(usual))


def test_one_class_with_two_different_examples_cannot_tell_which_is_wrong():
    x, y = blobs([2, 5, 5], spread=20.0)
    x[0] = x[8] + 0.1  # of class 2
    check = GaussianPrototypeClassifier("identity").fit(x, y).check()
    assert {row.index for row in check.suspicious} <= {0, 1}
    assert check.examples[0].index == 0
    assert check.examples[0].looks_like == 2


def test_copies_are_found_and_do_not_count_as_right():
    x, y = blobs([5, 5, 5])
    x[7], x[12] = x[6], x[0]  # in one class, and across classes
    check = GaussianPrototypeClassifier("identity").fit(x, y).check()
    rows = rows_in_order(check)
    assert [(i, row.reason, row.suspicion) for i, row in enumerate(rows) if row.reason] == [
        (0, "duplicate", 0.5), (7, "duplicate", 0.5), (12, "duplicate", 1.0)
    ]  # fmt: skip
    assert (rows[12].looks_like, rows[12].copy, rows[0].copy, rows[7].copy, rows[6].copy) == (0, 0, 12, 6, 7)
    assert check.scored == 13
    assert (check.accuracy, check.interval) == (12 / 13, wilson_interval(12, 13))


def test_many_copies_cost_no_memory():
    x = np.concatenate([np.zeros((5000, 4)), np.random.default_rng(0).normal(size=(50, 4))])
    (group,) = find_copies(x, [""] * len(x))
    assert group.tolist() == list(range(5000))


def test_a_copy_is_compressed_and_a_bigger_dot_is_none(tmp_path):
    drawing = Image.fromarray(255 - strokes(alphabets=1).dense[0, 0, 0].numpy()).resize((105, 105))
    files = [tmp_path / name for name in ("a.png", "b.jpg", "c.png", "d.png", "e.png")]
    drawing.save(files[0])
    drawing.save(files[1], quality=70)
    for file, size in zip(files[2:], (5, 20, 40), strict=True):
        page = Image.new("L", (105, 105), 255)
        page.paste(0, (20, 20, 20 + size, 20 + size))
        page.save(file)
    near = [[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.0, 5.0], [5.0, 5.0]]
    x = np.concatenate([near, 9 * np.random.default_rng(0).normal(size=(30, 2))])
    assert [group.tolist() for group in find_copies(x, [*map(str, files), *[""] * 30])] == [[0, 1]]


def test_classes_of_one_example_have_no_accuracy():
    check = GaussianPrototypeClassifier("identity").fit(np.eye(3), ["a", "b", "c"]).check()
    assert (check.accuracy, check.interval, check.learning, check.confused) == (None, None, None, [])
    assert [row.reason for row in check.examples] == ["alone"] * 3


@pytest.mark.parametrize(("counts", "known"), [([2, 2, 2], 1), ([4, 5, 9], 4), ([1, 1, 30], None), ([40, 50], 10)])
def test_the_curve_has_one_example_fewer_than_most_classes(counts, known):
    x, y = blobs(counts)
    learning = GaussianPrototypeClassifier("identity").fit(x, y).check().learning
    assert (learning and len(learning.accuracy)) == known
    if learning and known > 1:
        assert learning.interval[0] < learning.gain < learning.interval[1]
        assert learning.helps is not True  # these classes are easy


def test_more_examples_help_where_classes_are_wide():
    x, y = blobs([30] * 20, 20, spread=0.6)
    learning = GaussianPrototypeClassifier("identity").fit(x, y).check().learning
    assert learning.helps
    assert learning.text().startswith("More examples would probably help")
    assert np.all(np.diff(learning.accuracy) > -0.02)


def test_confused_classes_are_named():
    x, y = blobs([8, 8, 8], spread=50.0)
    x[y == 1] = x[y == 0] + 0.1 * np.random.default_rng(1).normal(size=(8, 8))
    check = GaussianPrototypeClassifier("identity").fit(x, y).check()
    (pair,) = check.confused
    assert (pair.classes, pair.examples) == ((0, 1), (8, 8))
    assert check.accuracy == pytest.approx(1 - sum(pair.mistaken) / 24)


def test_wrong_states_raise():
    with pytest.raises(NotFittedError):
        GaussianPrototypeClassifier("identity").check()
    huge = GaussianPrototypeClassifier("identity").fit([[0.0], [1.0], [1e200], [2e200]], list("aabb"))
    with pytest.raises(InputError, match="rescale"):
        huge.check()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Invented signs with every kind of problem."""
    root = tmp_path_factory.mktemp("check") / "my images"
    for c, sign in enumerate(strokes(alphabets=1).dense[:8, :5, 0].numpy()):
        for i, pixels in enumerate(sign):
            file = root / f"sign {c}" / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(255 - pixels).resize((80, 80)).save(file)
    (root / "sign 1" / "4.png").replace(root / "sign 2" / "<b>wrong.png")
    shutil.copy(root / "sign 3" / "0.png", root / "sign 4" / "copy.png")
    Image.new("L", (80, 80), 255).save(root / "sign 5" / "blank.png")
    (root / "sign 6" / "broken.png").write_bytes(b"no image")
    (root / "sign 7" / "0.png").rename(tmp_path_factory.mktemp("rest") / "0.png")
    return root


FOUND = {"sign 2/<b>wrong.png": "looks like", "sign 4/copy.png": "duplicate", "sign 5/blank.png": "blank"}


def test_the_command_finds_repairs_and_restores(folder, tmp_path, gaussproto, monkeypatch):
    root = shutil.copytree(folder, tmp_path / "my images")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(match="no ink"):
        code, out, err = gaussproto("check", root, "--json", "--page", "page.html", "--moves", "moves.csv")
    assert code == 0, err
    result = json.loads(out)
    reasons = {row["image"].removeprefix(f"{root}/"): row["reason"] for row in result["examples"] if row["reason"]}
    assert FOUND.items() <= reasons.items()
    assert [row["image"] for row in result["unreadable"]] == [f"{root}/sign 6/broken.png"]
    assert result["total_examples"] == len(result["examples"]) == 41
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;wrong.png" in page
    assert "<b>wrong" not in page
    assert page.count("data:image/webp") > 10

    before = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    code, out, err = gaussproto("check", root, "--apply", "moves.csv")
    assert code == 0, err
    assert "pass --yes" in err
    assert {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()} == before
    assert gaussproto("check", root, "--apply", "moves.csv", "--yes")[0] == 0
    assert (root / "sign 1" / "<b>wrong.png").exists()
    assert (root / ".removed" / "sign 4" / "copy.png").exists()
    assert (root / "sign 3" / "0.png").exists()  # of two copies one stays
    code, out, err = gaussproto("check", root, "--json")
    assert not [row for row in json.loads(out)["examples"] if row["reason"] in ("duplicate", "blank")]
    assert gaussproto("check", root, "--apply", "moves.undo.csv", "--yes", "--json")[0] == 0
    assert {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()} == before


def test_a_gallery_says_the_same_as_its_folder(folder, tmp_path, gaussproto):
    files = [path for path in sorted(folder.glob("*/*.png")) if path.name != "broken.png"]
    with pytest.warns(match="no ink"):
        clf = GaussianPrototypeClassifier("drawings-small").fit(files, [path.parent.name for path in files])
    clf.save(tmp_path / "my.gallery")
    a, b = clf.check(), load(tmp_path / "my.gallery").check()
    assert a.examples == b.examples
    code, out, err = gaussproto("check", tmp_path / "my.gallery", "--csv")
    assert code == 0, err
    assert len(out.splitlines()) == len(files) + 1
    GaussianPrototypeClassifier("identity").fit(np.eye(3), ["a", "b", "c"]).save(tmp_path / "vectors.gallery")
    code, out, err = gaussproto("check", tmp_path / "vectors.gallery", "--page", tmp_path / "page.html", "--top", "1")
    assert code == 0, err
    assert "alone" in out
    assert "2 more" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "--csv"], "cannot be combined"),
        (["--yes"], "--yes is only for --apply"),
        (["--page", "page.pdf"], "must end in .html"),
        (["--moves", "moves.txt"], "must end in .csv"),
        (["--apply", "missing.csv"], "does not exist"),
        (["--apply", "missing.csv", "--page", "a.html"], "leave out --page"),
        (["--strict"], "broken.png"),
    ],
)
def test_wrong_options_are_one_sentence(folder, gaussproto, arguments, words):
    code, out, err = gaussproto("check", folder, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_file_or_nothing_is_no_folder(tmp_path, gaussproto):
    (tmp_path / "file").write_text("no gallery")
    for source in ("file", "missing"):
        code, _, err = gaussproto("check", tmp_path / source)
        assert code == 2
        assert source in err
