"""Natural mistakes in Python get a sentence."""

import numpy as np
import pytest
import torch

import gaussproto as gp


@pytest.fixture(scope="module")
def network():
    return gp.load_network("drawings-small")


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (lambda net, data: gp.train("demo", data), r"config must be a RunConfig \(found 'demo'\): .*preset"),
        (lambda net, data: gp.train(gp.preset("demo"), "runs/x"), "a LabelledImages object .* third argument"),
        (lambda net, data: gp.train(gp.preset("demo"), np.zeros((9, 28, 28))), r"found ndarray\)"),
        (lambda net, data: gp.embed_all("drawings-small", data), r"gaussproto\.load_network"),
        (lambda net, data: gp.embed_all(net, torch.rand(3, 28, 28)), r"shape \(N, 1, H, W\).*found \(3, 28, 28\)"),
        (lambda net, data: gp.embed_all(net, torch.rand(3, 3, 28, 28)), r"found \(3, 3, 28, 28\)"),
        (lambda net, data: gp.embed_all(net, torch.rand(0, 1, 28, 28)), "no images"),
        (lambda net, data: gp.evaluate("drawings-small", data), r"gaussproto\.load_network"),
        (lambda net, data: gp.evaluate(net, data.images), r"images must be a LabelledImages object \(found Tensor\)"),
        (lambda net, data: gp.LabelledImages.from_labels("shapes", ["a"]), "one array of pixels|shape"),
    ],
)
def test_a_mistake_is_one_sentence(network, characters, tmp_path, monkeypatch, mistake, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gp.InputError, match=sentence) as caught:
        mistake(network, characters)
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_arrays_and_single_numbers_are_taken(network, characters):
    some = characters.select(range(6))
    assert torch.equal(gp.embed_all(network, some.images.numpy()).x, gp.embed_all(network, some).x)
    assert gp.evaluate(network, some, ways=5, shots=1, rounds=1).score(5, 1).accuracy > 0.5
