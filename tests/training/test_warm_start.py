import os
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.encoders.torch import arrays_of
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import Calibration
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.presets import preset
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.weights import digest_of, weights_digest, write_calibration
from gaussproto.training.step import learning_rate
from gaussproto.training.train import train
from gaussproto.training.warm_start import take_weights

TINY = {"episodes": 12, "way": 8, "checkpoint_every": 4, "distort": 0}


def started(weights, **settings):
    """A network as it is before its first episode, and what was said."""
    config = preset("finetune", init=weights, **settings)
    network = GaussianPrototypicalNetwork(config.network)
    said = take_weights(network, config)
    return network.eval(), said


def test_the_network_is_that_of_the_weights_unless_it_is_given(weights):
    known = load_checkpoint(weights).config
    config = preset("fast-small-radius", init=weights)
    assert config.network == known.network
    assert config.data.ink == "detect"  # as in `classify`: the weights know drawn characters
    assert (config.training.init, config.training.init_digest) == (str(weights), weights_digest(weights))
    assert config.episode == preset("fast-small-radius").episode
    mine = preset("finetune", init=weights, covariance="none", channels=3, image_size=84, ink="dark")
    assert mine.network == known.network.model_copy(update={"covariance": "none", "channels": 3})
    assert (mine.data.image_size, mine.data.channels, mine.data.ink) == (84, 3, "dark")
    assert preset("finetune", init=None).training.init is None


def test_it_starts_as_the_network_that_the_weights_are(weights, characters):
    network, said = started(weights)
    assert said == f"training starts from the weights {weights}"
    known = load_checkpoint(weights).network().eval()
    for mine, theirs in zip(network.embed(characters.images[:9]), known.embed(characters.images[:9]), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("size", [28, 84])
def test_grey_in_three_channels_is_what_it_was_in_one(weights, characters, size, tmp_path):
    """And back, from a run on colour to grey images; whatever the size."""
    grey = torch.nn.functional.interpolate(characters.images[:6].float() / 255, size=(size, size))
    one = load_checkpoint(weights).network().eval()
    three, said = started(weights, channels=3, image_size=size)
    assert "the first convolution is converted from 1 to 3 channels" in said
    assert ("the weights were trained on 28 x 28 pixels, but this run has 84 x 84" in said) == (size == 84)
    for mine, theirs in zip(three.embed(grey.expand(-1, 3, -1, -1)), one.embed(grey), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(three.embed(torch.rand(6, 3, size, size)).x, one.embed(grey).x)

    colour = characters.images.expand(-1, 3, -1, -1).contiguous()
    images = type(characters)(colour, characters.counts, characters.classes, characters.alphabets)
    train(preset("finetune", init=weights, channels=3, image_size=size, **TINY), images, tmp_path / "colour")
    three = load_checkpoint(tmp_path / "colour" / "checkpoints" / "last.safetensors").network().eval()
    one, said = started(tmp_path / "colour", channels=1)
    assert "converted from 3 to 1 channels" in said
    for mine, theirs in zip(one.embed(grey), three.embed(grey.expand(-1, 3, -1, -1)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_begins_anew(weights, characters):
    known = load_checkpoint(weights).network().eval()
    x = known.embed(characters.images[:9]).x
    network, said = started(weights, covariance="diagonal")
    assert "the precision starts from new values, because covariance changes from radius to diagonal" in said
    torch.testing.assert_close(network.embed(characters.images[:9]).x, x)
    network, said = started(weights, embedding_dim=5)
    assert "the last block starts from new values, because embedding_dim changes from 16 to 5" in said
    for mine, theirs in zip(network.encoder.blocks[:-1], known.encoder.blocks[:-1], strict=True):
        assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in mine.state_dict().items())
    network, said = started(weights, transform="learned_softplus")
    assert torch.equal(network.embed(characters.images[:9]).x, x)


def test_weights_with_a_grid_keep_their_areas(characters, tmp_path):
    """Another covariance copies the embedding's channels, of which there are fewer than numbers in the embedding."""
    deep = {"filters": (8, 8), "residual": (0, 1, 1), "grid": 2, "embedding_dim": 16, "covariance": "radius"}
    train(preset("demo", data="strokes", **deep, **TINY), characters, tmp_path / "deep")
    known = load_checkpoint(tmp_path / "deep" / "checkpoints" / "last.safetensors").network().eval()
    network, said = started(tmp_path / "deep", covariance="diagonal")
    assert "the precision starts from new values" in said
    torch.testing.assert_close(network.embed(characters.images[:9]).x, known.embed(characters.images[:9]).x)
    network, said = started(tmp_path / "deep", embedding_dim=32)
    assert "the last block starts from new values" in said
    before, after = known.encoder.blocks[2].residuals, network.encoder.blocks[2].residuals
    assert all(torch.equal(value, before.state_dict()[name]) for name, value in after.state_dict().items())
    for name, change in (("grid", {"grid": 4}), ("residual convolutions", {"residual": (0, 2)})):
        config = preset("finetune", init=tmp_path / "deep", **change, **TINY)
        with pytest.raises(InputError, match=f"have the {name} .* but this run has .*leave out --encoder"):
            train(config, characters, tmp_path / "other")


def test_training_goes_on_from_the_weights(weights, characters, tmp_path):
    """Adam moves no weight much further than the learning rate in an episode, so it is near them still."""
    train(preset("finetune", init=weights, **TINY | {"episodes": 3}), characters, tmp_path / "run")
    before, after = load_file(weights), load_file(tmp_path / "run" / "checkpoints" / "last.safetensors")
    rate = preset("finetune", init=weights).training.learning_rate
    moved = [(after[name] - before[name]).abs().max() for name in before if name.endswith("conv.weight")]
    assert all(0 < change < 3 * 1.5 * rate for change in moved)


def test_a_run_remembers_where_it_started(weights, characters, tmp_path, monkeypatch):
    """Stopped and resumed, it is bit for bit the run that was never stopped, and needs the first weights no more."""
    init = tmp_path / "init.safetensors"
    shutil.copy(weights, init)
    config = preset("finetune", init=init, **TINY)
    train(config, characters, tmp_path / "whole")

    def rate_and_signal(training, episode):
        if episode == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return learning_rate(training, episode)

    monkeypatch.setattr("gaussproto.training.train.learning_rate", rate_and_signal)
    train(config, characters, tmp_path / "parts")
    monkeypatch.undo()
    init.unlink()
    again = preset(str(tmp_path / "parts"))
    assert again.training.init_digest == weights_digest(weights)
    train(again, characters, tmp_path / "parts", resume=True)
    whole, parts = (load_file(tmp_path / name / "checkpoints" / "last.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_weights_are_themselves_in_any_file(weights, tmp_path):
    """With the state of a training beside them or without, and in half precision what they are then worth."""
    checkpoint = load_checkpoint(weights)
    assert any(name.startswith("optimizer/") for name in checkpoint.tensors)
    network = checkpoint.network()
    assert weights_digest(weights) == digest_of(network.config, arrays_of(network))
    tensors = {name: t.half() if t.dim() == 4 else t for name, t in network.state_dict().items()}
    write_arrays(tmp_path / "half.safetensors", tensors, read_arrays(weights, "weights file").metadata)
    half = load_checkpoint(tmp_path / "half.safetensors").network()
    assert weights_digest(tmp_path / "half.safetensors") == digest_of(half.config, arrays_of(half))


def test_weights_that_learn_how_sure_they_are_stay_themselves(weights, characters, tmp_path):
    path = tmp_path / "init.safetensors"
    path.write_bytes(weights.read_bytes())
    before = preset("finetune", init=str(path))
    write_calibration(path, Calibration(temperature=2, thresholds=tuple(range(9, 0, -1)), classes=9, held_out=False))
    assert preset("finetune", init=str(path)) == before
    path.unlink()
    with pytest.raises(InputError, match=r"the weights file .* does not exist"):
        train(before, characters, tmp_path / "run")


def test_other_weights_are_another_run(weights, characters, tmp_path):
    init = tmp_path / "init.safetensors"
    shutil.copy(weights, init)
    train(preset("finetune", init=init, **TINY), characters, tmp_path / "run")
    shutil.copy(tmp_path / "run" / "checkpoints" / "last.safetensors", init)
    with pytest.raises(InputError, match=r"contains a run with other settings .*init_digest"):
        train(preset("finetune", init=init, **TINY), characters, tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="have changed since this run started: restore them"):
        train(preset(str(tmp_path / "run")), characters, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_weights_that_do_not_fit_at_all(weights, characters, tmp_path):
    with pytest.raises(InputError, match="have the filters 16,16,16, but this run has 8,8,8: leave out"):
        train(preset("finetune", init=weights, filters="8,8,8", **TINY), characters, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match=r"'nothing' is not a run folder, a \.safetensors file or bundled weights"):
        preset("finetune", init="nothing")
    with pytest.raises(InputError, match=r"the weights file .* does not exist"):
        preset("finetune", init=tmp_path / "nothing.safetensors")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="is not a run folder"):
        preset("finetune", init=tmp_path / "folder")


def test_classes_that_the_weights_were_trained_on_are_no_test(weights, characters, tmp_path):
    settings = TINY | {"data": str(tmp_path), "init": weights}
    sides = characters.classes[:20], characters.classes[20:40]
    first = preset("finetune", split={"train": sides[0], "test": sides[1]}, **settings)
    train(first, replace(characters.select(range(20)), source=first.data), tmp_path / "first")
    said = []
    again = preset("finetune", split={"train": sides[1], "test": sides[0]}, **settings | {"init": tmp_path / "first"})
    train(again, replace(characters.select(range(20, 40)), source=again.data), tmp_path / "again", say=said.append)
    assert "trained on 20 of the test classes" in said[-1]
