"""The command `gaussproto`: parses, calls, prints. Torch is imported only by the commands that need it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussproto import console
from gaussproto.classify import classify, enroll
from gaussproto.config import DataConfig, EpisodeConfig, Norm
from gaussproto.errors import InputError
from gaussproto.options import DataRoot, Json, complete_data, complete_preset, parse_numbers, train_signature
from gaussproto.presets import PRESETS, preset
from gaussproto.reproduce.paper import WHAT, check_budget, rows_of

if TYPE_CHECKING:
    from gaussproto.evaluation.protocol import Evaluation
    from gaussproto.training.train import LogRecord

app = typer.Typer(
    help="Few-shot image classification with Gaussian prototypical networks.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
UsageError = typer.BadParameter.__base__


@app.command()
def data(
    name: Annotated[
        str | None, typer.Argument(help="omniglot, strokes, or a folder.", autocompletion=complete_data)
    ] = None,
    data_root: DataRoot = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read Omniglot's files again and compare them.")] = False,
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet of the images to this PNG file.")] = None,
    json: Json = False,
) -> None:
    """Show where the data is; with a name, fetch it if needed, check it and count it."""
    from gaussproto.data import omniglot as source
    from gaussproto.data.cache import cache_folder
    from gaussproto.data.load import load_data
    from gaussproto.data.sheet import contact_sheet
    from gaussproto.files import write_then_rename

    found: dict[str, Any] = {"cache": str(cache_folder())}
    if name is None:
        for part in source.PARTS.values():
            path = source.find(part, data_root)
            found[part.name] = str(path) if path else None
        if json:
            return console.print_json(found)
        rows = [
            [what, str(where or "not here yet: `gaussproto data omniglot` fetches it")] for what, where in found.items()
        ]
        return console.print_table("", ["", "where"], [*rows, ["strokes", "drawn when needed"]])

    with console.progress_bars() as bars:
        if verify and name == "omniglot":
            for part in source.PARTS.values():
                source.decode_verified(part, source.find_or_fetch(part, data_root, bars), 28, bars)
            found["verified"] = True
        split = load_data(DataConfig(data=name), data_root, bars)
    if sheet:
        if sheet.suffix.lower() != ".png":
            raise InputError(f"the contact sheet is a PNG picture: name a file that ends in .png (found {sheet})")
        with write_then_rename(sheet) as temporary:
            contact_sheet(split.test).save(temporary, format="png", optimize=True)
        found["sheet"] = str(sheet)
    for part_name, images in split._asdict().items():
        found[part_name] = {
            "alphabets": len(set(images.alphabets)),
            "classes": images.way,
            "images": len(images),
            "size": list(images.images.shape[1:]),
        }
    if json:
        return console.print_json({"data": name} | found)
    rows = [
        [part, *(f"{found[part][key]:,}" for key in ("alphabets", "classes", "images")), str(found[part]["size"])]
        for part in ("train", "test")
    ]
    console.print_table(name, ["split", "alphabets", "classes", "images", "channels, H, W"], rows, right=1)
    if verify and name == "omniglot":
        console.say("verified: names, counts and pixels are those of Omniglot")
    return None


@app.command()
def presets(
    name: Annotated[
        str | None, typer.Argument(help="Show every setting of this one.", autocompletion=complete_preset)
    ] = None,
    json: Json = False,
) -> None:
    """List the named runs, or every setting of one."""
    if name is not None:
        tree = preset(name).model_dump(mode="json")
        if json:
            return console.print_json(tree)
        rows = [
            [section, key, str(value)]
            for section in ("data", "network", "episode", "training")
            for key, value in tree[section].items()
        ]
        return console.print_table(f"{name}: {tree['about']}", ["section", "setting", "value"], rows)
    if json:
        return console.print_json({name: run.about for name, run in PRESETS.items()})
    rows = [
        [run.name, run.about, str(run.network.embedding_dim), _episode_words(run.episode), f"{run.training.episodes:,}"]
        for run in PRESETS.values()
    ]
    return console.print_table("", ["preset", "what", "D", "episode", "episodes"], rows, right=4)


def _episode_words(episode: EpisodeConfig) -> str:
    shot = f"{episode.shot}-{episode.max_shot}" if episode.max_shot else str(episode.shot)
    return f"{episode.way}-way {shot}+{episode.query}"


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
    from gaussproto.data.load import load_data
    from gaussproto.training import train as training

    config = preset(name, **{key: value for key, value in settings.items() if value is not None})
    is_run = name not in PRESETS and Path(name).is_dir()
    out = out or (Path(name) if is_run else Path("runs") / config.name)
    total = config.training.episodes
    with console.progress_bars() as bars:
        split = load_data(config.data, data_root, bars)
        bars("training", 0, total)
        show = partial(_show_training, bars, "training", total, [])
        result = training.train(config, split.train, out, resume=resume, device=device, on_log=show)
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


def _show_training(bars: console.Bars, what: str, total: int, records: list[LogRecord], record: LogRecord) -> None:
    records.append(record)
    first = records[0]
    rate = (record.episode - first.episode) / max(1e-9, record.seconds - first.seconds)
    note = f"loss {record.loss:.3f}  accuracy {record.accuracy:.3f}" + (f"  {rate:.1f}/s" if rate else "")
    bars(what, record.episode, total, note)


train.__signature__ = train_signature()  # type: ignore[attr-defined]
app.command()(train)


@app.command()
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
    seed: Annotated[int, typer.Option(help="Of the groupings.")] = 0,
    data: Annotated[
        str | None, typer.Option(help="Other data than the run's own.", autocompletion=complete_data)
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
    config = loaded[0].config.data.model_copy(update={"data": data} if data else {})
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
    content = {"target": target, "data": config.data, "checkpoint": checkpoints} | result.as_dict()
    if run.config.exists():
        run.write_evaluation(f"{config.data} {norm} {checkpoints}", content)
    if json:
        return console.print_json(content)
    return _print_scores(target, config.data, result)


@app.command()
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


def _print_scores(target: str, data: str, result: Evaluation) -> None:
    ways = list(dict.fromkeys(score.way for score in result.scores))
    shots = list(dict.fromkeys(score.shot for score in result.scores))
    rows = [[f"{shot}-shot", *(_score_words(result, way, shot) for way in ways)] for shot in shots]
    title = (
        f"{target} on {data}: accuracy in %, {result.norm} statistics, {result.classes:,} classes unseen in training"
    )
    console.print_table(title, ["", *(f"{way}-way" for way in ways)], rows, right=1)
    spread = ", then the standard deviation over the checkpoints" if result.checkpoints > 1 else ""
    console.say(f"± is the 95 % interval over characters{spread}; random groups, {result.rounds} times")


def _score_words(result: Evaluation, way: int, shot: int) -> str:
    score = result.score(way, shot)
    return f"{100 * score.accuracy:.2f} ± {100 * score.interval:.2f}" + (
        f" (std {100 * score.std:.2f})" if score.std is not None else ""
    )


@app.command()
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="verification, results, distances, ours, comparison, figures or all.",
            autocompletion=lambda incomplete: [name for name in WHAT if name.startswith(incomplete)],
        ),
    ],
    budget: Annotated[
        str, typer.Option(help="quick: minutes, to see it work; standard: our recipe; paper: the paper's own length.")
    ] = "standard",
    only: Annotated[str | None, typer.Option(help="Only these rows, such as small-none,small-radius.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; runs/reproduce-BUDGET if not given.")] = None,
    data: Annotated[
        str, typer.Option(help="strokes shows that it works without Omniglot.", autocompletion=complete_data)
    ] = "omniglot",
    data_root: DataRoot = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda where there is a GPU.")] = "cpu",
    json: Json = False,
) -> None:
    """Train and score what a table or the figures of the paper need, and show its numbers beside ours."""
    rows = rows_of(what, only)
    configs = {row.run: row.config(check_budget(budget)).override(data=data) for row in rows}
    out = out or Path("runs") / f"reproduce-{budget}"
    from gaussproto.data.load import load_data
    from gaussproto.reproduce.answer import answer, check_place
    from gaussproto.reproduce.figures import write_figures
    from gaussproto.reproduce.tables import HOW, hardware, read_runs, tables, write_tables

    check_place(out)
    with console.progress_bars() as bars:
        split = load_data(DataConfig(data=data), data_root, bars)
        for name, config in configs.items():
            show = partial(_show_training, bars, f"{name}: training", config.training.episodes, [])
            measure = partial(_prefixed, bars, name)
            stopped = answer(config, split, out / name, device=device, on_log=show, progress=measure)
            if stopped:
                console.say(f"stopped in {name}; the same command goes on")
                raise typer.Exit(128 + (stopped.stopped_by or 0))
        figures = write_figures(out, out / "figures", data_root, bars) if what in ("figures", "all") else []
    runs = read_runs(out)
    shown = tables(what, runs)
    page = write_tables(shown, runs, out / "tables.md")
    if json:
        files = [str(path) for path in figures]
        return console.print_json({"tables": [asdict(table) for table in shown], "page": str(page), "figures": files})
    for table in shown:
        console.print_table(table.title, list(table.columns), [list(row) for row in table.rows], right=2)
    console.say(HOW)
    console.say(f"trained on {hardware(runs)}; tables: {page}" + (f"; figures: {out / 'figures'}" if figures else ""))
    return None


def _prefixed(bars: console.Bars, name: str, what: str, done: int, total: int | None) -> None:
    bars(f"{name}: {what}", done, total)


@app.command()
def bench(
    only: Annotated[
        str | None, typer.Option(help="Only what has these words, such as 'step small', embedding or accuracy.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter repetitions: a first impression.")] = False,
    accuracy: Annotated[
        bool, typer.Option("--accuracy", help="Also the time to 95 % and 96 % on Omniglot: some ten minutes more.")
    ] = False,
    data_root: DataRoot = None,
    json: Json = False,
) -> None:
    """Measure how fast it is here, against a plain implementation; nothing else should be running."""
    from gaussproto.bench.cases import chosen_cases
    from gaussproto.bench.measure import QUICK, Effort, measure

    cases = [] if only == "accuracy" else chosen_cases(only, quick)
    curve = accuracy or only == "accuracy"
    with console.progress_bars() as bars:
        result = measure(cases, QUICK if quick else Effort(), bars, curve=curve, data_root=data_root)
    if json:
        return console.print_json(result.as_dict())
    from gaussproto.bench.show import machine_words, report_tables

    for table in report_tables(result):
        console.print_table(table.title, list(table.columns), [list(row) for row in table.rows], right=1)
    console.say(f"medians of {result.effort.rounds} rounds on {machine_words(result)}")
    return None


app.command()(classify)
app.command()(enroll)


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2."""
    console.show_warnings()
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        code = console.fail(str(error))
    except UsageError as error:  # type: ignore[misc]
        code = console.fail(f"{error.format_message()} (`gaussproto --help` tells more)")
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
