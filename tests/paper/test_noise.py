"""The study of bad examples: measured once, continued where it stopped, and shown as it was measured."""

import numpy as np
import pytest
import torch

from gaussproto.arrays import read_arrays
from gaussproto.data.corrupt import CORRUPTIONS
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.files import read_json
from gaussproto.formulas.interval import student_interval
from gaussproto.paper.noise import CORRUPTED, measure_study, plan_study
from gaussproto.paper.noise_join import join_studies
from gaussproto.paper.noise_scores import COMPARISONS
from gaussproto.paper.noise_tables import difference_text, noise_tables
from gaussproto.paper.row import Row
from gaussproto.paper.rows import NOISE, TABLES
from gaussproto.paper.run import reproduce
from gaussproto.runs.noise import Condition, read_noise

RUNS = ("small-several-seed-0", "small-weighted-seed-0", "small-weighted-seed-1")
SIDES = {name: (one, other) for name, one, other in COMPARISONS}


@pytest.fixture(scope="module")
def few_corruptions():
    """Three of the seven, so that the tests are quick."""
    with pytest.MonkeyPatch.context() as patch:
        some = {name: CORRUPTIONS[name] for name in ("down-sampling", "occlusion", "thin strokes")}
        patch.setattr("gaussproto.paper.noise.CORRUPTIONS", some)
        yield


@pytest.fixture(scope="module")
def study(few_corruptions, tmp_path_factory):
    """Tiny networks, trained for moments. Two of them share a seed."""
    config = Row.config
    smaller = {"episodes": 5, "filters": "8,8,8", "embedding_dim": 8, "way": 12}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Row, "config", lambda row, budget: config(row, budget).override(**smaller))
        patch.setattr("gaussproto.paper.run.QUICK_CLASSES", 12)
        patch.setattr("gaussproto.evaluation.noise.EPISODES", 6)
        folder = tmp_path_factory.mktemp("study")
        options = {"only": ",".join(RUNS), "data": "strokes", "out": folder}
        yield reproduce("noise", "quick", **options), lambda: reproduce("noise", "quick", **options)


def test_what_was_measured_is_in_the_result(study):
    result, _ = study
    found = read_noise(result.folder / "noise" / "noise.json")
    assert found.model_dump(mode="json") == read_json(result.folder / "noise" / "noise.json")
    assert [(network.run, network.seed) for network in found.networks] == [
        ("small-several", 0), ("small-weighted", 0), ("small-weighted", 1)
    ]  # fmt: skip
    assert (found.way, found.shot) == (5, 5)
    parts = {run: read_arrays(result.folder / "noise" / run / "labels.safetensors", "") for run in RUNS}
    rules = ["plain mean", "weighted mean", "median", "agreement"]
    accuracy = {run: part.arrays["accuracy"].astype(float) for run, part in parts.items()}  # (conditions, rules, C)
    score = found.score("small-weighted", "agreement", Condition())
    both = np.mean([accuracy[run][0, rules.index("agreement")] for run in RUNS[1:]], axis=0)
    assert score.accuracy == pytest.approx(both.mean())
    assert score.interval == pytest.approx(student_interval(both))
    assert set(score.by_seed) == {0, 1}
    difference = found.difference("ours, precision", Condition())
    each = accuracy[RUNS[1]][0, 1] - accuracy[RUNS[0]][0, 0]
    assert difference.difference == pytest.approx(each.mean())
    assert difference.interval == pytest.approx(student_interval(each))
    assert (set(difference.by_seed), difference.over_seeds) == ({0}, None)
    severe = [
        found.score("small-weighted", "median", Condition(corruption="occlusion", severity=n, queries=True))
        for n in range(6)
    ]
    assert severe[0].accuracy == pytest.approx(np.mean([each.accuracy for each in severe[1:]]))


def test_tables_and_figures_show_it(study):
    result, _ = study
    found = read_noise(result.folder / "noise" / "noise.json")
    titles = {table.title: table for table in result.tables}
    assert list(titles) == [table.title for table in noise_tables(found)]
    aims = titles["One setting for all"]
    assert aims.rows[2][0] == "2 wrong"
    assert aims.rows[2][-2:] == (difference_text(found.difference("ours", Condition(wrong=2))), "+2.70")
    assert all(len(row) == len(table.columns) for table in result.tables for row in table.rows)
    assert all(table.markdown() in result.page.read_text() for table in result.tables)
    assert {path.stem for path in result.figures} == {
        "corruptions", "wrong-labels", "corrupted-supports", "corrupted-queries", "hypothesis", "aims"
    }  # fmt: skip
    assert any("no majority" in reason for reason in result.left_out)


def test_nothing_is_measured_twice_and_a_damaged_part_is(study, monkeypatch):
    result, again = study
    path = result.folder / "noise" / "noise.json"
    whole = read_json(path)
    from gaussproto.paper import noise

    measured = []
    plain = noise.noise_accuracies
    monkeypatch.setattr(noise, "noise_accuracies", lambda *args, **kwargs: measured.append(1) or plain(*args, **kwargs))
    monkeypatch.setattr("gaussproto.paper.run.write_noise_figures", lambda *args: [])
    again()
    assert not measured
    assert read_json(path) == whole
    damaged = result.folder / "noise" / RUNS[0] / "occlusion.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    (result.folder / "noise" / RUNS[1] / "occlusion.safetensors").unlink()
    with pytest.warns(UserWarning, match=r"occlusion.safetensors is measured again .*checksum"):
        again()
    assert len(measured) == 2
    assert read_json(path) == whole


def test_colour_images_have_no_strokes(few_corruptions):
    pixels = torch.zeros(120, 3, 32, 32, dtype=torch.uint8)
    plan = plan_study(LabelledImages.from_labels(pixels, [n % 12 for n in range(120)]))
    assert plan.way == 5
    assert [part.name for part in plan.parts] == ["labels", "down-sampling", "occlusion"]
    assert any("thin strokes changes bright strokes" in reason for reason in plan.left_out)
    assert all(c.corrupted in (0, CORRUPTED) for part in plan.parts[1:] for c in part.conditions)


def test_a_folder_without_networks(tmp_path, characters):
    with pytest.raises(InputError, match="has no trained network of the study"):
        measure_study(tmp_path, tmp_path / "noise", characters, "strokes")


def test_the_networks_share_their_runs_with_the_seeds():
    shared = {row.name: row for row in TABLES["seeds"]}
    for network, rows in NOISE.items():
        assert len(rows) >= 3
        assert all(shared.get(row.name, row) == row for row in rows)
        assert network == "small-diagonal" or rows[0].name in shared


def test_networks_measured_later_join_a_published_study(study):
    result, _ = study
    whole = read_noise(result.folder / "noise" / "noise.json")
    older = whole.model_copy(
        update={
            "scores": tuple(
                each.model_copy(update={"accuracy": 0.0, "by_seed": {0: 0.0}})
                if each.network == "small-weighted" else each
                for each in whole.scores
            )
        }
    )  # fmt: skip
    part = whole.model_copy(
        update={
            "networks": tuple(each for each in whole.networks if each.run == "small-weighted"),
            "scores": tuple(each for each in whole.scores if each.network == "small-weighted"),
            "differences": tuple(
                each for each in whole.differences
                if each.comparison in ("ours, against precision", "agreement, against median")
            ),
        }
    )  # fmt: skip
    joined = join_studies(older, part)
    assert (joined.networks, joined.scores) == (whole.networks, whole.scores)
    by_name = [{(each.comparison, each.condition): each for each in one.differences} for one in (joined, whole)]
    assert by_name[0].keys() == by_name[1].keys()
    for key, each in by_name[0].items():
        expected = by_name[1][key]
        assert each.difference == pytest.approx(expected.difference, abs=1e-6)
        assert each.by_seed == pytest.approx(expected.by_seed, abs=1e-6)
        across = {"small-several", "small-weighted"} == {name for name, _ in SIDES[each.comparison]}
        assert each.interval == (None if across else expected.interval)
    assert join_studies(whole, whole) == whole
    with pytest.raises(InputError, match=r"the studies differ in way \(5 and 20\)"):
        join_studies(whole, whole.model_copy(update={"way": 20}))
