"""The comparisons that are not in the paper: embedding sizes, the split of most papers, photos."""

import json

import numpy as np
import pytest
import torch

from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import evaluate
from gaussproto.figures.dimensions import accuracy_over_parameters
from gaussproto.paper.comparisons import photo_tables, sized_points, write_dimensions_figure
from gaussproto.paper.photos import TASKS, cropped, measure_photos
from gaussproto.paper.rows import PHOTO_ROWS, SIZES, TABLES
from gaussproto.paper.tables import make_tables
from gaussproto.presets import preset
from gaussproto.runs.folder import load_network
from gaussproto.runs.metrics import Metrics, RunEvaluation, Score, TrainingSummary
from gaussproto.runs.photos import read_photos
from gaussproto.training.train import train

TINY = {"filters": (4, 4, 4), "embedding_dim": 6, "random_crop": 0, "way": 4, "shot": 2, "splits": 1, "episodes": 3}


@pytest.fixture(scope="module")
def photos() -> LabelledImages:
    """Six classes of 24 noisy squares of 32 x 32 pixels, each class in its own colour."""
    generator = torch.Generator().manual_seed(0)
    colours = torch.randint(40, 216, (6, 1, 3, 1, 1), generator=generator)
    noise = torch.randint(-40, 41, (6, 24, 3, 32, 32), generator=generator)
    return LabelledImages.from_labels((colours + noise).clamp(0, 255).byte().flatten(0, 1), np.repeat(range(6), 24))


@pytest.fixture(scope="module")
def runs(photos, tmp_path_factory):
    """Runs of vanilla networks with two seeds, one radius network, and a copy of a vanilla one as `full`."""
    folder = tmp_path_factory.mktemp("runs")
    made = [("none", 0, "none", 0), ("none", 1, "none", 1), ("radius", 0, "radius", 0), ("full", 0, "none", 0)]
    for kind, seed, covariance, of_seed in made:
        config = preset(f"cifar-fs-{covariance}", seed=of_seed, **TINY)
        train(config, photos, folder / PHOTO_ROWS[kind][seed].name)
    return folder


def test_networks_are_compared_on_the_same_episodes(runs, photos, tmp_path):
    study = measure_photos(runs, tmp_path / "photos.json", photos, "squares", episodes=40)
    assert read_photos(tmp_path / "photos.json") == study
    assert [(network.kind, network.seed) for network in study.networks] == [
        ("none", 0), ("none", 1), ("radius", 0), ("full", 0),
    ]  # fmt: skip
    for task in TASKS:
        same = study.difference("full", task)  # of a copy
        assert (same.difference, same.by_seed, same.over_classes, same.over_episodes) == (0, {0: 0}, 0, 0)
        assert same.half_width is None, "one seed says nothing about the others"
        radius, vanilla = study.score("radius", task), study.score("none", task)
        expected = radius.by_seed[0] - vanilla.by_seed[0]
        assert study.difference("radius", task).difference == pytest.approx(expected, abs=1e-6)
        assert vanilla.accuracy == pytest.approx(sum(vanilla.by_seed.values()) / 2)
    for shot, task in zip((1, 5), TASKS, strict=False):  # the protocol of `evaluate`
        network = load_network(runs / PHOTO_ROWS["radius"][0].name)
        (score,) = evaluate(network, photos, 5, shot, episodes=40).scores
        assert study.score("radius", task).accuracy == pytest.approx(score.accuracy)
        assert study.score("radius", task).over_episodes == pytest.approx(score.interval_episodes, rel=1e-3)
    assert {(each.kind, each.corruption) for each in study.precisions} == {
        ("radius", "blurred"), ("radius", "noisy"), ("radius", "cropped"),
    }  # fmt: skip
    accuracy, difference, precision = photo_tables(study)
    assert [row[0] for row in accuracy.rows] == ["vanilla", "radius", "full"]
    assert [row[:2] for row in difference.rows] == [("radius", "1"), ("full", "1")]
    assert [row[0] for row in precision.rows] == ["radius"]


def test_corrupted_supports_are_only_supports(runs, photos, tmp_path):
    """Queries stay clean: with five of five supports bad, another corruption changes the answers, not the questions."""
    study = measure_photos(runs, tmp_path / "photos.json", photos, "squares", episodes=40)
    clean, *bad = (study.score("none", task).accuracy for task in TASKS[1:])
    assert len({clean, *bad}) > 1
    assert json.loads((tmp_path / "photos.json").read_text())["queries"] == 15


def test_a_comparison_without_networks_or_with_small_classes(runs, photos, tmp_path):
    with pytest.raises(InputError, match="no trained network on photos"):
        measure_photos(tmp_path, tmp_path / "photos.json", photos, "squares")
    few = LabelledImages.from_labels(photos.images[:60], np.repeat(range(3), 20)[:60])
    few = LabelledImages.from_labels(few.images[::2], np.repeat(range(3), 10))
    with pytest.raises(InputError, match=r"needs 20 test images of each class \(found 10\)"):
        measure_photos(runs, tmp_path / "photos.json", few, "squares")


def test_a_cropped_photo_is_a_part_of_it():
    generator = torch.Generator().manual_seed(0)
    flat = torch.randint(256, (5, 3, 1, 1), dtype=torch.uint8).expand(5, 3, 32, 32)
    assert torch.equal(cropped(flat, generator), flat)
    ramp = torch.arange(0, 256, 8, dtype=torch.uint8).expand(50, 1, 32, 32)  # brighter to the right
    parts = cropped(ramp, generator).int()
    assert parts.shape == ramp.shape
    spread = parts.amax(dim=(1, 2, 3)) - parts.amin(dim=(1, 2, 3))
    assert ((spread >= 112) & (spread <= 124)).all(), "half of the width"
    assert parts[:, 0, 0, 0].unique().numel() > 5, "from random places"


def test_networks_of_one_comparison_have_the_same_number_of_parameters():
    from gaussproto.model.network import GaussianPrototypicalNetwork

    sizes = [
        sum(p.numel() for p in GaussianPrototypicalNetwork(rows[0].config("standard").network).parameters())
        for rows in PHOTO_ROWS.values()
    ]
    assert max(sizes) < 1.01 * min(sizes)
    for rows in PHOTO_ROWS.values():
        for seed, (row, vanilla) in enumerate(zip(rows, PHOTO_ROWS["none"], strict=True)):
            one, other = row.config("standard"), vanilla.config("standard")
            assert (one.data, one.episode, one.training) == (other.data, other.episode, other.training)
            assert one.training.seed == seed


def of_size(parameters: int, accuracy: float) -> Metrics:
    scores = [Score(way=20, shot=shot, accuracy=accuracy, interval=0.01) for shot in (1, 5)]
    how = {"classes": 9, "rounds": 10, "seed": 0, "checkpoints": 1}
    evaluation = RunEvaluation(norm="running", checkpoint="last", target="x", data="omniglot", scores=scores, **how)
    training = TrainingSummary.model_construct(parameters=parameters)
    return Metrics.model_construct(evaluations=(evaluation,), training=training, machine=None)


def test_sizes_are_drawn_over_their_parameters(tmp_path):
    assert write_dimensions_figure({}, tmp_path) == []
    runs = {
        row.name: of_size(1000 * n, 0.9 + n / 1000)
        for n, row in enumerate((row for rows in SIZES.values() for row in rows[:2]), start=1)
    }
    points = sized_points(runs, "small", (20, 1))
    assert points["none (vanilla)"] == [(1000, 0.901, 32), (2000, 0.902, 64)]
    svg, png = write_dimensions_figure(runs, tmp_path)
    assert "big encoder, 20-way 5-shot" in svg.read_text()
    assert png.stat().st_size > 10_000
    table, _ = make_tables("dimensions", runs)
    assert table.rows[0][:6] == ("`small-none-32`", "small", "none (vanilla)", "32", "1,000", "90.10 ± 1.00")
    assert len(table.rows) + len(table.missing) == len(TABLES["dimensions"])


def test_labels_of_sizes_cover_neither_points_nor_each_other(tmp_path):
    """Vanilla and radius networks have nearly as many parameters, and here the same accuracy but for little."""
    near = {"none": 0.0, "radius": 0.0004, "diagonal": 0.0008, "full": -0.001}
    panel = {
        name: [
            (1000 * D * (2 if name == "diagonal" else 1) + 10 * i, 0.96 + D / 1e5 + near[name], D) for D in (64, 128)
        ]
        for i, name in enumerate(near)
    }
    figure = accuracy_over_parameters({"one": panel, "two": panel})
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 8
        points = np.concatenate([axes.transData.transform(line.get_xydata()) for line in axes.get_lines()])
        for i, box in enumerate(boxes):
            assert not any(box.contains(*point) for point in points)
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_networks_with_as_many_parameters_are_compared_in_one_row():
    runs = {row.name: of_size(1000, 0.9) for rows in SIZES.values() for row in rows}
    _, table = make_tables("dimensions", runs)
    assert [row[0] for row in table.rows] == ["small"] * 3 + ["big"] * 3
    same = table.rows[1][2:]
    assert [cell.partition("(")[2] for cell in same] == ["D = 64)", "D = 64)", "D = 32)", "D = 10)"]
    assert same[0].startswith("90.00 / 90.00")
    (alone,) = make_tables("dimensions", {"small-none-32": of_size(1000, 0.9)})
    assert alone.title == "Embedding sizes"


def test_the_literature_is_shown_beside_a_measured_run():
    assert make_tables("vinyals", {}) == []
    (table,) = make_tables("vinyals", {"vinyals-small": of_size(1, 0.5)})
    assert table.rows[0] == ("ours, `vinyals-small`", "50.00 ± 1.00", "50.00 ± 1.00", "-", "-", "inductive")
    assert {row[-1] for row in table.rows} == {"inductive", "transductive", "not stated"}
