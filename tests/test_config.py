import json

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gaussproto.config import RunConfig, Stage, parse_config, setting_fields
from gaussproto.errors import InputError
from gaussproto.presets import PRESETS, preset
from gaussproto.recipes import EPOCH
from gaussproto.split import ClassSplit


@pytest.mark.parametrize("name", PRESETS)
def test_presets_come_back_from_json(name):
    assert parse_config(json.loads(PRESETS[name].model_dump_json())) == PRESETS[name]


def test_the_papers_settings():
    """Every number that the paper gives."""
    rows = {
        "paper-small-none-5shot": ("small", 64, "none", "softplus", 5, 15),
        "paper-small-none": ("small", 64, "none", "softplus", 1, 19),
        "paper-small-radius": ("small", 64, "radius", "softplus", 1, 19),
        "paper-small-cosine": ("small", 64, "none", "softplus", 1, 19),
        "paper-small-sqrt": ("small", 64, "none", "softplus", 1, 19),
        "paper-small-squared": ("small", 64, "none", "softplus", 1, 19),
        "paper-big-none": ("big", 512, "none", "softplus", 1, 19),
        "paper-big-diagonal": ("big", 256, "diagonal", "softplus", 1, 19),
        "paper-big-radius-sigmoid": ("big", 512, "radius", "sigmoid", 1, 19),
        "paper-big-radius-wide-sigmoid": ("big", 512, "radius", "wide_sigmoid", 1, 19),
        "paper-big-radius-learned": ("big", 512, "radius", "softplus", 1, 19),
        "paper-big-radius-learned-damage": ("big", 512, "radius", "softplus", 1, 19),
    }
    assert {name for name in PRESETS if name.startswith("paper-")} == set(rows)
    for name, row in rows.items():
        run = PRESETS[name]
        net, episode, training = run.network, run.episode, run.training
        assert (net.encoder, net.embedding_dim, net.covariance, net.transform, episode.shot, episode.query) == row
        assert (episode.way, episode.max_shot, episode.splits) == (60, None, 1)
        assert (training.learning_rate, training.schedule, training.halve_every) == (2e-3, "halving", 2000)
        assert net.precision_relu
        distance = {"cosine": "cosine", "sqrt": "sqrt_euclidean", "squared": "squared_euclidean"}
        assert net.weighting == "prototype_and_distance"
        assert net.distance == distance.get(name.rpartition("-")[2], "euclidean")
        assert training.distort == 0
        assert run.data.data == "omniglot"
        assert training.episodes == 350 * EPOCH
    stages = PRESETS["paper-big-radius-learned-damage"].training.stages
    assert [stage.episodes // EPOCH for stage in stages] == [220, 100, 20, 10]
    assert [stage.transform for stage in stages] == [None, *["learned_softplus"] * 3]
    assert [dict(stage.damage) for stage in stages] == [
        {},
        {24: 0.015, 20: 0.01, 16: 0.005},
        {23: 0.015, 17: 0.01},
        {23: 0.01},
    ]


def test_our_recipe_is_one_for_all():
    """What is compared differs in what is compared: every network gets as many images, by one schedule."""
    ours = {
        name: run for name, run in PRESETS.items() if name.startswith(("standard-", "fast-")) or name == "omniglot-big"
    }
    assert {run.episode.way * run.episode.drawings for run in ours.values()} == {360}
    assert {(run.training.learning_rate, run.training.schedule) for run in ours.values()} == {(4e-3, "cosine")}
    for name, run in PRESETS.items():
        if name.startswith("standard-"):
            assert run.training.episodes == {"small": 5400, "big": 3600}[run.network.encoder]
    for encoder in ("small", "big"):
        vanilla, weighted = PRESETS[f"standard-{encoder}-several"], PRESETS[f"standard-{encoder}-weighted"]
        assert (vanilla.data, vanilla.episode, vanilla.training) == (weighted.data, weighted.episode, weighted.training)
    longer, standard = PRESETS["omniglot-big"], PRESETS["standard-big-weighted"]
    same = {"episodes": 3600, "distort": 0, "mirror": False}
    assert longer.override(**same).model_copy(update={"name": standard.name, "about": standard.about}) == standard


def test_the_split_of_a_folder_stays_with_the_folder():
    run = preset("fast-small-none", data="mine", split={"test": ["a", "b"]})
    assert run.override(way=9).data.split == run.data.split
    assert run.override(data="strokes").data.split is None


def test_any_setting_can_be_changed(weights):
    values = {
        "data": "strokes", "rotations": False, "image_size": 32, "channels": 3, "ink": "dark", "test_fraction": 0.5,
        "prepare": "crop", "variants": 0,
        "holdout": 2, "split": {"test": ["a", "b"]}, "encoder": "big", "features": None, "filters": "8,16",
        "residual": "0,1", "grid": 2, "embedding_dim": 12,
        "covariance": "full", "transform": "exp", "precision_relu": False, "weighting": "prototype",
        "distance": "cosine", "way": 7, "shot": 2, "max_shot": 4, "query": 3, "splits": 2, "adapt": True,
        "mirror": True, "varied": 0.3, "within_alphabet": 0.5,
        "learning_rate": 0.1, "schedule": "constant", "halve_every": 5, "checkpoint_every": 6, "keep": 2,
        "flip": True, "random_crop": 24, "jitter": 0.3, "weight_decay": 0.01, "episodes_per_step": 2,
        "distort": 0.5, "snapshots": 3, "seed": 9, "episodes": 77, "damage": "7:0.1,5:0.2", "init": str(weights),
    }  # fmt: skip
    assert set(values) == set(setting_fields())
    run = preset("demo", **values)
    assert run.data.channels == run.network.channels == 3
    assert run.network.filters == (8, 16)
    assert run.network.residual == (0, 1)
    assert run.data.split == ClassSplit(test=("a", "b"))
    assert run.training.stages == (Stage(episodes=77, damage=((7, 0.1), (5, 0.2))),)
    for name, value in values.items():
        if name not in ("filters", "residual", "damage", "episodes", "split"):
            assert value in [getattr(s, name, None) for s in (run.data, run.network, run.episode, run.training)]


@given(episodes=st.integers(4, 50_000))
@hypothesis_settings(deadline=None)
def test_stages_shrink_and_grow_together(episodes):
    stages = preset("paper-big-radius-learned-damage", episodes=max(episodes, 50)).training.stages
    assert sum(stage.episodes for stage in stages) == max(episodes, 50)
    assert stages[0].episodes >= stages[1].episodes >= stages[2].episodes >= stages[3].episodes >= 1


def test_stage_at():
    training = RunConfig(name="x", training={"stages": [{"episodes": 3}, {"episodes": 2}]}).training
    assert [training.stage_at(episode)[0] for episode in range(5)] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"way": 1}, r"^way must be at least 2 \(found 1\)$"),
        ({"way": "many"}, r"^way must be a whole number \(found 'many'\)$"),
        ({"way": 2.5}, r"^way must be a whole number \(found 2\.5\)$"),
        ({"way": None}, r"^way must be a whole number \(found None\)$"),
        ({"seed": 2**63}, rf"^seed must be at most {2**63 - 1} \(found {2**63}\)$"),
        ({"test_fraction": 1}, r"^test_fraction must be less than 1 \(found 1\)$"),
        ({"learning_rate": "fast"}, r"^learning_rate must be a number \(found 'fast'\)$"),
        ({"mirror": "maybe"}, r"^mirror must be true or false \(found 'maybe'\)$"),
        ({"schedule": "steps"}, r"^schedule must be 'halving', 'cosine' or 'constant' \(found 'steps'\)$"),
        ({"channels": 2}, r"^channels must be 1 or 3 \(found 2\)$"),
        ({"data": 3}, r"^data must be text \(found 3\)$"),
        ({"covariance": "round"}, "unknown covariance 'round': choose one of none, radius, diagonal, full"),
        ({"wya": 3}, "unknown setting 'wya': did you mean 'way'"),
        ({"qqqq": 3}, "unknown setting 'qqqq': the settings are data, rotations"),
        ({"shot": 3, "max_shot": 2}, "max_shot must be at least shot .found max_shot 2 and shot 3"),
        ({"splits": 9}, r"splits must be at most shot \+ query = 3 \(found 9\)"),
        ({"damage": "7"}, r"^damage must be SIZE:FRACTION,SIZE:FRACTION, e\.g\. 7:0\.1,5:0\.05 \(found '7'\)$"),
        ({"damage": "7:0.8,5:0.9"}, r"fractions of damage must add up to at most 1 \(found 1\.7\)"),
        ({"image_size": 9}, r"^image_size must be at least 16 \(found 9\), because each of the 4 blocks halves"),
        ({"damage": "7:0.1,7:0.2"}, r"damage must be SIZE:FRACTION,SIZE:FRACTION"),
        ({"damage": "7:1.5"}, r"^every value of damage must be at most 1 \(found '1\.5'\)$"),
        ({"damage": [(7, 0.1, 3)]}, r"^every value of damage must have a length of at most 2"),
        ({"filters": "8,x,8"}, r"^every value of filters must be a whole number \(found 'x'\)$"),
        ({"filters": "8,8,8,8,8"}, r"^image_size must be at least 64 \(found 28\), because each of the 6 blocks"),
        ({"episodes": 0}, r"^episodes must be a whole number from 1 to 1,000,000,000 \(found 0\)$"),
        ({"learning_rate": -1}, r"^learning_rate must be greater than 0 \(found -1\)$"),
    ],
)
def test_a_wrong_setting_is_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        preset("demo", **settings)
    assert "\n" not in str(caught.value)


def test_stages_that_would_be_empty():
    with pytest.raises(InputError, match="10 episodes are too few for the 4 stages"):
        preset("paper-big-radius-learned-damage", episodes=10)


def test_presets_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="did you mean 'fast-small-radius'"):
        preset("fast-smal-radius")
    with pytest.raises(InputError, match="`gaussproto presets` lists the presets"):
        preset("zzzzzz")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="not a readable JSON file"):
        preset(str(tmp_path / "config.json"))
    (tmp_path / "config.json").write_text('{"name": "x", "colour": "red"}')
    with pytest.raises(InputError, match=r"config\.json: colour is not a known setting$"):
        preset(str(tmp_path / "config.json"))


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ([], r"the content must be a mapping of names to values \(found \[\]\)"),
        ({}, "name is missing"),
        ({"name": "x", "data": 3}, r"data must be a mapping of names to values \(found 3\)"),
        ({"name": "x", "training": {"stages": 3}}, r"stages must be a list \(found 3\)"),
        ({"name": "x", "training": {"stages": []}}, r"stages must have a length of at least 1 \(found \[\]\)"),
        ({"name": "x", "training": {"stages": [{"episodes": 0}]}}, r"episodes must be at least 1 \(found 0\)"),
    ],
)
def test_a_wrong_file_is_one_sentence(tree, sentence):
    with pytest.raises(InputError, match=f"^{sentence}$"):
        parse_config(tree)


@pytest.mark.parametrize(("invert", "ink"), [(None, "detect"), (False, "bright"), (True, "dark")])
def test_files_of_before_say_invert(invert, ink):
    assert parse_config({"name": "old", "data": {"invert": invert}}).data.ink == ink
    for wrong in ("yes", [], {}):
        with pytest.raises(InputError, match="invert must be true, false or null"):
            parse_config({"name": "old", "data": {"invert": wrong}})


def test_a_run_says_what_was_changed_against_its_preset():
    changed = preset("fast-small-none", covariance="radius", way=20)
    assert changed.about == "fast-small-none with covariance radius; way 20"
    assert changed.override(way=30).about == "fast-small-none with covariance radius; way 30"
    assert changed.network.summary == "small encoder, D = 64, radius covariance (softplus)"
    same = preset("fast-small-none", covariance="none")
    assert same == PRESETS["fast-small-none"]
    assert "vanilla" in same.about
