"""Measure cases: each side of a comparison runs in a new process in each round. Results are medians over rounds."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.cases import CURVES, Case, Job
from benchmarks.results import CaseResult, Cost, Effort, Report, WorkerResult
from benchmarks.timer import speedup, take_turns
from gaussproto.errors import InputError
from gaussproto.progress import Progress

ROOT = Path(__file__).resolve().parents[1]
GIB = 1 << 30
QUIET = 0.3  # mean load over a minute; a machine with more is not idle
QUICK = Effort(rounds=2, seconds=0.5, repetitions=1)


def measure(
    cases: Sequence[Case], effort: Effort, progress: Progress, *, curves: bool = False, data_root: Path | None = None
) -> Report:
    """Measure cases and, if `curves`, the training time to an accuracy on Omniglot."""
    _warn_if_busy()
    presets = CURVES if curves else ()
    total = len(cases) + len(presets)
    results: list[CaseResult] = []
    workers: list[WorkerResult] = []
    for number, case in enumerate(cases):
        progress("measuring", number, total)
        sides = [
            partial(_run_worker, Job(work=work, seconds=effort.seconds, repetitions=effort.repetitions))
            for work in (case.ours, case.other)
            if work
        ]
        try:
            ours, *others = take_turns(effort.rounds, *sides)
        except subprocess.CalledProcessError as error:
            warnings.warn(f"{case.title} is skipped: {_reason(error)}", stacklevel=2)
            continue
        results.append(summarise(case, ours, *others))
        workers += [result for side in (ours, *others) for result in side]
    rates = [result.gemm_rate for result in workers]
    for number, preset in enumerate(presets, start=len(cases)):
        progress("measuring", number, total)
        try:
            workers.append(_run_worker(Job(preset=preset, data_root=data_root and data_root.resolve())))
        except subprocess.CalledProcessError as error:
            raise InputError(f"the training for --accuracy failed: {_reason(error)}") from None
    progress("measuring", total, total)
    return Report(
        machine=workers[-1].machine if workers else None,
        effort=effort,
        gemm_rate=median(rates) if rates else None,
        cases=tuple(results),
        curves=tuple(worker.curve for worker in workers if worker.curve),
    )


def summarise(case: Case, ours: Sequence[WorkerResult], other: Sequence[WorkerResult] = ()) -> CaseResult:
    """Combine the results of the processes of a case, one for each round and side."""
    seconds = [median(result.times) for result in ours]
    shares = [
        result.multiplications / each / result.gemm_rate
        for result, each in zip(ours, seconds, strict=True)
        if result.multiplications is not None
    ]
    return CaseResult(
        group=case.group,
        name=case.name,
        images=case.ours.batch,
        ours=_cost(ours),
        other=_cost(other) if other else None,
        speedup=speedup(seconds, [median(result.times) for result in other]) if other else None,
        gemm_share=median(shares) if shares else None,
    )


def _cost(rounds: Sequence[WorkerResult]) -> Cost:
    return Cost(
        seconds=median(median(result.times) for result in rounds),
        memory=median(result.memory for result in rounds) / GIB,
    )


def _run_worker(job: Job) -> WorkerResult:
    command = [sys.executable, "-m", "benchmarks.worker", job.model_dump_json()]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return WorkerResult.model_validate_json(output.splitlines()[-1])


def _reason(error: subprocess.CalledProcessError) -> str:
    if error.returncode < 0:
        return f"signal {-error.returncode} ended its process (9 often means too little memory)"
    lines = (error.stderr or "").strip().splitlines()
    return lines[-1] if lines else f"its process ended with code {error.returncode}"


def _warn_if_busy() -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > QUIET:
        warnings.warn(
            f"other programs are running (load {load:.1f}), so times are unreliable: measure on an idle machine",
            stacklevel=3,
        )
