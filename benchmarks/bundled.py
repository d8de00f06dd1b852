"""Score the bundled weights on all test classes of Omniglot, and compare the scores with their model cards.

Exits with code 1 if a score differs from its card by more than one unit of the last digit. Half a unit is rounding. The
rest allows for other processors, whose rounding errors can change a few of a million predictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.command import parser, run
from gaussproto import pretrained
from gaussproto.cli import console
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import load_data
from gaussproto.errors import InputError
from gaussproto.evaluation.calibrate import measure_confidence
from gaussproto.evaluation.protocol import evaluate
from gaussproto.evaluation.robustness import damage_study
from gaussproto.progress import Progress
from gaussproto.runs.folder import load_network
from gaussproto.runs.weights import open_weights
from gaussproto.training.memory import keep_freed_memory

NUMBER = r"(\d+\.\d+)"
ACCURACY = re.compile(rf"^\| (\d+) \| {NUMBER} ± [\d.]+ \| {NUMBER} ± [\d.]+ \|$", re.MULTILINE)
DAMAGE = re.compile(r"^\| accuracy \| ([\d. |]+) \|$", re.MULTILINE)
PRECISION = re.compile(
    rf"mean precision is {NUMBER} on clean images and {NUMBER} on .*?precision in {NUMBER} %", re.DOTALL
)
CONFIDENCE = re.compile(r"^\| (\d+)-way (\d+)-shot " + 5 * rf"\| {NUMBER} " + r"\|$", re.MULTILINE)


@dataclass(frozen=True)
class CardScore:
    """A number of a model card, and its measured value."""

    name: str
    card: str  # as written in the card
    measured: float

    @property
    def decimals(self) -> int:
        """Decimals of the number in the card."""
        return len(self.card.partition(".")[2])

    @property
    def difference(self) -> float:
        """Measured minus card."""
        return self.measured - float(self.card)

    @property
    def agrees(self) -> bool:
        """Whether the difference is at most one unit of the last digit of the card.

        >>> CardScore("", "99.22", 99.2249).agrees, CardScore("", "99.22", 99.2351).agrees
        (True, False)
        """
        return abs(self.difference) <= 10**-self.decimals


def score_bundled(name: str, test: LabelledImages, card: str, progress: Progress) -> Iterator[CardScore]:
    """Measure every accuracy, precision and confidence of a card."""
    network = load_network(name)
    tasks = _all_matches(ACCURACY, card, name)
    evaluation = evaluate(network, test, shots=[int(shot) for shot, _, _ in tasks], progress=progress)
    for shot, *accuracies in tasks:
        for way, accuracy in zip((5, 20), accuracies, strict=True):
            yield CardScore(
                f"{way}-way {shot}-shot accuracy, %", accuracy, 100 * evaluation.score(way, int(shot)).accuracy
            )

    study = damage_study(network, test, progress=progress)
    cells = _all_matches(DAMAGE, card, name)[0].split(" | ")
    for damaged, (accuracy, measured) in enumerate(zip(cells, study.accuracy, strict=True)):
        yield CardScore(f"accuracy with {damaged} of 5 examples damaged, %", accuracy, 100 * measured)
    clean, damaged, higher = _all_matches(PRECISION, card, name)[0]
    yield CardScore("mean precision of clean images", clean, study.precision_clean)
    yield CardScore("mean precision of damaged images", damaged, study.precision_damaged)
    yield CardScore("pairs in which the clean image has the higher precision, %", higher, 100 * study.clean_is_higher)

    calibration = open_weights(pretrained.bundled(name)).calibration
    confidence = {(one.way, one.shot): one for one in measure_confidence(network, test, calibration, progress=progress)}
    for way, shot, *numbers in _all_matches(CONFIDENCE, card, name):
        one = confidence[int(way), int(shot)]
        measured = {
            "calibration error at temperature 1": one.ece_before,
            "calibration error": one.ece_after,
            "AUROC of known against unknown": one.auroc,
            "known rejected, %": 100 * one.known_rejected,
            "unknown rejected, %": 100 * one.unknown_rejected,
        }
        for (quantity, value), number in zip(measured.items(), numbers, strict=True):
            yield CardScore(f"{way}-way {shot}-shot {quantity}", number, value)


def _all_matches(pattern: re.Pattern[str], card: str, name: str) -> list:
    matches = pattern.findall(card)
    if not matches:
        raise InputError(
            f"the card of {name} has no text that matches {pattern.pattern!r}: write it with scripts/bundle.py"
        )
    return matches


def main() -> int:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="bundled weights (default: all)")
    options.add_data_root()
    chosen = options.parse_args()
    known = pretrained.bundled_names()
    for name in chosen.names:
        if name not in known:
            raise InputError(f"NAME must be one of {', '.join(known)} (found {name!r})")
    keep_freed_memory()
    agree = True
    for name in chosen.names or known:
        card = pretrained.bundled(name).with_suffix(".md").read_text()
        with console.progress_bars() as bars:
            data = open_weights(pretrained.bundled(name)).run.data.for_evaluation()
            test = load_data(data, chosen.data_root, bars).test
            scores = list(score_bundled(name, test, card, bars))
        rows = [
            (
                score.name,
                score.card,
                f"{score.measured:.{score.decimals + 2}f}",
                f"{score.difference:+.{score.decimals + 2}f}",
                "" if score.agrees else "differs",
            )
            for score in scores
        ]
        console.print_table(
            f"{name} on {test.way:,} test classes", ["", "card", "measured", "difference", ""], rows, right=1
        )
        agree = agree and all(score.agrees for score in scores)
    return 0 if agree else 1


if __name__ == "__main__":
    run(main)
