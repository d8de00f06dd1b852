"""What the page says of one run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from torch import Tensor

from gaussproto.config import SECTIONS
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import Score, embed_all
from gaussproto.evaluation.robustness import each_precision
from gaussproto.report.curves import (
    accuracy_over_episodes,
    accuracy_over_shots,
    loss_over_episodes,
    precision_over_episodes,
)
from gaussproto.report.figures import map_note
from gaussproto.report.histogram import precision_histogram
from gaussproto.report.html import Html, drawing, join, picture, table, tag
from gaussproto.report.measure import confusions, measure_precisions, thinned, view_episode
from gaussproto.report.source import RunSource
from gaussproto.report.space import embedding_map
from gaussproto.setting_words import setting_words

CLASSES = 300  # unturned test classes that the page looks at
EXTREMES = 12  # images with the lowest and the highest precision
JUDGED_ALONE = "Last checkpoint, running statistics (each image judged alone)"


class Sample:
    """Some of a run's test classes, embedded once for all that the page measures."""

    def __init__(self, run: RunSource) -> None:
        self.run = run

    @cached_property
    def images(self) -> LabelledImages:
        """As they are; a run is worth a page also where its data is gone."""
        return thinned(self.run.images, CLASSES)

    @cached_property
    def embedded(self) -> tuple[Tensor, Tensor | None]:
        """x and s of every image."""
        return embed_all(self.run.network, self.images.images, self.run.progress)


def run_section(run: RunSource, key: str) -> Html:
    """Everything about one run."""
    sample = Sample(run)
    parts = [
        tag("h2", run.name, id=key, class_="run"),
        _status(run),
        tag("h3", "Scores"),
        _scores(run, key),
        tag("h3", "Training"),
        _training(run, key),
        tag("h3", "Precision"),
        _or_why_not(lambda: _precision(run, sample, key)),
        tag("h3", "Classes most taken for each other"),
        _or_why_not(lambda: _confusion(run, sample)),
        tag("h3", "Map of the embedding space"),
        _or_why_not(lambda: _map(run, key)),
        tag("h3", "Settings"),
        _settings(run),
    ]
    return tag("section", *parts)


def missing(words: str, command: str = "") -> Html:
    """What is not there, and how to get it."""
    return tag("p", words, *([" ", tag("code", command)] if command else []), class_="missing")


def score_words(score: Score | None, spread: bool = True) -> str:
    """An accuracy, or nothing where there is none."""
    return score.words(spread) if score else ""


def _or_why_not(section: Callable[[], Html]) -> Html:
    try:
        return section()
    except InputError as error:
        return missing(f"Not measured: {error}.")


def _status(run: RunSource) -> Html:
    done, total = run.done
    position = run.checkpoint.position
    words = f"{run.config.about}. " if run.config.about else ""
    init = f", starting from {run.config.training.init}" if run.config.training.init else ""
    words += f"Trained on {run.config.data.data} for {done:,} episodes, {position.seconds:,.0f} s{init}. "
    parameters = sum(parameter.numel() for parameter in run.network.parameters())
    lines = [tag("p", words + f"{parameters:,} parameters. Folder: ", tag("code", str(run.run.path)))]
    if not run.finished:
        lines.append(
            missing(f"Not finished: {done:,} of {total:,} episodes. What follows is as of the last checkpoint.")
        )
    return join(lines)


def _scores(run: RunSource, key: str) -> Html:
    if not run.scored and run.not_scored:
        return missing(f"Not evaluated: {run.not_scored}.")
    if not run.scored:
        return missing("Not evaluated yet:", f"gaussproto evaluate {shlex.quote(str(run.run.path))}")
    parts = []
    for n, scored in enumerate(run.scored):
        ways = sorted({score.way for score in scored.scores})
        shots = sorted({score.shot for score in scored.scores})
        rows = [[f"{shot}-shot", *(score_words(scored.score(way, shot)) for way in ways)] for shot in shots]
        content = table(f"Accuracy in %: {scored.words}", ["", *(f"{way}-way" for way in ways)], rows)
        charts = []
        if len(shots) > 2:
            way = ways[-1]
            charts.append(
                drawing(
                    accuracy_over_shots({"": scored.scores}, way),
                    f"Line chart: {way}-way accuracy of {run.name} over the number of supports",
                    f"{way}-way: {scored.words}. The band is the 95 % interval.",
                    f"{key}-shots{n}-{way}",
                )
            )
        parts.append(tag("div", tag("div", content), *charts, class_="grid"))
    note = "± is the 95 % interval over characters; each class is scored in random groups of so many classes."
    return join([*parts, tag("p", note, class_="soft")])


def _training(run: RunSource, key: str) -> Html:
    curve = run.curve
    if len(curve.episodes) < 2:
        return missing("No log of the training is there.")
    curves = {run.name: curve}
    note = f"{curve.way}-way training episodes, batch statistics; thin as logged, thick the running mean."
    charts = [
        drawing(loss_over_episodes(curves), f"Line chart: training loss of {run.name}", f"Loss. {note}", f"{key}-loss"),
        drawing(
            accuracy_over_episodes(curves, run.tested),
            f"Line chart: accuracy of {run.name} in training",
            f"Accuracy. {note}" + (" Test points: 95 % intervals." if run.tested else ""),
            f"{key}-accuracy",
        ),
    ]
    if curve.precision_mean is not None:
        charts.append(
            drawing(
                precision_over_episodes(curve),
                f"Line chart: mean precision of {run.name} in training",
                "Precision of the training images: mean, and one standard deviation to each side.",
                f"{key}-precision",
            )
        )
    return tag("div", *charts, class_="grid")


def _precision(run: RunSource, sample: Sample, key: str) -> Html:
    if run.config.network.covariance == "none":
        return tag("p", "This is a vanilla network: it predicts no precision, and every example counts the same.")
    _, s = sample.embedded
    assert s is not None
    clean = each_precision(s.cpu())
    found = measure_precisions(run.network, sample.images.images, progress=run.progress, clean=clean)
    assert found is not None
    sizes = ", ".join(map(str, found.sizes))
    note = (
        f"{JUDGED_ALONE}; {len(clean):,} test images of {run.config.data.data}, "
        f"{len(found.damaged):,} of them also down-sampled to {sizes} pixels and back. Dotted: means."
    )
    alt = f"Histogram of the precision. {found.sentence()}"
    order = np.argsort(clean, kind="stable")
    count = min(EXTREMES, len(order) // 2)
    parts = [
        tag("p", found.sentence()),
        drawing(precision_histogram(found, aligned=False), alt, note, f"{key}-histogram"),
    ]
    if not found.dead and count:
        parts += [
            tag("p", "The lowest precision: these count least as examples.", class_="leads"),
            _strip(sample, order[:count], clean),
        ]
        parts += [
            tag("p", "The highest: these count most.", class_="leads"),
            _strip(sample, order[::-1][:count], clean),
        ]
    return join(parts)


def _strip(sample: Sample, chosen: np.ndarray, precision: np.ndarray) -> Html:
    thumbs = []
    for i in chosen.tolist():
        name = sample.images.classes[int(sample.images.labels[i])]
        alt = f"{name}, precision {precision[i]:#.3g}"
        thumbs.append(picture(sample.images.images[i].numpy(), alt, f"{precision[i]:#.3g}"))
    return tag("div", *thumbs, class_="thumbs")


def _confusion(run: RunSource, sample: Sample) -> Html:
    x, s = sample.embedded
    found = confusions(run.network, sample.images, x, s)
    few = f"{found.way:,} of them" if found.way < run.images.way else "all"
    words = (
        f"{JUDGED_ALONE}. Every query is compared with every class, {few}, {found.shot} supports of each: "
        f"{100 * found.accuracy:.1f} % of {len(sample.images) - found.way * found.shot:,} are right."
    )
    if not found.pairs:
        return tag("p", words + " No query was mistaken.")
    rows = []
    for pair in found.pairs:
        names = [sample.images.classes[c] for c in pair.classes]
        row: list[str] = [f"{names[0]} and {names[1]}"]
        for c, name in zip(pair.classes, names, strict=True):
            start = int(sample.images.starts[c])
            shown = range(start, start + min(3, int(sample.images.counts[c])))
            row.append(_in_line(picture(sample.images.images[i].numpy(), name) for i in shown))
        wrong = [
            picture(sample.images.images[i].numpy(), f"a drawing of {names[side]}, taken for {names[1 - side]}")
            for side in (0, 1)
            for i in pair.examples[side][:2]
        ]
        row.append(_in_line(wrong))
        row.append(f"{pair.mistaken[0]} of {pair.asked[0]}, {pair.mistaken[1]} of {pair.asked[1]}")
        rows.append(row)
    head = ["classes", "the first", "the second", "mistaken", "how many, each way"]
    return join([tag("p", words), table("The pairs with the most mistakes", head, rows, numbers=False)])


def _in_line(images: Iterable[Html]) -> Html:
    return tag("span", *images, class_="line")


def _map(run: RunSource, key: str) -> Html:
    view = view_episode(run.network, run.images, way=10, shot=5, query=12)
    alt = f"Scatter plot: {len(view.names)} test classes in the plane of two principal components"
    note = f"{JUDGED_ALONE}. {map_note(view, pictures=True)} The two principal components of their embeddings."
    return drawing(embedding_map(view, pictures=True), alt, note, f"{key}-map", on_paper=True)


def _settings(run: RunSource) -> Html:
    tree = run.config.model_dump(mode="json")
    tables = []
    for section in SECTIONS:
        rows = []
        for name, value in tree[section].items():
            if value is not None:
                rows.append([name, setting_words(name, value)])
        tables.append(tag("div", table(section, ["setting", "value"], rows, numbers=False)))
    return tag("div", *tables, class_="settings")
