"""What `gaussproto gallery` makes of a file is what fitting on other examples, or `forget`, would have made."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gaussproto import GaussianPrototypeClassifier, load
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.examples import Examples, not_known
from gaussproto.classifier.gallery import Gallery, read_gallery, settings_of, write_gallery
from gaussproto.classifier.gallery_edit import find_class, merge, remove, rename
from gaussproto.errors import InputError
from gaussproto.files import lock_beside, locked
from gaussproto.formulas.embedded import Embedded
from tests.classifier.test_estimator import network, uneven_examples
from tests.classifier.test_gallery import COVARIANCES
from tests.data.test_labels import json_labels

VECTORS = np.random.default_rng(0).normal(size=(8, 3))


def fitted(labels, vectors=VECTORS, encoder="identity", names=None, **parameters):
    """A classifier of vectors that come from files, as those of images do."""
    clf = GaussianPrototypeClassifier(encoder, **parameters)
    names = names or [f"mine/{label}/{i}.png" for i, label in enumerate(labels)]
    clf.restore(find_encoder(encoder), Embedded(vectors[: len(labels)]), labels, names)
    clf.n_features_in_ = vectors.shape[1]
    return clf


def gallery_of(labels, vectors=VECTORS, names=None, **changes):
    """A gallery of vectors, with some settings changed."""
    clf = fitted(labels, vectors, names=names)
    kept = settings_of(clf, clf.encoder_).model_copy(update=changes)
    return Gallery(kept, Embedded(vectors[: len(labels)]), list(labels), clf.example_names_)


def saved(clf, path):
    clf.save(path)
    return path


def as_bytes(gallery, folder):
    """The file of a gallery."""
    write_gallery(gallery.settings, gallery.examples(), folder / "written")
    return (folder / "written").read_bytes()


def ok(result):
    code, out, err = result
    assert code == 0, err
    return out


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A gallery of `ant` (3), `bee` (2) and `cow` (1), with everything in it that must not get lost."""
    monkeypatch.chdir(tmp_path)
    clf = fitted(["ant", "bee", "ant", "cow", "bee", "ant"], distance="cosine", temperature=0.5, reject=0.05)
    clf.feature_names_in_ = np.array(["x", "y", "z"], dtype=object)
    return saved(clf, tmp_path / "my.gallery")


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_removing_a_class_is_forgetting_it(characters, tmp_path, gaussproto, covariance):
    X, y, _ = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network(covariance), ink="dark", image_size=20).fit(X, y)
    clf.save(tmp_path / "mine")
    ok(gaussproto("gallery", "remove", tmp_path / "mine", "class 1", "class 3"))
    clf.forget("class 1").forget("class 3").save(tmp_path / "expected")
    assert (tmp_path / "mine").read_bytes() == (tmp_path / "expected").read_bytes()


def test_removing_a_class_is_fitting_without_it(mine, gaussproto):
    found = json.loads(ok(gaussproto("gallery", "remove", mine, "bee", "--json")))
    assert found["removed_classes"] == ["bee"]
    assert (found["removed_examples"], found["classes"], found["total_examples"]) == (2, 2, 4)
    keep = [0, 2, 3, 5]
    names = [f"mine/{label}/{i}.png" for i, label in zip(keep, ["ant", "ant", "cow", "ant"], strict=True)]
    clf, expected = load(mine), fitted(["ant", "ant", "cow", "ant"], VECTORS[keep], names=names, distance="cosine")
    np.testing.assert_array_equal(clf.example_embeddings_, expected.example_embeddings_)
    np.testing.assert_array_equal(clf.prototypes_, expected.prototypes_)
    assert clf.classes_.tolist() == ["ant", "cow"]
    assert clf.example_names_ == names
    assert (clf.distance, clf.temperature, clf.reject) == ("cosine", 0.5, 0.05)
    assert clf.feature_names_in_.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize("file", ["mine/ant/2.png", "./mine/ant/2.png", "ant/2.png", "2.png"])
def test_an_example_is_named_by_its_path_or_the_end_of_it(mine, tmp_path, file):
    before = read_gallery(mine)
    after = remove(before, files=[file])
    assert after.names == [name for name in before.names if name != "mine/ant/2.png"]
    np.testing.assert_array_equal(after.embedded.x, VECTORS[[0, 1, 3, 4, 5]])


def test_the_last_example_takes_its_class_along(mine, gaussproto):
    code, out, err = gaussproto("gallery", "remove", mine, "--example", "3.png", "--example", "0.png")
    assert (code, out) == (0, "")
    assert "the class 'cow' had no other example, so it was removed too" in err
    assert "removed 1 class and 2 examples; the gallery has 2 classes and 4 examples" in err
    assert load(mine).classes_.tolist() == ["ant", "bee"]


def test_a_file_name_of_its_own_goes_before_the_end_of_another_path():
    gallery = gallery_of(["a", "a", "b", "c"], names=["0.png", "", "b/0.png", ""])
    assert remove(gallery, files=["0.png"]).names == ["", "b/0.png", ""]


def test_a_file_that_was_enrolled_twice_is_removed_as_a_whole():
    gallery = gallery_of(["a", "b", "b", "c"], names=["a/0.png", "b/0.png", "b/0.png", "c/0.png"])
    assert remove(gallery, files=["b/0.png"]).labels == ["a", "c"]


@pytest.mark.parametrize("new", ["aardvark", "zebra", "[a], b", "1", "ANT", "日本", "\n"])
def test_renaming_back_restores_every_byte(mine, gaussproto, new):
    before = mine.read_bytes()
    ok(gaussproto("gallery", "rename", mine, "ant", new))
    clf = load(mine)
    assert clf.classes_.tolist() == sorted(["bee", "cow", new])
    np.testing.assert_array_equal(clf.example_embeddings_, VECTORS[:6])
    assert mine.read_bytes() != before
    ok(gaussproto("gallery", "rename", mine, new, "ant"))
    assert mine.read_bytes() == before


@example(labels=["", 1, False], which=1, new="0")
@given(
    labels=st.lists(json_labels, min_size=3, max_size=6),
    which=st.integers(0, 5),
    new=st.text(min_size=1, max_size=4) | st.integers().map(str) | st.floats(allow_nan=False).map(str),
)
@settings(deadline=None, max_examples=150)
def test_laws_for_labels_of_any_type(tmp_path_factory, labels, which, new):
    folder = tmp_path_factory.mktemp("laws")
    try:
        gallery = gallery_of(labels)
        old = labels[which % len(labels)]
        assume(len(gallery.classes) > 2)
        after = rename(gallery, str(old), new)
        again = rename(after, new, str(old)) if str(old) else None
    except InputError:
        assume(False)
    assert find_class(after, new) in after.labels
    assert len(after.classes) == len(gallery.classes)
    kinds = {type(label) for label in labels}
    if again and len(kinds) == 1:
        assert list(map(repr, again.labels)) == list(map(repr, labels))
        assert as_bytes(again, folder) == as_bytes(gallery, folder)
    left = remove(gallery, [str(old)])
    assert old not in left.labels
    back = merge([("left", left), ("all", gallery)])
    assert back.known == len(left.labels)
    assert back.gallery.settings == gallery.settings
    assert sorted(map(repr, back.gallery.labels)) == sorted(map(repr, labels))
    assert as_bytes(merge([("back", back.gallery), ("all", gallery)]).gallery, folder) == as_bytes(back.gallery, folder)


@pytest.mark.parametrize(
    ("labels", "old", "new", "expected"),
    [
        ([1, 2, 3], "2", "20", [1, 20, 3]),
        ([1, 2, 3], "2", "two", [1, "two", 3]),
        ([1, "two", 3], "two", "2", [1, 2, 3]),
        ([1, 2, 3], "2", "02", [1, "02", 3]),
        ([0.5, 1.5, 2.5], "1.5", "-7.25", [0.5, -7.25, 2.5]),
        ([("left", 1), ("left", 2), ("x",)], "('left', 2)", "('right', 2)", [("left", 1), ("right", 2), ("x",)]),
        ([("a", 1), ("b", 1), ("c", 1)], "('b', 1)", "([1], 2)", [("a", 1), "([1], 2)", ("c", 1)]),
        (["a", "b", "c"], "b", "5", ["a", "5", "c"]),
    ],
)
def test_a_new_name_gets_the_type_of_the_others(labels, old, new, expected):
    assert rename(gallery_of(labels), old, new).labels == expected


def test_joining_is_fitting_with_one_label(mine, gaussproto):
    found = json.loads(ok(gaussproto("gallery", "rename", mine, "cow", "bee", "--join", "--json")))
    assert (found["old"], found["new"], found["joined"], found["renamed_examples"]) == ("cow", "bee", True, 1)
    clf, expected = load(mine), fitted(["ant", "bee", "ant", "bee", "bee", "ant"], distance="cosine")
    np.testing.assert_array_equal(clf.prototypes_, expected.prototypes_)
    assert clf.example_labels_.tolist() == expected.example_labels_.tolist()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_merging_is_fitting_on_both(characters, tmp_path, gaussproto, covariance):
    X, y, _ = uneven_examples(characters)
    net = network(covariance)
    one, two = list(range(6)), [0, 4, *range(5, len(y))]  # three examples are in both
    for name, some in (("one", one), ("two", two)):
        GaussianPrototypeClassifier(net).fit(X[some], [y[i] for i in some]).save(tmp_path / name)
    found = json.loads(
        ok(gaussproto("gallery", "merge", tmp_path / "out", tmp_path / "one", tmp_path / "two", "--json"))
    )
    assert (found["known"], found["classes"], found["total_examples"]) == (3, 4, len(y))
    assert set(found["joined"]) == {y[i] for i in one} & {y[i] for i in two}
    clf, expected = load(tmp_path / "out", encoder=net), GaussianPrototypeClassifier(net).fit(X, y)
    assert clf.example_labels_.tolist() == y
    for name in ("example_embeddings_", "example_precisions_", "prototypes_", "precisions_", "example_weights_"):
        mine, theirs = getattr(clf, name), getattr(expected, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_merging_again_adds_nothing(mine, tmp_path, gaussproto):
    other = saved(fitted(["dog", "ant"], VECTORS[[6, 0]]), tmp_path / "other.gallery")
    code, _, err = gaussproto("gallery", "merge", "both", mine, other)
    assert code == 0
    assert "in several galleries, so joined: ant" in err
    assert "the galleries differ in distance, temperature, reject: kept what" in err
    assert "both: merged 2 galleries, skipped 1 duplicate; the gallery has 4 classes and 7 examples" in err
    before = (tmp_path / "both").read_bytes()
    found = json.loads(ok(gaussproto("gallery", "merge", "both", "both", other, mine, mine, "--json")))
    assert found["known"] == 2 + 6 + 6
    assert (tmp_path / "both").read_bytes() == before
    clf = load(tmp_path / "both")
    expected = fitted(["ant", "bee", "ant", "cow", "bee", "ant", "dog"], distance="cosine")
    np.testing.assert_array_equal(clf.prototypes_, expected.prototypes_)
    assert (clf.distance, clf.temperature, clf.reject) == ("cosine", 0.5, 0.05)


def test_the_order_of_the_galleries_does_not_change_the_classes():
    a, b = gallery_of(["a", "c"]), gallery_of(["d", "b"], VECTORS[4:])
    one, two = (merge(pairs).gallery.examples() for pairs in ([("a", a), ("b", b)], [("b", b), ("a", a)]))
    assert one.classes == two.classes == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(one.prototypes.x, two.prototypes.x)


def test_what_the_first_gallery_lacks_comes_from_the_others():
    a, b = gallery_of(["a", "c"], source=None), gallery_of(["d", "b"], VECTORS[4:], feature_names=["x", "y", "z"])
    settings = merge([("a", a), ("b", b)]).gallery.settings
    assert (settings.source, settings.feature_names) == ("identity", ["x", "y", "z"])


def test_duplicates_within_one_gallery_stay():
    twice = gallery_of(["a", "a", "b"], np.array([[1.0], [1.0], [2.0]]))
    merged = merge([("twice", twice), ("other", gallery_of(["b", "c"], np.array([[3.0], [4.0]])))])
    assert (merged.known, merged.gallery.labels) == (0, ["a", "a", "b", "b", "c"])


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e200, 1e300])
def test_duplicates_are_found_at_every_scale(scale):
    known = scale * np.array([[1.0, 2.0], [3.0, 4.0]])
    x = np.concatenate([known * (1 + 1e-7), known[::-1], known * 1.01])
    assert not_known(known, ["a", "a"], x, ["a"] * 6) == [4, 5]
    assert not_known(known, ["a", "a"], x, ["b"] * 6) == list(range(6))
    assert not_known(np.zeros((1, 2)), ["a"], np.zeros((1, 2)), ["a"]) == []


@pytest.mark.parametrize("shape", [{"image_size_used": 20}, {"ink_used": "dark"}, {"digest": "other"}])
def test_galleries_of_another_kind_are_not_merged(shape):
    with pytest.raises(InputError, match=r"one\.gallery and two\.gallery were made with different .* again"):
        merge([("one.gallery", gallery_of(["a", "b"])), ("two.gallery", gallery_of(["a", "b"], **shape))])


def test_vectors_of_another_kind_are_not_merged():
    a = gallery_of(["a", "b"], feature_names=["x", "y", "z"])
    with pytest.raises(InputError, match=r"one and two hold different kinds of vectors .*3 and 2 numbers"):
        merge([("one", a), ("two", gallery_of(["a", "b"], VECTORS[:, :2]))])
    with pytest.raises(InputError, match=r"one and two hold different kinds of vectors .*names of their columns"):
        merge([("one", a), ("two", gallery_of(["a", "b"], feature_names=["z", "y", "x"]))])
    with pytest.raises(InputError, match=r"cannot merge one and two, because the label '1' \(str\) also appears as 1"):
        merge([("one", gallery_of([1, 2])), ("two", gallery_of(["1", "2"]))])


def test_the_list_says_what_is_in_the_file(characters, tmp_path, monkeypatch, gaussproto):
    X, y, _ = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network(), ink="dark", distance="cosine").fit(X, y)
    clf.save(tmp_path / "mine")
    before = (tmp_path / "mine").read_bytes()
    found = json.loads(ok(gaussproto("gallery", "list", tmp_path / "mine", "--json", "--examples")))
    assert (found["encoder"], found["digest"], found["distance"]) == (None, clf.encoder_.digest, "cosine")
    assert (found["ink"], found["image_size"], found["features"]) == ("dark", 28, None)
    assert (found["classes"], found["total_examples"]) == (4, len(y))
    assert [example["label"] for example in found["examples"]] == y
    assert [example["weight"] for example in found["examples"]] == clf.example_weights_.tolist()
    for entry, label in zip(found["per_class"], clf.classes_, strict=True):
        of_class = clf.example_weights_[clf.example_labels_ == label]
        assert (entry["label"], entry["examples"], entry["weight"]) == (label, len(of_class), of_class.min())
    shown = ok(gaussproto("gallery", "list", tmp_path / "mine"))
    assert all(label in shown for label in set(y))
    assert clf.encoder_.digest[:12] in shown
    assert (tmp_path / "mine").read_bytes() == before


def test_no_command_needs_the_weights_or_torch(characters, tmp_path, weights):
    """The weights of both galleries are gone."""
    there = tmp_path / "there.safetensors"
    shutil.copy(weights, there)
    X, y, _ = uneven_examples(characters)
    GaussianPrototypeClassifier(there).fit(X, y).save(tmp_path / "one")
    GaussianPrototypeClassifier(there).fit(X[:4], ["b", "b", "a", "b"]).save(tmp_path / "two")
    there.unlink()
    program = (
        "import sys\n"
        "from gaussproto.cli import app\n"
        "for line in sys.argv[1:]:\n"
        "    app(['gallery', *line.split()], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    lines = ["list one", "rename two a z", "merge out one two", "remove out z", "list out --examples"]
    result = subprocess.run(
        [sys.executable, "-c", program, *lines], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "there.safetensors" in result.stdout
    clf = load(tmp_path / "out", encoder=weights)
    assert clf.classes_.tolist() == ["b", *sorted(set(y))]


MISTAKES = [
    (["list"], "Missing argument 'GALLERY'"),
    (["list", "nothing"], "the gallery nothing does not exist"),
    (["list", "text"], "text is not a gallery file"),
    (["lost", "my.gallery"], "No such command 'lost'"),
    (["remove", "my.gallery"], "nothing to remove: name a class, or pass an example with --example FILE"),
    (["remove", "no/thing", "ant"], "the gallery no/thing does not exist"),
    (["remove", "text", "ant"], "text is not a gallery file"),
    (["remove", "my.gallery", "ants"], "unknown class 'ants': did you mean 'ant'?"),
    (["remove", "my.gallery", "ant", "unicorn"], "unknown class 'unicorn': `gaussproto gallery list` shows"),
    (["remove", "my.gallery", "ant", "bee"], "two classes must remain (this would leave only 'cow')"),
    (["remove", "my.gallery", "ant", "bee", "cow"], "two classes must remain (this would leave none)"),
    (["remove", "my.gallery", "ant", "--example", "mine/cow/3.png"], "must remain (this would leave only 'bee')"),
    (["remove", "my.gallery", "--example", "7.png"], "no example is from the file '7.png': did you mean"),
    (["remove", "my.gallery", "--example", ""], "no example is from the file ''"),
    (["remove", "twins", "--example", "0.png"], "'0.png' is ambiguous (found 2 examples, such as 'a/0.png' and"),
    (["rename", "my.gallery", "ant"], "Missing argument 'NEW'"),
    (["rename", "my.gallery", "ants", "x"], "unknown class 'ants': did you mean 'ant'?"),
    (["rename", "my.gallery", "ant", "bee"], "'bee' exists already: pass --join to add the examples of 'ant' to it"),
    (["rename", "my.gallery", "ant", "ant"], "must be another one (found 'ant')"),
    (["rename", "my.gallery", "ant", ""], "must not be empty"),
    (["rename", "my.gallery", "ant", "be", "--join"], "unknown class 'be': did you mean 'bee'?"),
    (["rename", "twins", "a", "b", "--join"], "two classes must remain (this would leave only 'b')"),
    (["rename", "mixed", "1", "x"], "the class '1' is ambiguous (found str and int)"),
    (["remove", "mixed", "1"], "the class '1' is ambiguous (found str and int)"),
    (["merge", "new"], "GALLERY"),
    (["merge", "new", "my.gallery"], "merge needs at least two galleries after OUT (found 1)"),
    (["merge", "new", "my.gallery", "nothing"], "the gallery nothing does not exist"),
    (["merge", "new", "my.gallery", "text"], "text is not a gallery file"),
    (["merge", "twins", "my.gallery", "my.gallery"], "twins exists already: choose another name for OUT, or also"),
    (
        ["merge", "new", "my.gallery", "other"],
        "my.gallery and other were made with different weights (identity, digest",
    ),
    (["merge", "text/new", "my.gallery", "my.gallery"], "cannot write text/new"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES)
def test_a_mistake_is_one_line_and_changes_no_file(mine, tmp_path, gaussproto, arguments, sentence):
    saved(fitted(["a", "b"], names=["a/0.png", "b/0.png"]), tmp_path / "twins")
    (tmp_path / "text").write_text("I am text")
    of_others = gallery_of(["a", "b"], digest="0123456789abcdef", source="theirs.safetensors")
    write_gallery(of_others.settings, of_others.examples(), tmp_path / "other")
    plain = Examples.of(Embedded(VECTORS[:3]), ["1", "2", "3"], [""] * 3)
    plain.classes[1] = 1  # no version of gaussproto writes such a file
    write_gallery(of_others.settings, plain, tmp_path / "mixed")
    before = contents(tmp_path)
    code, out, err = gaussproto("gallery", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert contents(tmp_path) == before


def contents(folder):
    """Every file except locks, which are empty."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.mark.parametrize(
    "arguments",
    [["remove", "my.gallery", "ant"], ["rename", "my.gallery", "ant", "x"], ["merge", "my.gallery", "my.gallery", "b"]],
)
def test_who_comes_second_is_told_to_wait(mine, tmp_path, gaussproto, arguments):
    saved(fitted(["a", "b"]), tmp_path / "b")
    before = contents(tmp_path)
    with locked(lock_beside(mine), mine, "wait"):
        code, _, err = gaussproto("gallery", *arguments)
        assert gaussproto("gallery", "list", mine)[0] == 0
    assert code == 2
    assert "another process is using my.gallery: wait until it has finished" in err
    assert contents(tmp_path) == before
    ok(gaussproto("gallery", *arguments))
    assert contents(tmp_path) != before


def test_the_group_alone_shows_its_commands(gaussproto):
    code, out, err = gaussproto("gallery")
    assert (code, err) == (0, "")
    assert all(command in out for command in ("list", "remove", "rename", "merge"))
