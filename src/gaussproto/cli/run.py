"""The commands `train`, `evaluate` and `report`: a run from its preset to its page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json, complete_data, parse_numbers, train_signature
from gaussproto.config import DRAWN, LARGEST_SEED, DataConfig, Norm, RunConfig
from gaussproto.errors import InputError
from gaussproto.presets import PRESETS, preset

if TYPE_CHECKING:
    from gaussproto.evaluation.protocol import Evaluation
    from gaussproto.training.train import LogRecord


def train(
    name: str,
    out: Path | None,
    resume: bool,
    data_root: Path | None,
    device: str,
    json: bool,
    **settings: Any,
) -> None:
    """Train a network: a preset, a config.json or a run folder, with any setting changed."""
    from gaussproto.data.load import load_data, with_split
    from gaussproto.training import train as training

    config = preset(name, **{key: value for key, value in settings.items() if value is not None})
    is_run = name not in PRESETS and Path(name).is_dir()
    out = out or (Path(name) if is_run else Path("runs") / config.name)
    total = config.training.episodes
    config = config.model_copy(update={"data": with_split(config.data)})
    with console.progress_bars() as bars:
        split = load_data(config.data, data_root, bars)
        bars("training", 0, total)
        show = partial(show_training, bars, "training", total, [])
        result = training.train(config, split.train, out, resume=resume, device=device, on_log=show, say=console.say)
    if result.stopped_by:
        console.say(
            f"stopped at episode {result.episodes:,} of {total:,}; "
            f"continue with: gaussproto train {result.folder} --resume"
        )
        raise typer.Exit(128 + result.stopped_by)
    if json:
        from gaussproto.files import read_json

        return console.print_json({"run": str(result.folder)} | read_json(result.folder / "metrics.json"))
    console.say(f"trained {result.episodes:,} episodes in {result.seconds:.0f} s: {result.folder}")
    return console.say(f"next: gaussproto evaluate {result.folder}")


train.__signature__ = train_signature()  # type: ignore[attr-defined]


def evaluate(
    target: Annotated[
        str, typer.Argument(metavar="RUN_OR_WEIGHTS", help="A run folder, a .safetensors file, or bundled weights.")
    ],
    ways: Annotated[str | None, typer.Option(help="Classes to a group; 5,20 if there are so many.")] = None,
    shots: Annotated[str | None, typer.Option(help="Supports of each class, such as 1,5 or 1-19 (all).")] = None,
    norm: Annotated[Norm, typer.Option(help="Batch norm statistics: of training, or of each group.")] = "running",
    checkpoints: Annotated[
        Literal["last", "top"],
        typer.Option(help="The last, or the mean of those with the highest training accuracy, as in the paper."),
    ] = "last",
    rounds: Annotated[
        int | None, typer.Option(help="How often the classes are grouped anew; 10, or 1 with batch statistics.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the groupings.", min=0, max=LARGEST_SEED)] = 0,
    data: Annotated[
        str | None, typer.Option(help="Other data than the run's own.", autocompletion=complete_data)
    ] = None,
    split: Annotated[
        Path | None, typer.Option(help="With --data DIR: a JSON file that names its test classes.")
    ] = None,
    data_root: DataRoot = None,
    json: Json = False,
) -> None:
    """Score a network on classes it has not seen, by the paper's protocol."""
    from gaussproto.data.load import load_data
    from gaussproto.evaluation.protocol import evaluate as score
    from gaussproto.evaluation.protocol import usual_shots, usual_ways
    from gaussproto.training.checkpoint import load_checkpoint
    from gaussproto.training.run_folder import RunFolder, find_weights

    asked_ways, asked_shots = ways and parse_numbers(ways, "ways"), shots and parse_numbers(shots, "shots")
    run = RunFolder(Path(target))
    loaded = [load_checkpoint(path) for path in find_weights(target, checkpoints)]
    config = _data_for(loaded[0].config, data, split)
    with console.progress_bars() as bars:
        images = load_data(config, data_root, bars).test
        result = score(
            [checkpoint.network() for checkpoint in loaded],
            images,
            asked_ways or usual_ways(images),
            asked_shots or usual_shots(images),
            rounds=rounds,
            norm=norm,
            seed=seed,
            progress=bars,
        )
    if run.config.exists():
        run.write_evaluation(config.data, checkpoints, loaded, result, split)
    if json:
        episodes = [checkpoint.position.episode for checkpoint in loaded]
        head = {"target": target, "data": config.data, "checkpoint": checkpoints, "episodes": episodes}
        return console.print_json(head | result.as_dict())
    return _print_scores(target, config.data, result)


def _data_for(config: RunConfig, data: str | None, split: Path | None) -> DataConfig:
    """The data that a run was trained on, or other data that is made to look the same to it."""
    if data is None or _place(data) == _place(config.data.data):
        if split:
            raise InputError("a run is tested on the classes that were kept from it: --split goes with other --data")
        return config.data
    other = {"data": data, "split": split and str(split), "holdout": 0} | config.data.look()
    return config.override(**other).data


def _place(data: str) -> str | Path:
    return data if data in DRAWN else Path(data).resolve()


def show_training(bars: console.Bars, what: str, total: int, records: list[LogRecord], record: LogRecord) -> None:
    """The progress of a training: its last loss and accuracy, and episodes a second."""
    records.append(record)
    first = records[0]
    rate = (record.episode - first.episode) / max(1e-9, record.seconds - first.seconds)
    note = f"loss {record.loss:.3f}  accuracy {record.accuracy:.3f}" + (f"  {rate:.1f}/s" if rate else "")
    bars(what, record.episode, total, note)


def _print_scores(target: str, data: str, result: Evaluation) -> None:
    ways = list(dict.fromkeys(score.way for score in result.scores))
    shots = list(dict.fromkeys(score.shot for score in result.scores))
    rows = [[f"{shot}-shot", *(result.score(way, shot).words() for way in ways)] for shot in shots]
    title = (
        f"{target} on {data}: accuracy in %, {result.norm} statistics, {result.classes:,} classes unseen in training"
    )
    console.print_table(title, ["", *(f"{way}-way" for way in ways)], rows, right=1)
    spread = ", then the standard deviation over the checkpoints" if result.checkpoints > 1 else ""
    console.say(f"± is the 95 % interval over characters{spread}; random groups, {result.rounds} times")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or several run folders.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    evaluate: Annotated[
        bool, typer.Option(help="Score finished runs that were not evaluated yet, as `gaussproto evaluate` does.")
    ] = True,
    data_root: DataRoot = None,
) -> None:
    """Write one self-contained HTML page about runs: scores, curves, mistakes, precisions, a map."""
    from gaussproto.report.page import write_report

    with console.progress_bars() as bars:
        write_report(runs, out, evaluate=evaluate, data_root=data_root, progress=bars)
    console.say(f"report: {out}")
