"""How every benchmark measures time: warm up, repeat, take medians, and compare only within one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

from benchmarks.results import Ratio

T = TypeVar("T")


def measure_times(
    work: Callable[[], object], *, repetitions: int = 1, seconds: float = 0.0, warm_up: int = 0
) -> list[float]:
    """The duration of each call in seconds.

    Args:
        work: what is timed.
        repetitions: calls at least.
        seconds: calls go on until they have taken this long in total.
        warm_up: calls before the first that is timed.
    """
    for _ in range(warm_up):
        work()
    times: list[float] = []
    total = 0.0
    while len(times) < repetitions or total < seconds:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        total += times[-1]
    return times


def median_time(work: Callable[[], object], *, repetitions: int, seconds: float = 0.0, warm_up: int = 0) -> float:
    """The median duration of a call in seconds."""
    return median(measure_times(work, repetitions=repetitions, seconds=seconds, warm_up=warm_up))


def take_turns(rounds: int, *sides: Callable[[], T]) -> list[list[T]]:
    """What each side returns in each round. The sides take turns, so that a busy machine slows all of them."""
    results: list[list[T]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, result in zip(sides, results, strict=True):
            result.append(side())
    return results


def speedup(ours: Sequence[float], others: Sequence[float]) -> Ratio:
    """How many times longer the others take, round by round.

    >>> speedup([1.0, 2.0, 4.0], [3.0, 4.0, 20.0])
    Ratio(median=3.0, low=2.0, high=5.0)
    """
    ratios = [other / our for our, other in zip(ours, others, strict=True)]
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios))
