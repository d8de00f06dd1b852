"""The command `reproduce`: the paper's tables and figures."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json, complete_data
from gaussproto.cli.run import show_training
from gaussproto.config import DataConfig
from gaussproto.reproduce.paper import WHAT, Budget, rows_of


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help=f"{', '.join(WHAT[:-1])} or {WHAT[-1]}.",
            autocompletion=lambda incomplete: [name for name in WHAT if name.startswith(incomplete)],
        ),
    ],
    budget: Annotated[
        Budget,
        typer.Option(help="quick: minutes, to see it work; standard: our recipe; paper: the paper's own length."),
    ] = "standard",
    only: Annotated[str | None, typer.Option(help="Only these rows, such as small-none,small-radius.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs; runs/reproduce-BUDGET if not given, with the name of other data."),
    ] = None,
    data: Annotated[
        str, typer.Option(help="strokes shows that it works without Omniglot.", autocompletion=complete_data)
    ] = "omniglot",
    data_root: DataRoot = None,
    device: Annotated[str, typer.Option(help="Where it trains: cpu, or cuda where there is a GPU.")] = "cpu",
    json: Json = False,
) -> None:
    """Train and score what a table or the figures of the paper need, and show its numbers beside ours."""
    rows = rows_of(what, only)
    configs = [row.config(budget).override(data=data) for row in rows]
    out = out or Path("runs") / "-".join(["reproduce", budget, *([] if data == "omniglot" else [Path(data).name])])
    from gaussproto.data.load import load_data
    from gaussproto.reproduce.answer import answer, check_place, quick_part
    from gaussproto.reproduce.figures import write_figures
    from gaussproto.reproduce.tables import caveats, hardware, read_runs, tables, write_tables

    check_place(out)
    with console.progress_bars() as bars:
        split = load_data(DataConfig(data=data), data_root, bars)
        if budget == "quick":
            split = quick_part(split)
        for row, config in zip(rows, configs, strict=True):
            name = row.run
            show = partial(show_training, bars, f"{name}: training", config.training.episodes, [])
            measure = partial(_prefixed, bars, name)
            bring = partial(answer, whole=not row.of, device=device, on_log=show, progress=measure)
            try:
                stopped = bring(config, split, out / name)
            except KeyboardInterrupt:  # while it was scored
                console.say(_stopped(name))
                raise
            if stopped:
                console.say(_stopped(name))
                raise typer.Exit(128 + (stopped.stopped_by or 0))
        runs = read_runs(out)
        shown = tables(what, runs)
        page = write_tables(runs, budget, data, out / "tables.md")
        draws = what in ("figures", "all")
        figures, left_out = write_figures(out, out / "figures", data_root, bars) if draws else ([], [])
    if json:
        files = {"page": str(page), "figures": [str(path) for path in figures], "left_out": left_out}
        return console.print_json({"tables": [asdict(table) for table in shown], **files})
    for table in shown:
        lines = [[cell.replace("`", "") for cell in row] for row in table.rows]  # a terminal shows no Markdown
        console.print_table(table.title, list(table.columns), lines, right=table.labels)
    notes = dict.fromkeys(table.note for table in shown)  # each once
    for sentence in [*notes, *caveats(budget, data), *(f"left out: {reason}" for reason in left_out)]:
        console.say(sentence)
    console.say(f"trained on {hardware(runs)}; tables: {page}" + (f"; figures: {out / 'figures'}" if figures else ""))
    return None


def _stopped(name: str) -> str:
    return f"stopped in {name}; the same command goes on"


def _prefixed(bars: console.Bars, name: str, what: str, done: int, total: int | None) -> None:
    bars(f"{name}: {what}", done, total)
