"""The commands `train`, `evaluate`, `calibrate`, `report` and `export`, which make and use runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Device, Json, Target, check_seed, complete, with_settings
from gaussproto.errors import InputError
from gaussproto.files import read_json
from gaussproto.presets import PRESETS, preset

if TYPE_CHECKING:
    from gaussproto.config import RunConfig
    from gaussproto.formulas.confidence import Calibration
    from gaussproto.runs.metrics import CalibrationResult, LogRecord


def train(
    name: Annotated[
        str,
        Argument(
            metavar="PRESET",
            help="Preset (`gaussproto presets` lists them), config.json or run folder.",
            autocompletion=complete(PRESETS),
        ),
    ],
    out: Annotated[Path | None, Option(help="Run folder to write. Default: runs/PRESET.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue a stopped run, or lengthen one with a larger --episodes.")
    ] = False,
    data_root: DataRoot = None,
    device: Device = "cpu",
    threads: Annotated[
        int | None,
        Option(
            help="Number of threads. Default: all cores, or OMP_NUM_THREADS. Several processes on a machine share its "
            "cores.",
            min=1,
        ),
    ] = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Train a network from a preset. Every setting is an option.

    Training consists of episodes, which are small classification tasks. An
    episode draws WAY classes at random. Of each class it draws SHOT supports,
    the examples that define the class, and QUERY queries, the images that the
    network learns to classify.
    """
    from gaussproto.data.load import load_data
    from gaussproto.training import train as training
    from gaussproto.training.ranks import join, use_threads

    ranks = join(device)
    use_threads(threads, ranks)
    if not ranks.leads:
        console.be_silent()

    def plan() -> tuple[RunConfig, Path]:
        config = preset(name, **{key: value for key, value in settings.items() if value is not None})
        is_run = name not in PRESETS and Path(name).is_dir()
        return config, out or (Path(name) if is_run else config.folder)

    config, folder = ranks.of_first(plan)
    if resume and not (folder / "config.json").exists() and not ranks.elastic:
        raise InputError(
            f"{folder} contains no run to resume: check the name, or leave out --resume to start a new run"
        )
    total = config.training.episodes
    with console.progress_bars() as bars:
        split = ranks.in_turn(lambda: load_data(config.data, data_root, bars))
        bars("training", 0, total)
        show = partial(show_training, bars, "training", total, [])
        result = training.train(
            config,
            split.train,
            folder,
            resume=resume,
            lengthen=settings.get("episodes") is not None,
            device=device,
            on_log=show,
            say=console.say,
        )
    if result.stopped_by:
        resume_command = f"gaussproto train {result.folder} --resume"
        console.say(f"stopped at episode {result.episodes:,} of {total:,}; continue with: {resume_command}")
        raise Exit(128 + result.stopped_by)
    if not ranks.leads:
        return None
    if json:
        return console.print_json({"run": str(result.folder)} | read_json(result.folder / "metrics.json"))
    console.say(f"trained {result.episodes:,} episodes in {result.seconds:.0f} s; the run is in {result.folder}")
    return console.say(f"next: gaussproto evaluate {result.folder}")


train.__signature__ = with_settings(train)  # type: ignore[attr-defined]


def show_training(bars: console.Bars, what: str, total: int, records: list[LogRecord], record: LogRecord) -> None:
    records.append(record)
    rate = (record.episode - records[0].episode) / max(1e-9, record.seconds - records[0].seconds)
    note = f"loss {record.loss:.3f}  accuracy {record.accuracy:.3f}" + (f"  {rate:.1f}/s" if rate else "")
    bars(what, record.episode, total, note)


def calibrate(
    target: Target,
    rate: Annotated[
        float, Option(help="Fraction of known images that may be wrongly rejected, for the measurement.")
    ] = 0.05,
    seed: Annotated[int, Option(help="Random seed of the episodes.", callback=check_seed)] = 0,
    data_root: DataRoot = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Calibrate a network: fit the temperature of its probabilities and the thresholds for unknown images.

    Fits on held-out alphabets if the run has any, otherwise on the training
    classes. Keeps the temperature 1 unless another one helps on classes that
    were left out of its fit. Writes the result to the weights file, except for
    bundled weights. Then measures the calibrated network on the test classes.
    """
    from gaussproto.evaluation.calibrate import calibrate_weights
    from gaussproto.formulas.confidence import check_rate
    from gaussproto.pretrained import is_bundled
    from gaussproto.runs.folder import RunFolder
    from gaussproto.runs.metrics import CalibrationResult
    from gaussproto.runs.weights import weights_file, write_calibration

    check_rate(rate, "--rate")
    path = weights_file(target)
    if is_bundled(path):
        console.say("bundled weights are not changed: this only measures what a calibration would give")
    run = RunFolder(Path(target))
    with console.progress_bars() as bars, run.claimed() if run.config.exists() else nullcontext():
        calibration, scores = calibrate_weights(path, data_root, rate, seed, bars, device)
        if not is_bundled(path):
            write_calibration(path, calibration)
        result = CalibrationResult(target=target, seed=seed, calibration=calibration, measured=tuple(scores))
        if run.config.exists():
            run.write_metrics(calibration=result)
    if json:
        return console.print_json(result.model_dump(mode="json"))
    _print_calibration(result, rate)
    return None if is_bundled(path) else console.say(f"wrote the calibration to {path}")


def _print_calibration(result: CalibrationResult, rate: float) -> None:
    fit = result.calibration
    rows = [
        [f"{one.way}-way {one.shot}-shot"]
        + [f"{100 * share:.2f}" for share in (one.accuracy, one.ece_before, one.ece_after, one.auroc)]
        + [f"{100 * share:.1f}" for share in (one.known_rejected, one.unknown_rejected)]
        for one in result.measured
    ]
    columns = ["%", "accuracy", "error at T = 1", "calibrated", "AUROC", "known rejected", "unknown rejected"]
    seen = f"{fit.classes:,} " + ("classes held out of training" if fit.held_out else "training classes")
    temperature = f"{fit.temperature:.3f} times the distance scale" if fit.scaled else f"{fit.temperature:g}"
    title = f"{result.target}: temperature {temperature}, fitted on {seen}"
    if not rows:
        console.say(f"{title}; too few test classes to measure the calibration")
        return console.say(_why(fit))
    console.print_table(title, columns, rows, right=1)
    console.say(_why(fit))
    raised = sum(one.ece_after > one.ece_before for one in result.measured)
    worse = f" The temperature raises the error in {raised} of {len(rows)} tasks." if raised else ""
    return console.say(
        "Measured on the test classes. error: expected calibration error (15 bins). AUROC: share of the pairs of a "
        "known and an unknown image in which the unknown one is farther from its nearest class. rejected: share of the "
        f"images rejected as unknown if {100 * rate:g} % of the known ones may be wrongly rejected.{worse}"
    )


def _why(fit: Calibration) -> str:
    """Return why the temperature was kept or not."""
    evidence = fit.evidence
    if evidence is None:
        return "The temperature comes from an earlier version, which did not test it on left-out classes."
    left_out = (
        f"On classes left out of the fit, {evidence.fitted:.3f} times the distance scale changes the negative "
        f"log-likelihood by {-evidence.gain:+.4f} (standard error {evidence.error:.4f}) and the calibration error from "
        f"{100 * evidence.ece_before:.2f} to {100 * evidence.ece_after:.2f} %"
    )
    if fit.scaled:
        return f"{left_out}: it is kept."
    if evidence.helps:
        return (
            f"{left_out}. But these are training classes, of which the network is more certain than of new ones: T = 1 "
            "is kept. To fit a lower one, train with --holdout"
        )
    return f"{left_out}: there is no evidence that it helps, so T = 1 is kept."


def report(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Run folders, one or more.")],
    out: Annotated[Path, Option(help="HTML file to write.")] = Path("report.html"),
    evaluate: Annotated[bool, Option(help="Score finished runs that have no scores yet.")] = True,
    data_root: DataRoot = None,
    device: Device = "cpu",
) -> None:
    """Write a self-contained HTML page about runs: scores, curves, mistakes, precisions and a map of the embeddings."""
    from gaussproto.report.page import write_report

    with console.progress_bars() as bars:
        write_report(runs, out, evaluate=evaluate, data_root=data_root, device=device, progress=bars)
    console.say(f"wrote {out}")


def export(
    weights: Annotated[str, Argument(metavar="WEIGHTS", help="Bundled weights, .safetensors file or run folder.")],
    out: Annotated[Path, Argument(metavar="FILE.onnx", help="ONNX file to write.")],
    json: Json = False,
) -> None:
    """Export the encoder to an ONNX file, which computes embeddings and precisions of images without torch."""
    from gaussproto.classifier.encoders.export import export_onnx

    made = export_onnx(weights, out)
    if json:
        return console.print_json(asdict(made) | {"path": str(out)})
    rows = [
        [what, name, ", ".join(map(str, shape))]
        for what, some in (("in", made.inputs), ("out", made.outputs))
        for name, shape in some.items()
    ]
    console.print_table("", ["", "name", "shape"], rows)
    size, difference = f"{made.bytes / 1e6:.1f} MB", f"{made.difference:.0e}"
    return console.say(f"wrote {out} ({size}); its outputs differ from torch by at most {difference} (relative)")
