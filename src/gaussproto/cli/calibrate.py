"""The command `calibrate`: weights learn how sure they may be."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json
from gaussproto.config import LARGEST_SEED

if TYPE_CHECKING:
    from gaussproto.evaluation.calibration import Calibration
    from gaussproto.evaluation.sureness import Sureness


def calibrate(
    target: Annotated[
        str, typer.Argument(metavar="RUN_OR_WEIGHTS", help="A run folder, a .safetensors file, or bundled weights.")
    ],
    rate: Annotated[float, typer.Option(help="Share of images of known classes that may be called unknown.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the episodes.", min=0, max=LARGEST_SEED)] = 0,
    data_root: DataRoot = None,
    json: Json = False,
) -> None:
    """Fit the temperature of a network's probabilities, and the limits beyond which an image is unknown.

    They are put into the weights file; bundled weights stay as they are. Test classes show what they are worth.
    """
    from gaussproto.classifier.verdict import check_rate
    from gaussproto.evaluation.calibration import write_calibration
    from gaussproto.evaluation.sureness import calibrate_weights
    from gaussproto.pretrained import HERE
    from gaussproto.training.run_folder import RunFolder, find_weights

    check_rate(rate, "--rate")
    (path,) = find_weights(target)
    run = RunFolder(Path(target))
    with console.progress_bars() as bars, run.claimed() if run.config.exists() else nullcontext():
        calibration, found = calibrate_weights(path, data_root, rate, seed, bars)
        bundled = path.resolve().parent == HERE.resolve()
        if not bundled:
            write_calibration(path, calibration)
        content = {"target": target, "seed": seed, "calibration": calibration.model_dump()}
        content |= {"measured": [asdict(sureness) for sureness in found]}
        if run.config.exists():
            run.write_metrics(calibration=content)
    if json:
        return console.print_json(content)
    _print(target, calibration, found, rate)
    where = "bundled weights are left as they are" if bundled else f"written to {path}"
    return console.say(where)


def _print(target: str, calibration: Calibration, found: list[Sureness], rate: float) -> None:
    rows = [
        [f"{one.way}-way {one.shot}-shot"]
        + [f"{100 * share:.2f}" for share in (one.accuracy, one.ece_before, one.ece_after, one.auroc)]
        + [f"{100 * share:.1f}" for share in (one.false_alarms, one.caught)]
        for one in found
    ]
    columns = ["%", "accuracy", "error at T = 1", "calibrated", "AUROC", "known rejected", "unknown rejected"]
    seen = "held out of training" if calibration.held_out else "that it was trained on"
    title = f"{target}: temperature {calibration.temperature:.3f} x spread, from {calibration.classes:,} classes {seen}"
    if not found:
        return console.say(f"{title}; there are too few test classes to show what that is worth")
    console.print_table(title, columns, rows, right=1)
    return console.say(
        "on test classes: the expected calibration error (15 bins); the share of pairs in which an unknown image is "
        "farther from the nearest class than a known one; the share called unknown when "
        f"{100 * rate:g} % of the known may be"
    )
