"""The cases that `make bench` measures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from gaussproto.errors import InputError
from gaussproto.runs.metrics import Result

Encoder = Literal["small", "big"]
Kind = Literal["step", "episode", "embedding", "protocol", "predict"]

ENCODERS: tuple[Encoder, ...] = ("small", "big")
DIM: dict[Encoder, int] = {"small": 64, "big": 512}  # D in the paper's tables
EPISODES = ((60, 1, 19), (120, 1, 2))  # way, shot, query: of the paper and of our recipe
EMBEDDED: dict[Encoder, int] = {"small": 4096, "big": 768}  # images
TESTED: dict[Encoder, int] = {"small": 2636, "big": 100}  # classes of 20 drawings; Omniglot's test set has 2,636
CURVES = ("fast-small-none", "fast-drawings-none")  # presets whose training time to an accuracy is measured
PREDICTED = 1000  # images in one call of the classifier's predict
DRAWINGS = 20


class Work(Result):
    """Work that a worker process can repeat."""

    kind: Kind
    encoder: Encoder = "small"
    D: int = 64
    way: int = 60
    shot: int = 1
    query: int = 19
    images: int = 0  # to embed, in kinds other than step and episode
    plain: bool = False  # use the textbook implementation
    keep_memory: bool = True  # call keep_freed_memory first, as `train` and the command do

    @property
    def batch(self) -> int:
        """Images that pass through the encoder in each repetition."""
        return self.images or self.way * (self.shot + self.query)

    def but(self, **changes: object) -> Work:
        """Return the same work with some fields changed."""
        return self.model_copy(update=changes)

    def as_plain(self) -> Work:
        """Return the same work with the textbook implementation and the default settings of the allocator."""
        return self.but(plain=True, keep_memory=False)


class Job(Result):
    """Work for a worker process to time. Without work, it trains the network of a preset and scores its snapshots."""

    work: Work | None = None
    seconds: float = 0.0  # minimum
    repetitions: int = 1  # minimum
    preset: str = CURVES[0]
    data_root: Path | None = None


class Case(Result):
    """Our work and the work to compare it with."""

    group: str
    name: str
    ours: Work
    other: Work | None = None

    @property
    def title(self) -> str:
        """Group and name, by which --only selects."""
        return f"{self.group} {self.name}"


def all_cases(quick: bool = False) -> Iterator[Case]:
    """Yield every case. If `quick`, those whose result hardly depends on the size are smaller."""
    for encoder in ENCODERS:
        for way, shot, query in EPISODES:
            work = Work(kind="step", encoder=encoder, D=DIM[encoder], way=way, shot=shot, query=query)
            yield Case(group="step", name=f"{encoder} {way}-way {shot}+{query}", ours=work, other=work.as_plain())
    for way, shot, query in EPISODES:
        work = Work(kind="episode", way=way, shot=shot, query=query)
        yield Case(group="episode", name=f"small {way}-way {shot}+{query}", ours=work, other=work.as_plain())
    for encoder in ENCODERS:
        images = EMBEDDED[encoder] // (4 if quick else 1)
        work = Work(kind="embedding", encoder=encoder, D=DIM[encoder], images=images)
        yield Case(group="embedding", name=encoder, ours=work, other=work.as_plain())
    for encoder in ENCODERS:
        images = min(TESTED[encoder], 200 if quick else 10_000) * DRAWINGS
        work = Work(kind="protocol", encoder=encoder, D=DIM[encoder], images=images)
        yield Case(group="protocol", name=encoder, ours=work, other=work.but(kind="embedding"))
    for encoder in ENCODERS:
        work = Work(kind="predict", encoder=encoder, images=PREDICTED)
        yield Case(group="predict", name=encoder, ours=work, other=work.but(keep_memory=False))
    yield from _growth(quick)


def _growth(quick: bool) -> Iterator[Case]:
    for images in (60, 1200) if quick else (60, 120, 300, 600, 1200, 2400):
        yield Case(group="growth images", name=str(images), ours=Work(kind="step", way=30, query=images // 30 - 1))
    for classes in (5, 500) if quick else (5, 20, 100, 500, 1000, 2000):
        yield Case(group="growth classes", name=str(classes), ours=Work(kind="step", way=classes, query=1))
    for D in (32, 512) if quick else (32, 64, 128, 256, 512):
        yield Case(group="growth D", name=str(D), ours=Work(kind="step", D=D, query=5))


def select_cases(only: str | None, quick: bool = False) -> list[Case]:
    """Return the cases whose group and name contain all words of `only`, by default all.

    >>> [case.name for case in select_cases("step small")]
    ['small 60-way 1+19', 'small 120-way 1+2']
    """
    wanted = set((only or "").split())
    cases = [case for case in all_cases(quick) if wanted <= set(case.title.split())]
    if not cases:
        groups = ", ".join(dict.fromkeys(case.group for case in all_cases()))
        raise InputError(f"no case matches {only!r}: choose among the words {groups}, accuracy, small, big")
    return cases
