"""Tables of the results of `make bench`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.results import CaseResult, Curve, Ratio, Report
from gaussproto.table import Table

AGAINST_PLAIN = ("step", "episode", "embedding")  # groups
GROWTH = ("growth images", "growth classes", "growth D")
TITLES = {"step": "training step", "episode": "episode with its data", "embedding": "embedding"}
GOALS = (0.95, 0.96, 0.97)  # 20-way 1-shot
MANY = 300  # images; with fewer, fixed costs hide the growth


def report_tables(report: Report) -> list[Table]:
    """Return the tables that have rows."""
    tables = [_against_plain(report), _protocol(report), _predict(report), *_growth(report), _accuracy(report)]
    return [table for table in tables if table.rows]


def machine_text(report: Report) -> str:
    """Describe the machine in one line."""
    machine = report.machine
    if machine is None:
        return "no machine: every case failed"
    rate = f", matrix product {2 * report.gemm_rate / 1e9:,.0f} GFLOP/s" if report.gemm_rate else ""
    return (
        f"{machine.processor}, {machine.threads} threads, {machine.system}, Python {machine.python}, "
        f"torch {machine.torch}{rate}"
    )


def _against_plain(report: Report) -> Table:
    columns = ("", "ours", "plain", "times faster", "from - to", "of GEMM rate", "GiB", "plain GiB")
    rows = [
        (
            f"{TITLES[case.group]}, {case.name}",
            _pace(case, case.ours.seconds),
            _pace(case, case.other.seconds),
            *_ratio_cells(case.speedup),
            f"{100 * case.gemm_share:.0f} %" if case.gemm_share is not None else "",
            f"{case.ours.memory:.2f}",
            f"{case.other.memory:.2f}",
        )
        for case in report.of(*AGAINST_PLAIN)
    ]
    return Table("plain", "Against a plain implementation", columns, tuple(rows))


def _pace(case: CaseResult, seconds: float) -> str:
    return f"{case.images / seconds:,.0f} images/s" if case.group == "embedding" else f"{seconds:.3f} s"


def _ratio_cells(ratio: Ratio) -> tuple[str, str]:
    return f"{ratio.median:.2f}", f"{ratio.low:.2f} - {ratio.high:.2f}"


def _protocol(report: Report) -> Table:
    columns = ("encoder", "images", "one embedding pass", "k = 1 to 19, 5- and 20-way", "times one pass", "from - to")
    rows = [
        (
            case.name,
            f"{case.images:,}",
            f"{case.other.seconds:.2f} s",
            f"{case.ours.seconds:.2f} s",
            *_ratio_cells(case.speedup.inverse),
        )
        for case in report.of("protocol")
    ]
    return Table("protocol", "The full protocol against one embedding pass", columns, tuple(rows))


def _predict(report: Report) -> Table:
    columns = ("encoder", "images", "freed memory kept", "returned to the system", "times faster", "from - to")
    rows = [
        (
            case.name,
            f"{case.images:,}",
            f"{case.ours.seconds:.3f} s",
            f"{case.other.seconds:.3f} s",
            *_ratio_cells(case.speedup),
        )
        for case in report.of("predict")
    ]
    return Table("predict", "The classifier's predict with and without keep_freed_memory", columns, tuple(rows))


def _growth(report: Report) -> list[Table]:
    tables = []
    for group in GROWTH:
        cases = report.of(group)
        axis = group.removeprefix("growth ")
        by_images = axis == "images"  # the name of the case is the number of images
        rows = [
            (
                *(() if by_images else (f"{int(case.name):,}",)),
                f"{case.images:,}",
                f"{1e3 * case.ours.seconds:,.0f} ms",
                f"{1e6 * case.ours.seconds / case.images:,.0f} µs",
                f"{case.ours.memory:.2f}",
            )
            for case in cases
        ]
        power = growth_power(cases)
        title = f"How a step grows with {axis}" + (
            f": as the images to the power of {power:.2f} from {MANY} images on" if power is not None else ""
        )
        columns = (*(() if by_images else (axis,)), "images", "step", "an image", "GiB")
        tables.append(Table(group, title, columns, tuple(rows)))
    return tables


def growth_power(cases: Sequence[CaseResult]) -> float | None:
    """Return the exponent of time as a power of the number of images, from the smallest case over 300 to the largest.

    >>> from benchmarks.results import Cost
    >>> def case(n, seconds):
    ...     return CaseResult(group="growth images", name=str(n), images=n, ours=Cost(seconds=seconds, memory=0))
    >>> round(growth_power([case(60, 5.0), case(400, 10.0), case(1600, 40.0)]), 6)
    1.0
    """
    points = sorted((case.images, case.ours.seconds) for case in cases if case.images >= MANY)
    if not points or points[0][0] == points[-1][0]:
        return None
    (few, short), (many, long) = points[0], points[-1]
    return math.log(long / short) / math.log(many / few)


def _accuracy(report: Report) -> Table:
    rows = [
        (f"{100 * goal:.0f} %", *(_time_to(curve, goal) for curve in report.curves))
        for goal in (GOALS if report.curves else ())
    ]
    if any(curve.load is not None for curve in report.curves):
        loads = (f"{curve.load:.0f} s" if curve.load is not None else "" for curve in report.curves)
        rows.append(("before, once: read and prepare the drawings", *loads))
    columns = ("accuracy", *(curve.preset for curve in report.curves))
    return Table("accuracy", "Training time to an accuracy on Omniglot, 20-way 1-shot", columns, tuple(rows))


def _time_to(curve: Curve, goal: float) -> str:
    seconds = curve.time_to(goal)
    return f"{seconds:.0f} s" if seconds is not None else f"not reached (best {100 * curve.best:.2f} %)"
