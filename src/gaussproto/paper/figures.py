"""Draw the eleven figures of the paper from runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch
from matplotlib.figure import Figure

from gaussproto.config import DataConfig
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.robustness import measure_precisions
from gaussproto.evaluation.views import view_episode
from gaussproto.figures.curves import accuracy_over_episodes, accuracy_over_shots, loss_over_episodes
from gaussproto.figures.diagram import network_diagram
from gaussproto.figures.histogram import precision_histogram
from gaussproto.figures.pictures import rotations
from gaussproto.figures.space import embedding_map, embedding_space, map_note, space_note
from gaussproto.figures.style import add_note, save_figure
from gaussproto.model.encoder import Block, Encoder
from gaussproto.paper import rows
from gaussproto.paper.row import Row
from gaussproto.paper.rows import LITERATURE, LITERATURE_TASKS
from gaussproto.progress import Progress, silent
from gaussproto.report.source import RunSource
from gaussproto.runs.folder import RunFolder
from gaussproto.setting_types import Norm

HISTOGRAM_CLASSES = 300  # test classes whose precisions are measured, without rotations
Runs = Mapping[str, RunSource]  # by the label in the figure
Drawn = tuple[Figure, str]  # a figure and its note
BEST = dict(zip(LITERATURE_TASKS, LITERATURE["Prototypical networks"], strict=True))
BEFORE_THE_PAPER = {shot: float(BEST[20, shot]) / 100 for shot in (1, 5)}  # 20-way accuracy on Omniglot


@dataclass(frozen=True)
class Options:
    """Options of a figure.

    Attributes:
        norm: statistics of the scores in figures 4 and 5.
        way: way of the scores in figures 4, 5 and 7.
        seed: of the episode or images that the figure shows.
    """

    norm: Norm = "running"
    way: int = 20
    seed: int = 0


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper."""

    title: str
    needs: str  # the runs that it needs, in words
    draw: Callable[[Runs, Options], Drawn]
    rows: Mapping[str, Row]  # by their labels in the legend, which a single run does not have

    @property
    def run_counts(self) -> range:
        return range(2, 7) if len(self.rows) > 1 else range(1, 2)  # there are six colours


def draw_figure(number: int | str, runs: Runs, options: Options | None = None) -> Drawn:
    figure = _find(number)
    if len(runs) not in figure.run_counts:
        raise InputError(f"figure {number} needs {figure.needs} (found {', '.join(runs) or 'none'}): choose other runs")
    return figure.draw(runs, options or Options())


def write_figure(
    number: int | str,
    runs: Mapping[str, Path | str],
    folder: Path | str,
    options: Options | None = None,
    *,
    data_root: Path | None = None,
    progress: Progress = silent,
    loaded: dict[DataConfig, LabelledImages] | None = None,
) -> list[Path]:
    """Draw a figure of the paper from runs, with a note, and write `figure-NN.svg` and `figure-NN.png`.

    Figures 4, 5 and 8 compare two to six runs, the others show one. Figures 4 and 5 need evaluated runs.

    Args:
        number: of the figure, from 1 to 11.
        runs: the run folders, by their labels in the figure.
        folder: where to write the files. It is created if needed.
        options: the scores or the episode to show.
        data_root: the folder with Omniglot's files, as for `load_data`.
        progress: called as images are read and embedded.
        loaded: test images by their configuration. Pass the same dictionary to share them between calls.

    Returns:
        The paths of the two files.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", filters=(4, 4, 4), embedding_dim=4, way=5, episodes=20)
        >>> with TemporaryDirectory() as folder:
        ...     run = gp.train(config, gp.load_data(config.data).train, f"{folder}/tiny")
        ...     files = gp.write_figure(2, {"tiny": run.folder}, folder)
        >>> [file.name for file in files]
        ['figure-02.svg', 'figure-02.png']
    """
    title = _find(number).title
    loaded = {} if loaded is None else loaded
    sources = {label: RunSource(RunFolder(Path(run)), data_root, progress, loaded) for label, run in runs.items()}
    figure, note = draw_figure(number, sources, options)
    add_note(figure, note)
    return save_figure(figure, Path(folder), f"figure-{int(number):02d}", title)


def write_figures(
    runs: Path, folder: Path, data_root: Path | None = None, progress: Progress = silent
) -> tuple[list[Path], list[str]]:
    """Draw every figure whose runs are in `runs`. Return the files, and the skipped figures with the reason."""
    files: list[Path] = []
    left_out = []
    loaded: dict[DataConfig, LabelledImages] = {}
    for number, figure in FIGURES.items():
        paths = {label: runs / row.name for label, row in figure.rows.items()}
        missing = [path.name for path in paths.values() if not RunFolder(path).ended]
        if missing:
            left_out.append(f"figure {number} (it needs the run{'s' * (len(missing) > 1)} {', '.join(missing)})")
            continue
        try:
            files += write_figure(number, paths, folder, data_root=data_root, progress=progress, loaded=loaded)
        except InputError as error:  # draw the others
            left_out.append(f"figure {number} ({error})")
        progress("figures", number, len(FIGURES))
    return files, left_out


def _find(number: int | str) -> PaperFigure:
    try:
        return FIGURES[int(number)]
    except (KeyError, ValueError):
        raise InputError(f"the figure must be a number from 1 to {len(FIGURES)} (found {number!r})") from None


def _source_note(run: RunSource) -> str:
    return f"Run {run.name}, test classes of {run.config.data.data}, running statistics (each image independently)."


def _draw_diagram(run: RunSource, options: Options) -> Drawn:
    encoder = run.network.encoder
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"this figure can only be drawn for the built-in encoders, but {run.path} uses another one: choose a run "
            "trained with --encoder small or big"
        )
    view = view_episode(run.network, run.images, way=4, shot=3, query=4, seed=options.seed)
    blocks = cast("Iterable[Block]", encoder.blocks)
    outputs, residual = zip(*((block.conv.out_channels, len(block.residuals)) for block in blocks), strict=True)
    episode = f"An episode of {len(view.names)} classes (seed {options.seed}). {space_note(view)}"
    return network_diagram(view, outputs, residual, encoder.grid, view.hardest), f"{_source_note(run)} {episode}"


def _draw_space(run: RunSource, options: Options) -> Drawn:
    view = view_episode(run.network, run.images, way=4, shot=5, query=4, seed=options.seed)
    note = f"{_source_note(run)} {len(view.names)} classes (seed {options.seed}). {space_note(view)}"
    return embedding_space(view, view.hardest), note


def _draw_rotations(run: RunSource, options: Options) -> Drawn:
    classes = run.images.unturned()
    c = classes[int(torch.randint(len(classes), (), generator=torch.Generator().manual_seed(options.seed)))]
    pixels = run.images.images[int(run.images.starts[c])].numpy()
    note = f"A drawing of {run.images.classes[c]} ({run.config.data.data}). Each rotation is a separate class."
    return rotations(pixels), note


def _draw_shots(runs: Runs, options: Options) -> Drawn:
    evaluations = {label: run.scores(options.way, options.norm) for label, run in runs.items()}
    data = {(evaluation.data, evaluation.classes) for evaluation in evaluations.values()}
    if len(data) > 1:
        raise InputError("the runs were scored on different test classes: choose runs on the same data")
    which = "; ".join(f"{label}: run {runs[label].name}, {e.checkpoint_text}" for label, e in evaluations.items())
    ((name, classes),) = data
    note = (
        f"{options.way}-way on {classes:,} test classes of {name}, {options.norm} statistics. Bands are 95 % intervals "
        f"over characters. {which}."
    )
    return accuracy_over_shots({label: e.scores for label, e in evaluations.items()}, options.way), note


def _draw_loss(runs: Runs, options: Options) -> Drawn:
    for run in runs.values():
        if not len(run.curve.episodes):
            raise InputError(f"{run.path} has no training log: train the run again")
    begin = "{label}: run" if len(runs) > 1 else "Run"
    which = "; ".join(f"{begin.format(label=label)} {_training_note(run)}" for label, run in runs.items())
    note = f"Training loss with batch statistics: thin every ten episodes, thick the running mean. {which}."
    return loss_over_episodes({label: run.curve for label, run in runs.items()}), note


def _training_note(run: RunSource) -> str:
    training = run.config.training
    halved = training.schedule == "halving"
    rate = f"halved every {training.halve_every:,} episodes" if halved else f"{training.schedule} schedule"
    return f"{run.name} on {run.config.data.data}, {run.config.episode.way}-way, learning rate: {rate}"


def _draw_test_curve(run: RunSource, options: Options) -> Drawn:
    tested = run.metrics.curve
    if not tested:
        problem = f"{run.path} has no test scores during training (no curve in its metrics.json)"
        raise InputError(f"{problem}: choose a run of `gaussproto reproduce`")
    data = run.config.data.data
    earlier = BEFORE_THE_PAPER if data == "omniglot" and options.way == 20 else None
    note = (
        f"Run {run.name} on {data}. Test: {tested[0].norm} statistics with 95 % intervals. Training: batch statistics, "
        f"thin every ten episodes, thick the running mean.{' Dotted: prototypical networks.' if earlier else ''}"
    )
    return accuracy_over_episodes({run.name: run.curve}, tested, options.way, earlier), note


def _draw_precisions(run: RunSource, options: Options) -> Drawn:
    sample = run.images.sample_of_classes(HISTOGRAM_CLASSES)
    precisions = measure_precisions(run.network, sample.images, seed=options.seed, progress=run.progress)
    if precisions is None:
        raise InputError(f"{run.path} is a run of a vanilla network, which has no precisions: choose a Gaussian one")
    sizes = ", ".join(map(str, precisions.sizes))
    note = (
        f"{_source_note(run)} {len(sample):,} images. Damaged ones are down-sampled to {sizes} pixels and back. "
        f"{precisions.sentence()}"
    )
    return precision_histogram(precisions), note


def _draw_map(run: RunSource, options: Options, pictures: bool) -> Drawn:
    view = view_episode(run.network, run.images, way=10, shot=5, query=15, seed=options.seed)
    return embedding_map(view, pictures), f"{_source_note(run)} {map_note(view, pictures)}"


def _one(title: str, draw: Callable[[RunSource, Options], Drawn], row: Row, needs: str = "one run") -> PaperFigure:
    return PaperFigure(title, needs, lambda runs, options: draw(next(iter(runs.values())), options), {"network": row})


# fmt: off
FIGURES: dict[int, PaperFigure] = {
    1: _one("The network", _draw_diagram, rows.BIG_DIAGONAL),
    2: _one("The embedding space", _draw_space, rows.BIG_DIAGONAL),
    3: _one("A character and its rotations", _draw_rotations, rows.SMALL_NONE, "one run, for its data"),
    4: PaperFigure(
        "Vanilla, radius and diagonal", "two to six evaluated runs", _draw_shots,
        {"vanilla": rows.BIG_NONE, "radius": rows.BIG_RADIUS_LEARNED, "diagonal": rows.BIG_DIAGONAL},
    ),
    5: PaperFigure(
        "With and without damage", "two to six evaluated runs", _draw_shots,
        {"without damage": rows.BIG_RADIUS_LEARNED, "with damage": rows.BIG_RADIUS_LEARNED_DAMAGE},
    ),
    6: PaperFigure("The loss", "one run", _draw_loss, {"network": rows.BIG_RADIUS_LEARNED_DAMAGE}),
    7: _one(
        "Training and test accuracy", _draw_test_curve, rows.BIG_RADIUS_LEARNED, "one run with a curve of test scores",
    ),
    8: PaperFigure(
        "The loss of a small and a big encoder", "two to six runs", _draw_loss,
        {"small": rows.SMALL_RADIUS, "big": rows.BIG_RADIUS_LEARNED},
    ),
    9: _one(
        "The precision of clean and of damaged images", _draw_precisions, rows.BIG_RADIUS_LEARNED_DAMAGE,
        "one run with a precision",
    ),
    10: _one("A map of the embedding space in images", partial(_draw_map, pictures=True), rows.SMALL_WEIGHTED),
    11: _one("A map of the embedding space in dots", partial(_draw_map, pictures=False), rows.SMALL_WEIGHTED),
}
# fmt: on
