"""Intervals of shares, which are never empty, however few images there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Z = 1.959964  # of the normal distribution, for 95 %


def wilson_interval(right: float, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, for example of the right answers among `total`.

    >>> [round(end, 3) for end in wilson_interval(20, 20)], [round(end, 3) for end in wilson_interval(10, 20)]
    ([0.839, 1.0], [0.299, 0.701])
    """
    p, square = right / total, Z * Z / total
    middle, half = p + square / 2, Z * math.sqrt(p * (1 - p) / total + square / total / 4)
    low, high = (middle - half) / (1 + square), (middle + half) / (1 + square)
    return (0.0 if right <= 0 else low), (1.0 if right >= total else high)


def student_interval(values: Sequence[float] | Any) -> float:
    """Return half the 95 % interval of the mean of two or more values, by Student's t.

    >>> round(student_interval([0.1, 0.2, 0.3]), 3)
    0.248
    """
    from scipy.stats import sem, t  # slow to import

    return float(t.ppf(0.975, len(values) - 1) * sem(values))
