"""The way from an image to its label is short, and changes nothing on the way."""

import copy
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gaussproto as gp
from gaussproto.classifier import examples
from gaussproto.training import memory

PACKAGE = Path(gp.__file__).parent


@pytest.fixture
def folder(characters, tmp_path):
    """Three classes of four images, as files of dark ink on white paper, and a query of each."""
    for c in range(3):
        (tmp_path / "support" / f"c{c}").mkdir(parents=True)
        for i in range(5):
            place = tmp_path / (f"support/c{c}/{i}.png" if i else f"query{c}.png")
            Image.fromarray(255 - characters.images[20 * c + i, 0].numpy()).save(place)
    return tmp_path


def visited(call):
    """The files of the package whose code runs."""
    files = set()

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            files.add(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def test_predict_visits_few_files_and_none_of_training(folder):
    clf = gp.GaussianPrototypeClassifier("drawings-small").fit(folder / "support")
    files = visited(lambda: clf.predict([str(folder / "query0.png")]))
    assert len(files) <= 18, sorted(files)
    assert not any(name.startswith(("training", "evaluation", "report")) for name in files)


def test_weights_are_opened_once(folder, monkeypatch):
    opened, system_open = [], os.open

    def note(path, *arguments, **options):
        opened.append(str(path))
        return system_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", note)
    monkeypatch.setattr("safetensors.safe_open", lambda *_, **__: pytest.fail("opened a second time"))
    clf = gp.GaussianPrototypeClassifier("drawings-small").fit(folder / "support")
    assert len([name for name in opened if name.endswith(".safetensors")]) == 1
    opened.clear()
    clf.predict([str(folder / "query0.png")])
    assert not [name for name in opened if name.endswith(".safetensors")]


def test_thresholds_are_computed_once_for_the_same_examples(folder, monkeypatch):
    calls = []
    compute = examples.left_out_distances
    monkeypatch.setattr(examples, "left_out_distances", lambda *a: calls.append(1) or compute(*a))
    clf = gp.GaussianPrototypeClassifier("drawings-small", reject=0.1).fit(folder / "support")
    first = clf.confidence([folder / "query0.png"]).thresholds
    for _ in range(3):
        clf.predict([folder / "query1.png"])
    assert len(calls) == 1
    clf.partial_fit([folder / "query2.png"], ["c2"])
    assert not np.array_equal(clf.confidence([folder / "query0.png"]).thresholds, first)
    assert len(calls) == 2


def test_a_picture_embeds_and_decodes_the_images_once(folder, gaussproto, monkeypatch):
    embedded, decoded = [], []
    from gaussproto.classifier import inputs
    from gaussproto.classifier.encoders.torch import TorchEncoder

    embed, decode = TorchEncoder.__call__, inputs.read_image
    monkeypatch.setattr(TorchEncoder, "__call__", lambda self, x: embedded.append(len(x)) or embed(self, x))
    monkeypatch.setattr(inputs, "read_image", lambda path, name, *how: decoded.append(name) or decode(path, name, *how))
    queries = [str(folder / f"query{c}.png") for c in range(3)]
    code, _, err = gaussproto(
        "classify",
        "--support",
        folder / "support",
        *queries,
        "--encoder",
        "drawings-small",
        "--explain",
        folder / "why.png",
    )
    assert code == 0, err
    assert embedded == [12, 3]  # the examples, then the queries
    assert [decoded.count(query) for query in queries] == [2, 2, 2]  # once more for the picture as it came


def test_the_allocator_is_left_alone_by_library_calls(folder, characters, weights, monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda *_: pytest.fail("the allocator was touched"))
    memory.keep_freed_memory.cache_clear()
    network = gp.load_network(weights)
    gp.evaluate(network, characters, ways=[5], shots=[1], rounds=1)
    gp.embed_all(network, characters.images[:4])
    gp.GaussianPrototypeClassifier(network).fit(folder / "support").predict([folder / "query0.png"])


def test_the_callers_network_stays_as_it_was(characters, weights):
    """Neither evaluation nor a classifier changes the mode, the statistics or the memory layout of a network."""
    network = gp.load_network(weights).train()
    before = copy.deepcopy(network.state_dict())
    layout = [parameter.stride() for parameter in network.parameters()]
    images, labels = characters.images[:60, 0].numpy(), np.arange(3).repeat(20)
    clf = gp.GaussianPrototypeClassifier(network, ink="bright").fit(images, labels)
    clf.predict(images)
    gp.evaluate(network, characters, ways=[5], shots=[1], rounds=1)
    gp.evaluate(network, characters, ways=[5], shots=[1], rounds=1, norm="batch")
    assert network.training
    assert [parameter.stride() for parameter in network.parameters()] == layout
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_threads_may_share_a_classifier_on_a_network_in_training(characters, weights):
    network = gp.load_network(weights).train()
    images, labels = characters.images[:100, 0].numpy(), np.arange(5).repeat(20)
    clf = gp.GaussianPrototypeClassifier(network, ink="bright").fit(images[::4], labels[::4])
    expected = clf.predict(images)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: clf.predict(images[i : i + 1])[0], list(range(100)) * 4))
    assert answers == expected.tolist() * 4
