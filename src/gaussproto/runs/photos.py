"""The results of the comparison of covariances on photos: the types of `photos.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from gaussproto.files import read_json
from gaussproto.provenance import Machine
from gaussproto.runs.metrics import parse_result
from gaussproto.runs.noise import StudiedNetwork
from gaussproto.runs.scores import Result


class PhotoTask(Result):
    """A way to test a network: `bad` of the `shot` supports of every class are corrupted.

    >>> PhotoTask(shot=5, bad=3, corruption="blurred").text
    '5-shot, 3 of 5 blurred'
    """

    shot: int
    bad: int = 0
    corruption: str = ""

    @property
    def text(self) -> str:
        return f"{self.shot}-shot" + (f", {self.bad} of {self.shot} {self.corruption}" if self.bad else "")


class PhotoNetwork(StudiedNetwork):
    """A network of the comparison."""

    kind: str
    parameters: int | None = None


class PhotoScore(Result):
    """The accuracy of a kind of network in a task, over the random episodes. All shares are of 1."""

    kind: str
    task: PhotoTask
    accuracy: float  # mean over the seeds
    by_seed: dict[int, float]
    over_classes: float | None = None  # half of the 95 % intervals of the mean over the seeds
    over_episodes: float | None = None


class PhotoDifference(Result):
    """The accuracy of a kind of network minus that of the vanilla one on the same episodes, seed by seed."""

    kind: str
    task: PhotoTask
    difference: float
    by_seed: dict[int, float]
    over_seeds: float | None = None  # halves of the 95 % intervals (Student's t)
    over_classes: float | None = None
    over_episodes: float | None = None

    @property
    def half_width(self) -> float | None:
        """The widest of the three intervals, or None if it has only one seed."""
        if self.over_seeds is None:
            return None
        return max(self.over_seeds, self.over_classes or 0.0, self.over_episodes or 0.0)


class PhotoPrecision(Result):
    """How corrupted photos change the precision: a mean over the seeds."""

    kind: str
    corruption: str
    ratio: float  # mean precision of corrupted photos, as a share of that of clean ones
    clean_is_higher: float  # share of pairs of a clean and a corrupted photo
    by_seed: dict[int, tuple[float, float]]  # both


class PhotoStudy(Result):
    """All results of the comparison: the content of `photos.json`.

    Attributes:
        version: version of the file format.
        data: what the networks were trained and tested on.
        way: classes of an episode.
        queries: of each class in an episode.
        episodes: number of random episodes.
        seed: of the episodes and the corruptions.
        classes: number of test classes.
        images: number of test images.
        networks: the networks.
        scores: accuracies.
        differences: paired differences from the vanilla network.
        precisions: what corrupted photos do to the precision.
        machine: the hardware and software versions of the measurement.
        sha256: checksum of the file, which `gaussproto` compares when it reads the file.
    """

    version: Literal[1] = 1
    data: str
    way: int
    queries: int
    episodes: int
    seed: int
    classes: int
    images: int
    networks: tuple[PhotoNetwork, ...]
    scores: tuple[PhotoScore, ...]
    differences: tuple[PhotoDifference, ...]
    precisions: tuple[PhotoPrecision, ...]
    machine: Machine | None = None
    sha256: str | None = Field(default=None, exclude=True, repr=False)

    def score(self, kind: str, task: PhotoTask) -> PhotoScore | None:
        return next((each for each in self.scores if (each.kind, each.task) == (kind, task)), None)

    def difference(self, kind: str, task: PhotoTask) -> PhotoDifference | None:
        return next((each for each in self.differences if (each.kind, each.task) == (kind, task)), None)


def read_photos(path: Path) -> PhotoStudy:
    return parse_result(PhotoStudy, read_json(path), str(path))
