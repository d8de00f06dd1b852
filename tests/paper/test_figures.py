"""Every figure of the paper from real runs; what is drawn is what was measured."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Ellipse
from PIL import Image

from gaussproto.config import DataConfig
from gaussproto.errors import InputError
from gaussproto.evaluation.views import view_episode
from gaussproto.figures.curves import accuracy_over_shots, loss_over_episodes, smooth
from gaussproto.figures.pictures import rotations
from gaussproto.figures.space import ellipse
from gaussproto.figures.style import SERIES, render, save_figure
from gaussproto.paper.figures import FIGURES, Options, draw_figure, write_figure
from gaussproto.report.source import RunSource
from gaussproto.runs.metrics import Score
from tests.conftest import add_scores
from tests.report.conftest import evaluation

NEEDS = {4: ["none", "radius", "diagonal"], 5: ["radius", "diagonal"], 8: ["radius", "full"]}


@pytest.fixture(scope="module")
def sources(runs, characters):
    loaded = {DataConfig(): characters}
    for n, name in enumerate(("none", "radius", "diagonal")):
        add_scores(runs[name], evaluation(offset=n / 100))
    return {name: RunSource(run, loaded=loaded) for name, run in runs.items()}


@pytest.mark.parametrize("number", FIGURES)
def test_every_figure_is_drawn_and_says_what_it_shows(sources, number):
    names = NEEDS.get(number, ["radius"])
    figure, note = draw_figure(number, {name: sources[name] for name in names})
    assert "strokes" in note
    if number != 3:  # an image and its rotations belong to no run
        assert all(name in note for name in names)
        assert "statistics" in note
    text = render(figure, "svg", "a title")
    assert text == render(figure, "svg", "a title")
    again, _ = draw_figure(number, {name: sources[name] for name in names})
    assert text == render(again, "svg", "a title")  # the same bytes for the same numbers
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert b"<dc:date>" not in text
    assert root.findall(".//{http://www.w3.org/2000/svg}text")  # text is text


@pytest.mark.parametrize("covariance", ["none", "diagonal", "full"])
@pytest.mark.parametrize("number", [1, 2, 11])
def test_the_space_of_every_covariance(sources, covariance, number):
    figure, note = draw_figure(number, {"x": sources[covariance]})
    assert ("vanilla" in note) == (covariance == "none" and number != 11)
    assert render(figure, "png")[:4] == b"\x89PNG"


def test_the_radius_is_one_factor_times_one_over_the_root_of_s(sources):
    figure, _ = draw_figure(2, {"x": sources["radius"]})
    shapes = [patch for patch in figure.axes[0].patches if isinstance(patch, Ellipse)]
    run = sources["radius"]
    view = view_episode(run.network, run.images, way=4, shot=5, query=4)
    each = np.concatenate([np.append(view.s[c, :, 0], view.s_class[c, 0]) for c in range(4)])  # as they are drawn
    radii = np.array([shape.width / 2 for shape in shapes])
    assert np.allclose(radii, [shape.height / 2 for shape in shapes])
    assert np.ptp(radii * np.sqrt(each)) < 1e-6 * radii.max()


def test_an_ellipse_has_the_axes_of_its_covariance():
    turn = np.deg2rad(30)
    R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shape = ellipse(np.array([1.0, 2.0]), R @ np.diag([9.0, 4.0]) @ R.T, factor=0.5)
    middle = np.array([1.0, 2.0])
    for direction, length in ((R[:, 0], 1.5), (R[:, 1], 1.0)):
        on_edge = shape.get_patch_transform().inverted().transform(middle + length * direction)
        assert np.linalg.norm(on_edge) == pytest.approx(1)


def test_the_files_are_written_and_carry_the_note(runs, sources, tmp_path):
    svg, png = write_figure("6", {"x": runs["radius"].path}, tmp_path / "new")
    assert (svg.name, png.name) == ("figure-06.svg", "figure-06.png")
    text = svg.read_text()
    assert "Run radius on strokes" in text
    assert "http" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    with Image.open(png) as image:
        assert image.width > 800
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["figure-06.png", "figure-06.svg"]


def test_the_loss_marks_halvings_and_damage(sources):
    curve = sources["radius"].curve
    assert curve.halvings == (20, 40)
    assert curve.damaged.tolist() == [episode > 30 for episode in curve.episodes]
    lines = loss_over_episodes({"x": curve}).axes[0].lines
    vertical = sorted(line.get_xdata()[0] for line in lines if len(set(line.get_xdata())) == 1)
    assert vertical == [20, 40]
    assert {line.get_color() for line in lines} >= set(SERIES[:2])
    assert sources["none"].curve.halvings == ()  # cosine


@pytest.mark.parametrize("data", ["strokes", "omniglot"])
def test_results_on_omniglot_are_compared_with_runs_on_omniglot_alone(runs, data):
    run = RunSource(runs["radius"])
    run.config = run.config.override(data=data)
    figure, note = draw_figure(7, {"x": run})
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("before the paper" in label for label in labels) == (data == "omniglot")
    assert ("prototypical networks" in note) == (data == "omniglot")


def score(way: int, shot: int, accuracy: float) -> Score:
    return Score(way=way, shot=shot, accuracy=accuracy, interval=0.01)


def test_accuracy_over_shots_is_the_scores():
    scores = [score(20, k, 0.9 + k / 100) for k in (3, 1, 2)] + [score(5, 1, 0.5)]
    better = [score(20, k, 0.905 + k / 100) for k in (1, 2)]
    top, bottom = accuracy_over_shots({"one": scores, "two": better}, 20).axes
    assert top.lines[0].get_xydata() == pytest.approx(np.array([[1, 91], [2, 92], [3, 93]]))
    assert bottom.lines[1].get_xydata() == pytest.approx(np.array([[1, 0.5], [2, 0.5]]))


def test_any_name_of_a_run_is_shown_as_it_is(tmp_path):
    names = ("_old", "a$x_$b", "50 % [new]")
    figure = accuracy_over_shots({name: [score(20, 1, 0.9)] for name in names}, 20)
    assert [text.get_text().strip() for text in figure.axes[0].get_legend().get_texts()] == list(names)
    save_figure(figure, tmp_path, "it", "names")
    assert "a$x_$b" in (tmp_path / "it.svg").read_text()


def test_smoothing_keeps_a_line_straight():
    line = np.linspace(0, 1, 50)
    assert smooth(line, 7)[3:-3] == pytest.approx(line[3:-3])
    assert smooth(line, 1) == pytest.approx(line)


def test_rotations_are_rotations(characters):
    pixels = characters.images[0].numpy()
    shown = [axes.images[0].get_array() for axes in rotations(pixels).axes]
    for turn in range(4):
        assert np.array_equal(np.rot90(shown[0], turn), shown[turn])


@pytest.mark.parametrize(
    ("number", "names", "options", "sentence"),
    [
        (12, ["none"], {}, "a number from 1 to 11"),
        ("four", ["none"], {}, "a number from 1 to 11"),
        (4, ["none"], {}, "figure 4 needs two to six evaluated runs"),
        (4, ["none", "full"], {}, "has no 20-way score with running statistics"),
        (4, ["none", "radius"], {"norm": "batch"}, "has no 20-way score with batch statistics"),
        (7, ["none"], {}, "no test scores during training"),
        (9, ["none"], {}, "is a run of a vanilla network"),
    ],
)
def test_what_cannot_be_drawn_is_said(sources, number, names, options, sentence):
    with pytest.raises(InputError, match=sentence):
        draw_figure(number, {name: sources[name] for name in names}, Options(**options))


def test_scores_of_other_classes_are_not_compared(sources, runs, tmp_path):
    add_scores(runs["full"], evaluation(classes=77))
    loaded = RunSource(runs["full"])
    with pytest.raises(InputError, match="different test classes"):
        draw_figure(4, {"a": sources["none"], "b": loaded})
    runs["full"].metrics.unlink()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("covariance", ["none", "radius"])
def test_a_distance_covers_no_line_but_its_own(sources, covariance, seed):
    figure, _ = draw_figure(2, {"x": sources[covariance]}, Options(seed=seed))
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    lines = [axes.transData.transform(line.get_xydata()) for line in axes.lines if line.get_linestyle() == "--"]
    assert len(lines) == len(axes.texts) == 4
    for c, text in enumerate(axes.texts):
        box = text.get_window_extent()
        others = [start + np.linspace(0, 1, 500)[:, None] * (end - start) for start, end in lines[:c] + lines[c + 1 :]]
        assert not any(box.contains(*point) for points in others for point in points)
