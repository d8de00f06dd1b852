"""The eleven figures of the paper, from runs: what each needs, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from gaussproto.config import DataConfig, Norm
from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.errors import InputError
from gaussproto.report.curves import accuracy_over_episodes, accuracy_over_shots, loss_over_episodes
from gaussproto.report.diagram import network_diagram
from gaussproto.report.histogram import precision_histogram
from gaussproto.report.measure import EpisodeView, measure_precisions, thinned, upright, view_episode
from gaussproto.report.pictures import rotations
from gaussproto.report.source import RunSource
from gaussproto.report.space import embedding_map, embedding_space
from gaussproto.report.style import add_note, save_figure
from gaussproto.training.run_folder import RunFolder

HISTOGRAM_CLASSES = 300  # unturned test classes whose precisions are measured
EARLIER = {1: 0.960, 5: 0.989}  # Omniglot, 20-way, by shot: prototypical networks, the best before the paper


class Drawn(NamedTuple):
    """A figure and what has to be known to read it."""

    figure: Figure
    note: str


@dataclass(frozen=True)
class Options:
    """What a figure may be asked for."""

    norm: Norm = "running"  # of the scores in figures 4 and 5
    way: int = 20
    seed: int = 0  # of the episode that is shown


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper: what it shows, the runs it takes, and the function that draws it."""

    title: str
    needs: str
    runs: range  # how many it takes
    draw: Callable[[Mapping[str, RunSource], Options], Drawn]


def draw_figure(number: int | str, runs: Mapping[str, RunSource], options: Options | None = None) -> Drawn:
    """Draw one figure of the paper from runs, whose keys are the labels in it."""
    figure = _known(number)
    if len(runs) not in figure.runs:
        raise InputError(f"figure {number} takes {figure.needs} (found {len(runs)}: {', '.join(runs) or 'none'})")
    return figure.draw(runs, options or Options())


def write_figure(
    number: int | str,
    runs: Mapping[str, RunFolder],
    folder: Path,
    options: Options | None = None,
    *,
    data_root: Path | None = None,
    progress: Progress = silent,
    loaded: dict[DataConfig, LabelledImages] | None = None,
) -> list[Path]:
    """Draw one figure of the paper with its note and write `figure-NN.svg` and `figure-NN.png` into a folder.

    `loaded` shares test images among figures.
    """
    title = _known(number).title
    loaded = {} if loaded is None else loaded
    sources = {label: RunSource(run, data_root, progress, loaded) for label, run in runs.items()}
    figure, note = draw_figure(number, sources, options)
    add_note(figure, note)
    return save_figure(figure, folder, f"figure-{int(number):02d}", title)


def _known(number: int | str) -> PaperFigure:
    try:
        return FIGURES[int(number)]
    except (KeyError, ValueError):
        raise InputError(f"the figures of the paper go from 1 to {len(FIGURES)} (found {number!r})") from None


def _only(runs: Mapping[str, RunSource]) -> RunSource:
    (run,) = runs.values()
    return run


def describe(run: RunSource) -> str:
    """The run, its data and its statistics, for a note."""
    return f"Run {run.name}, test classes of {run.config.data.data}, running statistics (each image judged alone)."


def _diagram(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    run = _only(runs)
    view = view_episode(run.network, run.images, way=4, shot=3, query=4, seed=options.seed)
    outputs = [block.conv.out_channels for block in run.network.encoder.blocks]  # type: ignore[union-attr]
    note = f"{describe(run)} An episode of {len(view.names)} classes drawn by seed {options.seed}. {space_note(view)}"
    return Drawn(network_diagram(view, outputs, view.hardest), note)


def _space(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    run = _only(runs)
    view = view_episode(run.network, run.images, way=4, shot=5, query=4, seed=options.seed)
    note = f"{describe(run)} {len(view.names)} classes drawn by seed {options.seed}. {space_note(view)}"
    return Drawn(embedding_space(view, view.hardest), note)


def space_note(view: EpisodeView) -> str:
    """How to read the plane of an episode."""
    D = view.x.shape[-1]
    words = (
        f"Dots are supports, stars prototypes, the cross a query, the hardest of {view.d[..., 0].size}; numbers at the "
        f"dashed lines are its distances in all {D} dimensions, the nearest in bold."
    )
    if view.s is None:
        return words + " A vanilla network: no precision, so no ellipses."
    words += (
        " Outlines are supports, filled shapes classes; a radius is one common factor times 1/√s, so a class, whose "
        "precision is the sum of its supports', has a smaller one."
    )
    return words + ("" if view.in_distance else " The distance is the plain one: the precision only weighs supports.")


def _rotations(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    run = _only(runs)
    classes = upright(run.images)
    c = classes[int(torch.randint(len(classes), (), generator=torch.Generator().manual_seed(options.seed)))]
    pixels = run.images.images[int(run.images.starts[c])].numpy()
    return Drawn(
        rotations(pixels),
        f"A drawing of {run.images.classes[c]}, {run.config.data.data}; each turn is a class of its own.",
    )


def _shots(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    scored = {label: run.scores(options.way, options.norm) for label, run in runs.items()}
    data = {(e.data, e.classes) for e in scored.values()}
    if len(data) > 1:
        raise InputError("the runs were scored on different test classes, so their accuracies cannot be compared")
    which = "; ".join(f"{label}: run {runs[label].name}, {e.checkpoint_words}" for label, e in scored.items())
    ((name, classes),) = data
    note = (
        f"{options.way}-way on {classes:,} test classes of {name}, {options.norm} statistics. Bands are 95 % intervals "
        f"over characters. {which}."
    )
    return Drawn(accuracy_over_shots({label: e.scores for label, e in scored.items()}, options.way), note)


def _loss(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    for run in runs.values():
        if not len(run.curve.episodes):
            raise InputError(f"{run.run.path} has no log of its training: train it again to get one")
    which = "; ".join(
        f"{label}: {_training_words(run)}" if len(runs) > 1 else _training_words(run) for label, run in runs.items()
    )
    note = f"Training loss under batch statistics, thin every ten episodes, thick their running mean; {which}."
    return Drawn(loss_over_episodes({label: run.curve for label, run in runs.items()}), note)


def _training_words(run: RunSource) -> str:
    training = run.config.training
    rate = f"halved every {training.halve_every:,} episodes" if training.schedule == "halving" else training.schedule
    return f"run {run.name} on {run.config.data.data}, {run.config.episode.way}-way, learning rate {rate}"


def _test_curve(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    run = _only(runs)
    if not run.tested:
        raise InputError(f"{run.run.path} has no test scores along its training (no curve in its metrics.json)")
    data = run.config.data.data
    earlier = EARLIER if data == "omniglot" and options.way == 20 else None
    figure = accuracy_over_episodes({run.name: run.curve}, run.tested, options.way, earlier)
    norm = next((point["norm"] for point in run.metrics["curve"] if "norm" in point), "running")
    note = (
        f"Run {run.name} on {data}; test under {norm} statistics with 95 % intervals, training under batch statistics, "
        f"thin every ten episodes, thick their running mean.{' Dotted: prototypical networks.' if earlier else ''}"
    )
    return Drawn(figure, note)


def _precisions(runs: Mapping[str, RunSource], options: Options) -> Drawn:
    run = _only(runs)
    some = thinned(run.images, HISTOGRAM_CLASSES)
    precisions = measure_precisions(run.network, some.images, seed=options.seed, progress=run.progress)
    if precisions is None:
        raise InputError(f"{run.run.path} is a vanilla network: it predicts no precision")
    sizes = ", ".join(f"{size}" for size in precisions.sizes)
    note = (
        f"{describe(run)} {len(some):,} drawings; damaged ones are down-sampled to {sizes} pixels and back. "
        f"{precisions.sentence()}"
    )
    return Drawn(precision_histogram(precisions), note)


def _map(pictures: bool) -> Callable[[Mapping[str, RunSource], Options], Drawn]:
    def draw(runs: Mapping[str, RunSource], options: Options) -> Drawn:
        run = _only(runs)
        view = view_episode(run.network, run.images, way=10, shot=5, query=15, seed=options.seed)
        return Drawn(embedding_map(view, pictures), f"{describe(run)} {map_note(view, pictures)}")

    return draw


def map_note(view: EpisodeView, pictures: bool) -> str:
    """How to read a map of the embedding space."""
    C, Q = view.query.shape[:2]
    frames = "" if pictures else ", one of which is in a frame"
    return (
        f"{C} classes never seen in training, {Q} queries of each; a star is the prototype of a class, made of "
        f"{view.support.shape[1]} supports{frames}."
    )


ONE = range(1, 2)
FIGURES: dict[int, PaperFigure] = {
    1: PaperFigure("The network", "one run", ONE, _diagram),
    2: PaperFigure("The embedding space", "one run", ONE, _space),
    3: PaperFigure("A character and its rotations", "one run, for its data", ONE, _rotations),
    4: PaperFigure("Vanilla, radius and diagonal", "two to six evaluated runs", range(2, 7), _shots),
    5: PaperFigure("With and without damage", "two to six evaluated runs", range(2, 7), _shots),
    6: PaperFigure("The loss", "one run", ONE, _loss),
    7: PaperFigure("Training and test accuracy", "one run with a curve of test scores", ONE, _test_curve),
    8: PaperFigure("The loss of a small and a big encoder", "two to six runs", range(2, 7), _loss),
    9: PaperFigure("The precision of clean and of damaged images", "one run with a precision", ONE, _precisions),
    10: PaperFigure("A map of the embedding space in images", "one run", ONE, _map(True)),
    11: PaperFigure("A map of the embedding space in dots", "one run", ONE, _map(False)),
}
