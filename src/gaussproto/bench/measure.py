"""Run the cases: a process for each side, the sides in turn, several rounds, medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gaussproto.bench.cases import Case, Work
from gaussproto.data.images import Progress
from gaussproto.errors import InputError

GIB = 1 << 30
QUIET = 0.3  # processes that want to run, on average over a minute, on a machine where nothing else does


@dataclass(frozen=True)
class Effort:
    """How much is measured: each side of a case so many times, and each time so long and so often."""

    rounds: int = 5
    seconds: float = 3.0
    least: int = 3


QUICK = Effort(rounds=2, seconds=0.5, least=1)


@dataclass(frozen=True)
class Result:
    """What was found of a case; every number is the median over the rounds."""

    group: str
    name: str
    images: int  # that pass the encoder each time
    seconds: float
    memory: float  # the peak of the process, GiB
    against_seconds: float | None = None
    against_memory: float | None = None
    ratio: float | None = None  # how many times longer the other takes; of one round each
    ratio_low: float | None = None  # over the rounds
    ratio_high: float | None = None
    of_gemm: float | None = None  # multiplications a second in a step, as a share of those in a matrix product


@dataclass(frozen=True)
class Report:
    """Everything that was found, and on what machine."""

    machine: dict[str, Any]
    effort: Effort
    gemm: float | None  # multiplications a second in a matrix product
    results: tuple[Result, ...]
    curve: tuple[tuple[float, float], ...] = ()  # seconds of training, 20-way 1-shot accuracy

    def of(self, *groups: str) -> list[Result]:
        """The results of these groups."""
        return [result for result in self.results if result.group in groups]

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)


def read_report(content: dict[str, Any]) -> Report:
    """From what `as_dict` has given."""
    return Report(
        content["machine"],
        Effort(**content["effort"]),
        content["gemm"],
        tuple(Result(**result) for result in content["results"]),
        tuple((seconds, accuracy) for seconds, accuracy in content["curve"]),
    )


def measure(
    cases: Sequence[Case], effort: Effort, progress: Progress, *, curve: bool = False, data_root: Path | None = None
) -> Report:
    """Measure these cases, and if asked for, how fast a network learns Omniglot."""
    _warn_if_busy()
    results, rates = list[Result](), list[float]()
    machine: dict[str, Any] = {}
    for number, case in enumerate(cases):
        progress("measuring", number, len(cases) + curve)
        ours, others = list[dict[str, Any]](), list[dict[str, Any]]()
        try:
            for _ in range(effort.rounds):  # in turn: what slows the machine for a while slows both
                ours.append(_run(case.ours, effort))
                if case.against:
                    others.append(_run(case.against, effort))
        except subprocess.CalledProcessError as error:
            warnings.warn(f"{case.group} {case.name} is left out: {_reason(error)}", stacklevel=2)
            continue
        machine = ours[0]["machine"]
        rates += [found["gemm"] for found in ours + others]
        results.append(summarise(case, ours, others))
    learned: list[tuple[float, float]] = []
    if curve:
        progress("measuring", len(cases), len(cases) + 1)
        try:
            found = _ask(curve=True, data_root=str(data_root) if data_root else None)
        except subprocess.CalledProcessError as error:
            raise InputError(f"the training for the time to an accuracy failed: {_reason(error)}") from None
        machine, learned = found["machine"], found["curve"]
    progress("measuring", len(cases) + curve, len(cases) + curve)
    gemm = statistics.median(rates) if rates else None
    return Report(machine, effort, gemm, tuple(results), tuple((s, a) for s, a in learned))


def summarise(case: Case, ours: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> Result:
    """From what the processes of each round told."""
    seconds = [statistics.median(found["times"]) for found in ours]
    against = [statistics.median(found["times"]) for found in others]
    ratios = [theirs / mine for mine, theirs in zip(seconds, against, strict=False)]
    return Result(
        case.group,
        case.name,
        case.ours.batch,
        statistics.median(seconds),
        statistics.median(found["memory"] for found in ours) / GIB,
        statistics.median(against) if against else None,
        statistics.median(found["memory"] for found in others) / GIB if others else None,
        statistics.median(ratios) if ratios else None,
        min(ratios, default=None),
        max(ratios, default=None),
        _of_gemm(ours, seconds),
    )


def _of_gemm(ours: Sequence[dict[str, Any]], seconds: Sequence[float]) -> float | None:
    if "multiplications" not in ours[0]:
        return None
    shares: list[float] = [
        found["multiplications"] / each / found["gemm"] for found, each in zip(ours, seconds, strict=True)
    ]
    return statistics.median(shares)


def _run(work: Work, effort: Effort) -> dict[str, Any]:
    return _ask(work=asdict(work), seconds=effort.seconds, least=effort.least)


def _ask(**what: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "gaussproto.bench.work", json.dumps(what)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


def _reason(error: subprocess.CalledProcessError) -> str:
    if error.returncode < 0:
        return f"its process was ended by signal {-error.returncode} (9: there was too little memory)"
    lines = (error.stderr or "").strip().splitlines()
    return lines[-1] if lines else f"its process ended with code {error.returncode}"


def _warn_if_busy() -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > QUIET:
        warnings.warn(
            f"other programs are running (load {load:.1f}): ratios say something, times little; measure on a quiet "
            "machine",
            stacklevel=3,
        )
