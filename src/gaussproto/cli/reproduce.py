"""The command `reproduce`: the paper's tables and figures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json, complete
from gaussproto.cli.run import show_training
from gaussproto.config import DRAWN
from gaussproto.paper.rows import TARGETS, Budget, Row

if TYPE_CHECKING:
    from gaussproto.runs.metrics import LogRecord

TARGETS_HELP = f"{', '.join(TARGETS[:-1])} or {TARGETS[-1]}."


def reproduce(
    target: Annotated[str, Argument(metavar="TARGET", help=TARGETS_HELP, autocompletion=complete(TARGETS))],
    budget: Annotated[
        Budget, Option(help="quick: minutes, to see it work; standard: our recipe; paper: the paper's own length.")
    ] = "standard",
    only: Annotated[str | None, Option(help="Only these rows, e.g. small-none,small-radius.")] = None,
    out: Annotated[
        Path | None, Option(help="Folder of the runs; runs/reproduce-BUDGET by default, with the name of other data.")
    ] = None,
    data: Annotated[
        str, Option(help="What to train on; strokes works without Omniglot.", autocompletion=complete(DRAWN))
    ] = "omniglot",
    data_root: DataRoot = None,
    device: Annotated[str, Option(help="Where to train: cpu or cuda.")] = "cpu",
    json: Json = False,
) -> None:
    """Train and score what a table or the figures of the paper need, and show its numbers beside ours."""
    from gaussproto.paper import run

    records: defaultdict[str, list[LogRecord]] = defaultdict(list)
    with console.progress_bars() as bars:

        def show(row: Row, record: LogRecord) -> None:
            total = row.config(budget).training.episodes
            show_training(bars, f"{row.name}: training", total, records[row.name], record)

        try:
            where: dict[str, Any] = {"out": out, "data": data, "data_root": data_root, "device": device}
            result = run.reproduce(target, budget, only=only, **where, on_log=show, progress=bars)
        except KeyboardInterrupt as interrupt:
            for note in getattr(interrupt, "__notes__", ()):
                console.say(note)
            raise
    if result.stopped:
        console.say(f"stopped in {result.stopped.folder.name}; the same command goes on")
        raise Exit(128 + (result.stopped.stopped_by or 0))
    if json:
        tables, figures = [asdict(table) for table in result.tables], [str(path) for path in result.figures]
        content = {"tables": tables, "page": str(result.page), "figures": figures, "left_out": result.left_out}
        return console.print_json(content)
    for table in result.tables:
        lines = [[cell.replace("`", "") for cell in row] for row in table.rows]  # a terminal shows no Markdown
        console.print_table(table.title, list(table.columns), lines, right=table.labels)
    for sentence in (*result.notes, *(f"left out: {reason}" for reason in result.left_out)):
        console.say(sentence)
    drawn = f"; figures: {result.folder / 'figures'}" if result.figures else ""
    return console.say(f"trained on {result.hardware}; tables: {result.page}{drawn}")
