"""Train and score what a row needs: what is done is skipped, what was stopped goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaussproto.config import Norm, RunConfig
from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.data.load import Split
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import ROUNDS, evaluate, usual_shots, usual_ways
from gaussproto.evaluation.robustness import damage_study
from gaussproto.report.measure import thinned
from gaussproto.training.checkpoint import load_checkpoint
from gaussproto.training.run_folder import RunFolder, load_network
from gaussproto.training.train import LogRecord, RunResult, train

QUICK_CLASSES = 200


def answer(
    config: RunConfig,
    split: Split,
    folder: Path,
    *,
    whole: bool = True,
    device: str = "cpu",
    on_log: Callable[[LogRecord], None] = lambda record: None,
    progress: Progress = silent,
) -> RunResult | None:
    """Bring a run to its end and measure all that the tables and figures show of it.

    Of one run among many alike, not the `whole` is measured but the last checkpoint, each image judged alone, with good
    supports and bad ones. Gives the training's result if it was stopped by a signal, None once everything is there.
    """
    run = RunFolder(folder)
    begun = run.config.exists()
    if begun:
        run.open(config, resume=True)  # another run's folder is refused
    if not run.ended:
        result = train(config, split.train, folder, resume=begun, device=device, on_log=on_log)
        if result.stopped_by:
            return result
    _score(run, config, split, "last", "running", None, progress)
    if whole:
        _score(run, config, split, "top", "running", None, progress)
        _score(run, config, split, "top", "batch", paper_shots(split.test), progress)
        _curve(run, split, progress)
    if "damage" not in run.read_metrics():
        way, shot = usual_ways(split.test)[-1], min(5, usual_shots(split.test)[-1])
        study = damage_study(load_network(folder), split.test, way=way, shot=shot, progress=progress)
        run.write_metrics(damage=study.as_dict())
    return None


def _score(
    run: RunFolder,
    config: RunConfig,
    split: Split,
    checkpoint: Any,
    norm: Norm,
    shots: tuple[int, ...] | None,
    progress: Progress,
) -> None:
    shots = shots or tuple(usual_shots(split.test))
    key = f"{config.data.data} {norm} {checkpoint}"
    there = run.read_metrics().get("evaluation", {}).get(key, {})
    usual = (there.get("classes"), there.get("rounds"), there.get("seed")) == (split.test.way, ROUNDS[norm], 0)
    done = {(score["way"], score["shot"]) for score in there["scores"]} if usual else set()
    ways = [way for way in usual_ways(split.test) if not {(way, shot) for shot in shots} <= done]
    if not ways:
        return
    loaded = [load_checkpoint(path) for path in run.weights(checkpoint)]
    together = [ways] if norm == "running" else [[way] for way in ways]  # one way after the other where it takes long
    for some in together:
        result = evaluate([one.network() for one in loaded], split.test, some, shots, norm=norm, progress=progress)
        run.write_evaluation(config.data.data, checkpoint, loaded, result)


def _curve(run: RunFolder, split: Split, progress: Progress) -> None:
    """Scores of the snapshots; they show how the network learned and choose nothing."""
    there = {point["episode"]: point for point in run.read_metrics().get("curve", [])}
    for path in run.snapshots():
        checkpoint = load_checkpoint(path)
        episode = checkpoint.position.episode
        if episode in there:
            continue
        ways = usual_ways(split.test)[-1:]
        scores = evaluate(checkpoint.network(), split.test, ways, paper_shots(split.test), progress=progress)
        there[episode] = {"episode": episode, "norm": scores.norm, "scores": scores.as_dict()["scores"]}
        run.write_metrics(curve=[there[key] for key in sorted(there)])


def paper_shots(images: LabelledImages) -> tuple[int, ...]:
    """Those of the tables, enough where a score is dear: 1 and 5, or as many as the smallest class allows."""
    return tuple(sorted({min(shot, usual_shots(images)[-1]) for shot in (1, 5)}))


def quick_part(split: Split) -> Split:
    """The same with a part of the test classes: to score all takes longer than to train for a minute."""
    return Split(split.train, thinned(split.test, QUICK_CLASSES))


def check_place(out: Path) -> None:
    """Say so at once if runs cannot be written there."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: choose a folder with --out")
