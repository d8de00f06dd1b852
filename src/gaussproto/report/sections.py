"""Measure and draw what the page shows about one run."""

import shlex
from functools import cached_property

import numpy as np
from torch import Tensor

from gaussproto.config import SECTIONS
from gaussproto.data.images import LabelledImages
from gaussproto.evaluation.confusions import ConfusedPair, confusions
from gaussproto.evaluation.robustness import each_precision, measure_precisions
from gaussproto.evaluation.views import view_episode
from gaussproto.figures import curves
from gaussproto.figures.histogram import precision_histogram
from gaussproto.figures.pictures import data_url
from gaussproto.figures.space import embedding_map, map_note
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.embed import embed_all
from gaussproto.report.parts import Drawing, Part, Picture, drawing, measured
from gaussproto.report.source import RunSource
from gaussproto.runs.metrics import RunEvaluation, Score
from gaussproto.setting_types import setting_text
from gaussproto.table import Table

CLASSES = 300  # test classes that the page uses, without rotations
EXTREMES = 12  # images shown with the lowest and with the highest precision
INDUCTIVE = "Last checkpoint, running statistics (inductive: each image independently)"


class Sample:
    """Some test classes of a run, embedded once for everything that the page measures."""

    def __init__(self, run: RunSource) -> None:
        self.run = run

    @cached_property
    def images(self) -> LabelledImages:
        return self.run.images.sample_of_classes(CLASSES)

    @cached_property
    def embedded(self) -> Embedded[Tensor]:
        return embed_all(self.run.network, self.images, self.run.progress).map(lambda t: t.cpu())

    def picture(self, i: int, alt: str, note: str = "") -> Picture:
        return Picture(data_url(self.images.images[i].numpy()), alt, note)


def run_section(run: RunSource, key: str) -> dict[str, object]:
    """Return everything that `run.html` shows about one run. `key` is the id of its heading."""
    sample = Sample(run)
    return {
        "key": key,
        "source": run,
        "scores": _scores(run, key),
        "training": _training(run, key),
        "precision": measured(lambda: _precision(run, sample, key)),
        "confusion": measured(lambda: _confusion(run, sample)),
        "map": measured(lambda: _map(run, key)),
        "settings": _settings(run),
    }


def cell(score: Score | None, std: bool = True) -> str:
    return score.text(std=std) if score else ""


def _scores(run: RunSource, key: str) -> Part:
    if run.evaluations:
        return Part([_evaluation(run, each, f"{key}-shots{n}") for n, each in enumerate(run.evaluations)])
    if run.evaluation_error:
        return Part(missing=f"Not evaluated: {run.evaluation_error}.")
    return Part(missing="Not evaluated yet:", command=f"gaussproto evaluate {shlex.quote(str(run.path))}")


def _evaluation(run: RunSource, evaluation: RunEvaluation, key: str) -> dict[str, object]:
    ways, shots, way = evaluation.ways, evaluation.shots, evaluation.ways[-1]
    rows = tuple((f"{shot}-shot", *(cell(evaluation.find(way, shot)) for way in ways)) for shot in shots)
    title = f"Accuracy in %: {evaluation.description}"
    table = Table(key, title, ("", *(f"{way}-way" for way in ways)), rows, labels=1)
    if len(shots) <= 2:
        return {"table": table, "charts": []}
    alt = f"Line chart: {way}-way accuracy of {run.name} by number of supports"
    note = f"{way}-way: {evaluation.description}. The band is the 95 % interval."
    figure = curves.accuracy_over_shots({"": evaluation.scores}, way)
    return {"table": table, "charts": [drawing(figure, alt, note, f"{key}-{way}")]}


def _training(run: RunSource, key: str) -> Part:
    curve = run.curve
    if len(curve.episodes) < 2:
        return Part(missing="This run has no training log.")
    lines = " Thin: as logged. Thick: running mean." if curves.smoothing_width(len(curve.episodes)) > 1 else ""
    note = f"in {curve.way}-way training episodes, batch statistics.{lines}"
    alt = f"Line chart: training loss of {run.name}"
    charts = [drawing(curves.loss_over_episodes({run.name: curve}), alt, f"Loss {note}", f"{key}-loss")]
    tested = run.metrics.curve
    alt = f"Line chart: accuracy of {run.name} in training"
    note = f"Accuracy {note}" + (" Error bars of test points: 95 % intervals." if tested else "")
    figure = curves.accuracy_over_episodes({run.name: curve}, tested)
    charts.append(drawing(figure, alt, note, f"{key}-accuracy"))
    if not np.isnan(curve.precision_mean[0]):
        alt = f"Line chart: mean precision of {run.name} in training"
        note = "Precision of the training images. The band is one standard deviation to each side of the mean."
        charts.append(drawing(curves.precision_over_episodes(curve), alt, note, f"{key}-precision"))
    return Part(charts)


def _precision(run: RunSource, sample: Sample, key: str) -> dict[str, object]:
    s = sample.embedded.s if run.config.network.covariance != "none" else None
    if s is None:
        sentence = "This is a vanilla network: it predicts no precision, so every support counts the same."
        return {"sentence": sentence, "histogram": None, "lowest": []}
    clean = each_precision(s)
    precisions = measure_precisions(run.network, sample.images.images, progress=run.progress, clean=clean)
    assert precisions is not None
    note = (
        f"{INDUCTIVE}. {len(clean):,} test images of {run.config.data.data}, and {len(precisions.damaged):,} of them "
        f"damaged: down-sampled to {', '.join(map(str, precisions.sizes))} pixels and back. Dotted lines are means."
    )
    sentence = precisions.sentence()
    figure = precision_histogram(precisions, aligned=False)
    histogram = drawing(figure, f"Histogram of the precision. {sentence}", note, f"{key}-histogram")
    count = 0 if precisions.dead else min(EXTREMES, len(clean) // 2)
    order = np.argsort(clean, kind="stable").tolist()

    def picture(i: int) -> Picture:
        name, value = sample.images.classes[int(sample.images.labels[i])], f"{clean[i]:#.3g}"
        return sample.picture(i, f"{name}, precision {value}", value)

    lowest, highest = ([picture(i) for i in extremes[:count]] for extremes in (order, order[::-1]))
    return {"sentence": sentence, "histogram": histogram, "lowest": lowest, "highest": highest}


def _confusion(run: RunSource, sample: Sample) -> dict[str, object]:
    result = confusions(run.network, sample.images, sample.embedded)
    classes = f"{result.way:,} test classes" if result.way < run.images.way else f"all {result.way:,} test classes"
    queries = len(sample.images) - result.way * result.shot
    sentence = (
        f"{INDUCTIVE}. Each query is compared with {classes}, with {result.shot} supports of each: "
        f"{100 * result.accuracy:.1f} % of {queries:,} queries are classified correctly."
    )
    if not result.pairs:
        sentence += " No query is misclassified."
    return {"sentence": sentence, "pairs": [_pair(sample, pair) for pair in result.pairs]}


def _pair(sample: Sample, pair: ConfusedPair) -> dict[str, object]:
    images = sample.images
    names = [images.classes[c] for c in pair.classes]
    drawings = ((images.labels == c).nonzero().flatten()[:3].tolist() for c in pair.classes)
    first, second = ([sample.picture(i, name) for i in some] for some, name in zip(drawings, names, strict=True))
    mistaken = [
        sample.picture(i, f"an image of {names[side]}, classified as {names[1 - side]}")
        for side in (0, 1)
        for i in pair.examples[side][:2]
    ]
    counts = ", ".join(f"{wrong} of {total}" for wrong, total in zip(pair.mistaken, pair.asked, strict=True))
    return {"names": " and ".join(names), "first": first, "second": second, "mistaken": mistaken, "counts": counts}


def _map(run: RunSource, key: str) -> Drawing:
    view = view_episode(run.network, run.images, way=10, shot=5, query=12)
    alt = f"Scatter plot: {len(view.names)} test classes in the plane of two principal components"
    note = f"{INDUCTIVE}. {map_note(view, pictures=True)} The axes are principal components of the embeddings."
    return drawing(embedding_map(view, pictures=True), alt, note, f"{key}-map", on_paper=True)


def _settings(run: RunSource) -> list[Table]:
    tree = run.config.model_dump(mode="json")
    given = ({name: value for name, value in tree[section].items() if value is not None} for section in SECTIONS)
    rows = (tuple((name, setting_text(name, value)) for name, value in settings.items()) for settings in given)
    return [Table(section, section, ("setting", "value"), each) for section, each in zip(SECTIONS, rows, strict=True)]
