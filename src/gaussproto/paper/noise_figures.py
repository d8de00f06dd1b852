"""Draw the figures of the study of bad examples."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gaussproto.config import DataConfig
from gaussproto.data.corrupt import CORRUPTIONS, SEVERITIES, corrupt
from gaussproto.data.load import load_data
from gaussproto.figures.noise import accuracy_over_severity, accuracy_over_wrong, corrupted_examples, gains
from gaussproto.figures.style import add_note, save_figure
from gaussproto.paper.noise import AIMS, CORRUPTED, WRONG
from gaussproto.paper.noise_scores import SEVERAL, VANILLA, WEIGHTED
from gaussproto.paper.noise_tables import NAMES, SEVERITY_RULES, seeds_text, supports_text
from gaussproto.runs.noise import SOURCES, Condition, NoiseStudy

EXAMPLE = 0.37  # which of the invented characters is shown: its place among all
LABEL_CURVES = {
    "vanilla, plain mean": (VANILLA, "plain mean"),
    "ours, weighted mean": (WEIGHTED, "weighted mean"),
    "ours, median": (WEIGHTED, "median"),
    "ours, agreement": (WEIGHTED, "agreement"),
}
SEVERITY_CURVES = {NAMES[network]: (network, rule) for network, rule in SEVERITY_RULES.items()}
SHORT_DIFFERENCES = {
    "paper, radius": "the paper's radius",
    "paper, diagonal": "the paper's diagonal",
    "ours, precision": "ours",
}
INTERVALS = (
    "Intervals are 95 % over the test classes or over the seeds (Student's t): the wider one, or the one that is known."
)


def write_noise_figures(study: NoiseStudy, folder: Path) -> list[Path]:
    """Draw every figure of the study as SVG and PNG."""
    files = []
    for name, (title, draw) in FIGURES.items():
        figure, note = draw(study)
        add_note(figure, note)
        files += save_figure(figure, folder, name, title)
    return files


def _about(study: NoiseStudy) -> str:
    characters = f"{study.characters[0]:,} test classes of {study.data} ({study.characters[1]:,} for corruptions)"
    return f"{study.way}-way with {study.shot} supports on {characters}, small encoder, {seeds_text(study)}."


def _examples(study: NoiseStudy) -> tuple[Figure, str]:
    test = load_data(DataConfig(data="strokes", rotations=False)).test
    image = test.images[int(EXAMPLE * len(test))].repeat(8, 1, 1, 1)  # so that clutter has other images to take from
    image[1:] = test.images[:: len(test) // 7][:7]
    rows = {name: [image[0, 0].numpy()] for name in CORRUPTIONS}
    for name, images in rows.items():
        for severity in SEVERITIES:
            generator = torch.Generator().manual_seed(severity)
            images.append(np.asarray(corrupt(image, name, severity, generator)[0, 0].numpy()))
    return corrupted_examples(rows), "An invented character, so no drawing of Omniglot is shown."


def _labels(study: NoiseStudy) -> tuple[Figure, str]:
    panels = {
        f"from {where}".replace(" of the episode", "").replace("the episode", "it"): [
            Condition(), *(condition for condition in WRONG if condition.source == source)
        ]
        for source, where in SOURCES.items()
    }  # fmt: skip
    note = f"{_about(study)} Every class has the same number of wrong supports. Bands are 95 % intervals over classes."
    return accuracy_over_wrong(study, panels, LABEL_CURVES), note


def _severities(study: NoiseStudy, queries: bool) -> tuple[Figure, str]:
    measured = {score.condition.corruption for score in study.scores}
    panels = {
        name: [
            Condition(),
            *(
                Condition(corruption=name, severity=n, queries=queries, corrupted=0 if queries else CORRUPTED)
                for n in SEVERITIES
            ),
        ]
        for name in CORRUPTIONS
        if name in measured
    }
    what = "All queries are corrupted, supports are not." if queries else (
        f"{CORRUPTED} of the {study.shot} supports of every class are corrupted, queries are not."
    )  # fmt: skip
    note = (
        f"{_about(study)} {what} Vanilla: plain mean, Gaussian: weighted mean. Bands are 95 % intervals over classes."
    )
    return accuracy_over_severity(study, panels, SEVERITY_CURVES), note


def _hypothesis(study: NoiseStudy) -> tuple[Figure, str]:
    measured = {score.condition.corruption for score in study.scores}
    names = [name for name in CORRUPTIONS if name in measured]
    wrong = [condition for condition in WRONG if condition.source == "swap"]
    rows = {f"{condition.wrong} of {study.shot} wrong": condition for condition in wrong}
    rows |= {f"supports: {name}": Condition(corruption=name, corrupted=CORRUPTED) for name in names}
    rows |= {f"queries: {name}": Condition(corruption=name, queries=True) for name in names}
    breaks = (1, 1 + len(wrong), 1 + len(wrong) + len(names))
    rows = {"all good": Condition()} | rows
    note = f"{_about(study)} Both had the same training images. Corruptions: mean over five severities. {INTERVALS}"
    return gains(study, rows, SHORT_DIFFERENCES, xlabel="Gaussian minus vanilla, points", breaks=breaks), note


def _aims(study: NoiseStudy) -> tuple[Figure, str]:
    rows = {supports_text(condition): condition for condition in AIMS}
    comparisons = {"ours, precision": "precision alone", "ours, agreement": "agreement alone", "ours": "both"}
    note = (
        f"{_about(study)} Damaged: down-sampled to a quarter of the side. Baseline: the plain mean of the network "
        f"'{NAMES[SEVERAL]}'. {INTERVALS}"
    )
    return gains(study, rows, comparisons, AIMS, "points above the plain mean of a vanilla network"), note


FIGURES: dict[str, tuple[str, Callable[[NoiseStudy], tuple[Figure, str]]]] = {
    "corruptions": ("Seven corruptions at five severities", _examples),
    "wrong-labels": ("Accuracy with wrong labels", _labels),
    "corrupted-supports": ("Accuracy with corrupted supports", lambda study: _severities(study, queries=False)),
    "corrupted-queries": ("Accuracy with corrupted queries", lambda study: _severities(study, queries=True)),
    "hypothesis": ("Gaussian minus vanilla networks on noisy data", _hypothesis),
    "aims": ("What precision and agreement gain", _aims),
}
