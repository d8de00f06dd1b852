import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from gaussproto import GaussianPrototypeClassifier, GaussianPrototypicalNetwork, NetworkConfig, load
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.encoders.torch import arrays_of
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded
from gaussproto.runs.weights import digest_of
from tests.classifier.test_estimator import SMALL, assert_same, network, state, uneven_examples
from tests.data.test_labels import json_labels, typed

COVARIANCES = ["none", "radius", "diagonal", "full"]


def weights_digest(net):
    return digest_of(net.config, arrays_of(net))


def whole_state(clf):
    return {name: value for name, value in state(clf).items() if name != "encoder"}


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_loaded_classifier_is_the_saved_one(characters, tmp_path, covariance):
    X, y, queries = uneven_examples(characters)
    net = network(covariance)
    clf = GaussianPrototypeClassifier(net, ink="bright", temperature=0.5, image_size=20, distance="cosine").fit(X, y)
    clf.save(tmp_path / "my.gallery")
    loaded = load(tmp_path / "my.gallery", encoder=net)
    assert_same(whole_state(loaded), whole_state(clf))
    np.testing.assert_array_equal(loaded.predict_proba(queries), clf.predict_proba(queries))
    for each in (clf, loaded):
        each.partial_fit(queries[:2], ["new", "class 0"]).forget("class 1")
    assert_same(whole_state(loaded), whole_state(clf))


@given(
    labels=st.lists(json_labels, min_size=2, max_size=6, unique_by=(str, lambda label: label)),
    names=st.lists(st.text(max_size=5), min_size=6, max_size=6),
)
@settings(deadline=None, max_examples=60)
def test_every_label_that_json_can_carry_comes_back_exactly(tmp_path_factory, labels, names):
    path = tmp_path_factory.mktemp("labels") / "it"
    clf = GaussianPrototypeClassifier("identity")
    clf.restore(find_encoder("identity"), Embedded(np.eye(6)[: len(labels)]), labels, names[: len(labels)])
    clf.n_features_in_ = 6
    clf.save(path)
    loaded = load(path)
    assert_same(state(loaded), state(clf))
    for mine, theirs in ((loaded.classes_, clf.classes_), (loaded.predict(np.eye(6)), clf.predict(np.eye(6)))):
        assert list(map(typed, mine.tolist())) == list(map(typed, theirs.tolist()))


def test_labels_that_json_cannot_carry_leave_the_file_as_it_was(tmp_path):
    clf = GaussianPrototypeClassifier("identity").fit(np.eye(2), ["a", "b"])
    clf.save(tmp_path / "it")
    before = (tmp_path / "it").read_bytes()
    with pytest.raises(InputError, match=r"cannot save the label b'b' \(bytes\)"):
        clf.partial_fit(np.eye(2), [b"b", b"c"]).save(tmp_path / "it")
    assert (tmp_path / "it").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_other_weights_are_refused(characters, tmp_path, weights):
    X, y, _ = uneven_examples(characters)
    GaussianPrototypeClassifier(weights).fit(X, y).save(tmp_path / "my.gallery")
    assert load(tmp_path / "my.gallery").classes_.tolist() == sorted(set(y))
    assert load(str(tmp_path / "my.gallery"), weights.parent.parent).classes_.tolist() == sorted(set(y))  # its run
    for other in (network(), "identity"):
        with pytest.raises(InputError, match="was made with other weights"):
            load(tmp_path / "my.gallery", encoder=other)


def test_weights_that_moved_can_be_named(characters, tmp_path, weights):
    X, y, queries = uneven_examples(characters)
    there = tmp_path / "there.safetensors"
    shutil.copy(weights, there)
    clf = GaussianPrototypeClassifier(there).fit(X, y)
    clf.save(tmp_path / "my.gallery")
    there.rename(tmp_path / "here.safetensors")
    with pytest.raises(InputError, match=r"cannot open the weights of .*there\.safetensors.*: pass the weights"):
        load(tmp_path / "my.gallery")
    loaded = load(tmp_path / "my.gallery", encoder=tmp_path / "here.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(queries), clf.predict_proba(queries))


def test_the_digest_is_of_the_function_not_of_the_file(weights):
    run = weights.parent.parent
    kept = next(run.glob("checkpoints/episode-*.safetensors"))  # the same weights without the optimiser's state
    assert find_encoder(str(run)).digest == find_encoder(weights).digest == find_encoder(kept).digest
    net = network()
    digest = weights_digest(net)
    assert weights_digest(network()) == digest
    assert weights_digest(network(distance="cosine")) != digest
    with torch.no_grad():
        net.encoder.blocks[0].conv.weight[0, 0, 0, 0] += 1e-6
    assert weights_digest(net) != digest


def test_the_file_holds_plain_arrays(characters, tmp_path):
    X, y, _ = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(network()).fit(X, y)
    clf.save(tmp_path / "my.gallery")
    with safe_open(tmp_path / "my.gallery", framework="numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("prototypes"), clf.prototypes_)
        np.testing.assert_array_equal(file.get_tensor("precisions"), clf.precisions_)
        np.testing.assert_array_equal(file.get_tensor("embeddings"), clf.example_embeddings_)
        assert clf.classes_[file.get_tensor("labels")].tolist() == y


@given(cut=st.floats(0, 1, exclude_max=True))
@settings(deadline=None, max_examples=30)
def test_a_cut_file_is_refused(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "it"
    GaussianPrototypeClassifier("identity").fit(np.eye(3), list("abc")).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(InputError, match=r"is not a (readable gallery|gallery file)"):
        load(path)


@given(where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(deadline=None, max_examples=300)
def test_a_spoiled_file_is_refused_or_still_whole(tmp_path_factory, where, flip):
    path = tmp_path_factory.mktemp("spoiled") / "it"
    written = GaussianPrototypeClassifier("identity").fit(np.eye(3), ["a", ("b", 1), 2])
    written.save(path)
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= flip
    path.write_bytes(content)
    try:
        clf = load(path)
    except InputError:
        return
    assert_same(state(clf), state(written))  # a blank of the header


def test_what_is_no_gallery(tmp_path, weights):
    with pytest.raises(InputError, match=r"the gallery .* does not exist"):
        load(tmp_path / "nothing")
    with pytest.raises(InputError, match="but not a gallery"):
        load(weights)
    (tmp_path / "text").write_text("I am text")
    with pytest.raises(InputError, match=r"text is not a gallery file$"):
        load(tmp_path / "text")


def test_a_backbone_of_ones_own(characters, tmp_path):
    backbone = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten())
    net = GaussianPrototypicalNetwork(NetworkConfig(**SMALL), backbone=backbone, features=49)
    X, y, queries = uneven_examples(characters)
    clf = GaussianPrototypeClassifier(net).fit(X, y)
    clf.save(tmp_path / "my.gallery")
    loaded = load(tmp_path / "my.gallery", encoder=net)
    assert loaded.predict(queries).tolist() == clf.predict(queries).tolist()


def test_a_gallery_is_a_file_like_any_other(tmp_path):
    clf = GaussianPrototypeClassifier("identity").fit(np.eye(2), ["a", "b"])
    clf.save(tmp_path / "it")
    (tmp_path / "other").touch()
    assert (tmp_path / "it").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "it").chmod(0o640)
    clf.save(tmp_path / "it")
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o640
