"""What is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gaussproto.errors import InputError

Encoder = Literal["small", "big"]
Kind = Literal["step", "episode", "embedding", "protocol"]

DIM: dict[Encoder, int] = {"small": 64, "big": 512}  # D in the paper's tables
EPISODES = ((60, 1, 19), (120, 1, 2))  # way, shot, query: the paper's, and that of our own recipe
EMBEDDED: dict[Encoder, int] = {"small": 4096, "big": 768}  # images
TESTED: dict[Encoder, int] = {"small": 2636, "big": 100}  # classes of 20 drawings; Omniglot's test set has 2,636
DRAWINGS = 20


@dataclass(frozen=True)
class Work:
    """Something that a process can do again and again."""

    kind: Kind
    encoder: Encoder = "small"
    D: int = 64
    way: int = 60
    shot: int = 1
    query: int = 19
    images: int = 0  # embedded, in kinds other than step and episode
    plain: bool = False

    @property
    def batch(self) -> int:
        """How many images pass the encoder each time."""
        return self.images or self.way * (self.shot + self.query)


@dataclass(frozen=True)
class Case:
    """Our work, and the work that it is compared with."""

    group: str
    name: str
    ours: Work
    against: Work | None = None


def all_cases(quick: bool = False) -> Iterator[Case]:
    """Every case; if quick, smaller where the result hardly depends on it."""
    encoders: tuple[Encoder, ...] = ("small", "big")
    for encoder in encoders:
        for way, shot, query in EPISODES:
            work = Work("step", encoder, DIM[encoder], way, shot, query)
            yield _against_plain("step", f"{encoder} {way}-way {shot}+{query}", work)
    for way, shot, query in EPISODES:
        yield _against_plain(
            "episode", f"small {way}-way {shot}+{query}", Work("episode", "small", 64, way, shot, query)
        )
    for encoder in encoders:
        work = Work("embedding", encoder, DIM[encoder], images=EMBEDDED[encoder] // (4 if quick else 1))
        yield _against_plain("embedding", encoder, work)
    for encoder in encoders:
        images = min(TESTED[encoder], 200 if quick else 10_000) * DRAWINGS
        work = Work("protocol", encoder, DIM[encoder], images=images)
        yield Case("protocol", encoder, work, replace(work, kind="embedding"))
    for images in (60, 1200) if quick else (60, 120, 300, 600, 1200, 2400):
        yield Case("growth images", str(images), Work("step", way=30, query=images // 30 - 1))
    for classes in (5, 500) if quick else (5, 20, 100, 500, 1000, 2000):
        yield Case("growth classes", str(classes), Work("step", way=classes, query=1))
    for D in (32, 512) if quick else (32, 64, 128, 256, 512):
        yield Case("growth D", str(D), Work("step", D=D, query=5))


def chosen_cases(only: str | None, quick: bool = False) -> list[Case]:
    """Those whose group and name hold all these words.

    >>> [case.name for case in chosen_cases("step small")]
    ['small 60-way 1+19', 'small 120-way 1+2']
    """
    words = (only or "").split()
    cases = [case for case in all_cases(quick) if all(word in f"{case.group} {case.name}".split() for word in words)]
    if not cases:
        groups = ", ".join(dict.fromkeys(case.group for case in all_cases()))
        raise InputError(f"nothing is measured that is called {only!r}: choose words such as {groups}, small, big")
    return cases


def _against_plain(group: str, name: str, work: Work) -> Case:
    return Case(group, name, work, replace(work, plain=True))
