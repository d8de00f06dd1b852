"""Measure time as all benchmarks do: warm up, repeat, take medians, and compare only within one run."""

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
    """Return the duration of each call in seconds.

    Args:
        work: the function to time.
        repetitions: minimum number of calls.
        seconds: minimum duration of all calls together.
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
    """Return the median duration of a call in seconds."""
    return median(measure_times(work, repetitions=repetitions, seconds=seconds, warm_up=warm_up))


def take_turns(rounds: int, *sides: Callable[[], T]) -> list[list[T]]:
    """Return the results of each side in each round. The sides take turns, so that a busy machine slows all of them."""
    results: list[list[T]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, result in zip(sides, results, strict=True):
            result.append(side())
    return results


def speedup(ours: Sequence[float], others: Sequence[float]) -> Ratio:
    """Return how many times longer the others take, round by round.

    >>> speedup([1.0, 2.0, 4.0], [3.0, 4.0, 20.0])
    Ratio(median=3.0, low=2.0, high=5.0)
    """
    ratios = [other / our for our, other in zip(ours, others, strict=True)]
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios))
