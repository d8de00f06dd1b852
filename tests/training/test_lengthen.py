"""A run can be given more episodes; its files say what it was trained on and how."""

import json
from dataclasses import replace

import pytest
import torch

from gaussproto import InputError, LabelledImages, preset, train
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.config import GIVEN, Stage
from gaussproto.data.load import load_data
from gaussproto.files import read_json, write_json
from gaussproto.runs.folder import RunFolder
from gaussproto.training.step import learning_rate

TINY = {"filters": "4,4,4", "embedding_dim": 4, "way": 5, "query": 1, "splits": 1, "checkpoint_every": 4}


def tiny(**settings):
    return preset("fast-small-radius", **TINY | {"episodes": 8} | settings)


def test_a_finished_run_is_lengthened(characters, tmp_path):
    run = RunFolder(tmp_path / "run")
    train(tiny(), characters, run.path)
    records, sentences = [], []
    result = train(
        preset(str(run.path), episodes=20),
        characters,
        run.path,
        resume=True,
        lengthen=True,
        on_log=records.append,
        say=sentences.append,
    )
    assert result.episodes == 20
    assert sentences == ["the run is lengthened to 20 episodes"]
    assert [record.episode for record in run.read_log()] == [8, 10, 20]
    config = json.loads(run.config.read_text())
    assert [stage["episodes"] for stage in config["training"]["stages"]] == [20]
    assert config["about"].endswith("; episodes 20")
    summary = run.read_metrics().training
    assert (summary.episodes, summary.lengthened) == (20, (8,))
    assert records[0].learning_rate == learning_rate(result.config.training, 9) > 0  # of the new length
    assert run.ended


def test_the_last_stage_grows_and_the_others_stay(characters, tmp_path):
    stages = (Stage(episodes=4), Stage(episodes=4, damage=((7, 0.5),)))
    config = tiny()
    config = config.model_copy(update={"training": config.training.model_copy(update={"stages": stages})})
    run = RunFolder(tmp_path / "run")
    train(config, characters, run.path)
    longer = train(preset(str(run.path), episodes=16), characters, run.path, resume=True, lengthen=True)
    assert [stage.episodes for stage in longer.config.training.stages] == [4, 12]
    assert train(preset(str(run.path)), characters, run.path, resume=True).episodes == 16  # nothing left to do
    assert run.read_metrics().training.lengthened == (8,)


def test_a_run_is_not_shortened(characters, tmp_path):
    train(tiny(), characters, tmp_path / "run")
    problem = r"stages was 8 episodes and is now 6 episodes.*the settings of that run \(a run cannot be shortened\)"
    with pytest.raises(InputError, match=problem):
        train(tiny(episodes=6), characters, tmp_path / "run", resume=True, lengthen=True)


def test_a_run_is_lengthened_only_if_that_is_asked_for(characters, tmp_path, gaussproto, monkeypatch):
    train(tiny(), characters, tmp_path / "run")
    with pytest.raises(InputError, match="or pass --episodes to lengthen it"):
        train(tiny(episodes=20), characters, tmp_path / "run", resume=True)
    monkeypatch.chdir(tmp_path)
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    demo = ("train", "demo", "--no-rotations", "--max-shot", "1", *settings, "--out", "other")
    assert gaussproto(*demo, "--episodes", "4")[0] == 0
    code, _, err = gaussproto(*demo, "--resume")  # the length of the preset, which nobody asked for
    assert code == 2
    assert "stages was 4 episodes and is now 300 episodes" in err
    assert gaussproto(*demo, "--resume", "--episodes", "6")[0] == 0
    assert RunFolder(tmp_path / "other").read_metrics().training.lengthened == (4,)


def test_a_lengthening_that_fails_changes_nothing(characters, tmp_path):
    run = RunFolder(tmp_path / "run")
    train(tiny(), characters, run.path)
    before = run.config.read_text()
    others = replace(characters.select(range(20)), source=characters.source)
    with pytest.raises(InputError, match="training images"):
        train(tiny(episodes=20), others, run.path, resume=True, lengthen=True)
    assert run.config.read_text() == before
    assert run.ended


def test_runs_of_before_are_resumed_whatever_data_they_recorded(characters, tmp_path):
    """Images without a source were recorded as the data of the preset."""
    nameless = replace(characters, source=None)
    run = RunFolder(tmp_path / "run")
    train(tiny(), nameless, run.path)
    config = read_json(run.config)
    config["data"] |= {"data": "omniglot", "ink": "bright"}
    write_json(run.config, config)
    file = read_arrays(run.last, "checkpoint", "pt")
    write_arrays(run.last, file.arrays, file.metadata | {"config": json.dumps(config)})
    assert train(tiny(), nameless, run.path, resume=True).episodes == 8
    with pytest.raises(InputError, match="training images"):
        train(tiny(), nameless.select(range(20)), run.path, resume=True)


def test_a_run_records_the_images_that_it_was_given(tmp_path):
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (30, 20, 20), generator=rng, dtype=torch.uint8)
    mine = LabelledImages.from_labels(images, [f"class {i % 6}" for i in range(30)])
    train(tiny(), mine, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"] | {"data": GIVEN, "image_size": 20, "channels": 1} == config["data"]
    assert f"data {GIVEN}" in config["about"]
    with pytest.raises(InputError, match="which cannot be loaded again: pass the images to"):
        load_data(preset(str(tmp_path / "run")).data)
    assert train(preset(str(tmp_path / "run")), mine, tmp_path / "run", resume=True).episodes == 8


def test_a_run_records_the_data_that_was_loaded(tmp_path):
    data = load_data(preset("demo", rotations=False).data)
    train(tiny(), data.train, tmp_path / "run")
    assert preset(str(tmp_path / "run")).data == data.train.source
    assert data.train.select(range(9)).source is None  # a part of it is something else


def test_small_images_train_a_small_network(tmp_path):
    rng = torch.Generator().manual_seed(0)
    images = LabelledImages.from_labels(torch.randint(256, (30, 8, 8), generator=rng).byte(), list("abcdef") * 5)
    run = train(tiny(filters="4,4"), images, tmp_path / "run")
    assert run.config.data.image_size == 8
    with pytest.raises(InputError, match=r"image_size must be at least 16 \(found 8\)"):
        train(tiny(), images, tmp_path / "other")


def test_images_that_the_network_cannot_take(tmp_path):
    colour = LabelledImages.from_labels(torch.zeros(12, 3, 28, 28, dtype=torch.uint8), list("abcdef") * 2)
    with pytest.raises(InputError, match="the images have 3 channels, but the network takes 1"):
        train(tiny(), colour, tmp_path / "run")
