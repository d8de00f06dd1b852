"""The results of the study of bad examples: the types of `noise.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from gaussproto.files import read_json
from gaussproto.provenance import Machine
from gaussproto.runs.metrics import parse_result
from gaussproto.runs.scores import Result

Source = Literal["swap", "pair", "outlier"]
SOURCES: dict[Source, str] = {
    "swap": "other classes of the episode",
    "pair": "one other class of the episode",
    "outlier": "classes outside the episode",
}


class Condition(Result):
    """What is wrong with the images of an episode.

    Attributes:
        wrong: wrong supports in every class.
        source: where they come from.
        corruption: how images are corrupted, or "all" for the mean over all corruptions. Empty if they are not.
        severity: from 1 to 5, or 0 for the mean over all severities.
        corrupted: corrupted supports in every class.
        queries: whether the queries are corrupted.

    Examples:
        >>> Condition(wrong=2, corruption="blur", severity=3, corrupted=1).text(5)
        '2 wrong, 1 of 5 supports blur 3'
    """

    wrong: int = 0
    source: Source = "swap"
    corruption: str = ""
    severity: int = 0
    corrupted: int = 0
    queries: bool = False

    def text(self, shot: int) -> str:
        source = "" if self.source == "swap" else f" ({self.source})"
        parts = [f"{self.wrong} wrong{source}"] if self.wrong else []
        how = f"{self.corruption} {self.severity}" if self.severity else self.corruption
        parts += [f"{self.corrupted} of {shot} supports {how}"] if self.corrupted else []
        parts += [f"queries {how}"] if self.queries else []
        return ", ".join(parts) or "all good"


class NoiseScore(Result):
    """The accuracy of a network with a prototype rule, under one condition. All shares are of 1."""

    network: str
    rule: str
    condition: Condition
    accuracy: float  # mean over the seeds
    by_seed: dict[int, float]
    interval: float | None = None  # half of the 95 % interval over characters, of the mean over the seeds


class NoiseDifference(Result):
    """The accuracy of one network and rule minus that of another on the same episodes, under one condition."""

    comparison: str
    condition: Condition
    difference: float  # mean over the seeds that both networks have
    by_seed: dict[int, float]
    interval: float | None = None  # half of the 95 % interval over characters, of the mean over the seeds
    over_seeds: float | None = None  # half of the 95 % interval over the seeds (Student's t)


class StudiedNetwork(Result):
    """A network of the study: a run and its weights."""

    run: str
    seed: int
    episodes: int
    weights: str  # digest
    seconds: float | None = None  # of training
    commits: tuple[str | None, ...] = ()


class NoiseStudy(Result):
    """All results of the study: the content of `noise.json`.

    Attributes:
        version: version of the file format.
        data: what the networks were trained and tested on.
        way: classes of an episode.
        shot: supports of each class.
        rounds: how often the classes were divided into random episodes, with wrong labels and with corruptions.
        seed: of the episodes and the corruptions.
        characters: number of test classes, with wrong labels and with corruptions.
        images: number of test images, likewise.
        networks: the networks.
        scores: accuracies.
        differences: paired differences.
        left_out: what was not measured, with the reason.
        machine: the hardware and software versions of the measurement.
        sha256: checksum of the file, which `gaussproto` compares when it reads the file.
    """

    version: Literal[1] = 1
    data: str
    way: int
    shot: int
    rounds: tuple[int, int]
    seed: int
    characters: tuple[int, int]
    images: tuple[int, int]
    networks: tuple[StudiedNetwork, ...]
    scores: tuple[NoiseScore, ...]
    differences: tuple[NoiseDifference, ...]
    left_out: tuple[str, ...] = ()
    machine: Machine | None = None
    sha256: str | None = Field(default=None, exclude=True, repr=False)

    def score(self, network: str, rule: str, condition: Condition) -> NoiseScore | None:
        wanted = (network, rule, condition)
        return next((each for each in self.scores if (each.network, each.rule, each.condition) == wanted), None)

    def difference(self, comparison: str, condition: Condition) -> NoiseDifference | None:
        wanted = (comparison, condition)
        return next((each for each in self.differences if (each.comparison, each.condition) == wanted), None)


def read_noise(path: Path) -> NoiseStudy:
    return parse_result(NoiseStudy, read_json(path), str(path))
