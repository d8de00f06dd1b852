"""The command `reproduce`, which reproduces the paper's tables and figures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Device, Json, complete
from gaussproto.cli.run import show_training
from gaussproto.config import DRAWN
from gaussproto.paper.row import Budget, Row
from gaussproto.paper.rows import TARGETS

if TYPE_CHECKING:
    from gaussproto.runs.metrics import LogRecord

TARGETS_HELP = f"What to reproduce: {', '.join(TARGETS[:-1])} or {TARGETS[-1]}."


def reproduce(
    target: Annotated[str, Argument(metavar="TARGET", help=TARGETS_HELP, autocompletion=complete(TARGETS))],
    budget: Annotated[
        Budget,
        Option(
            help="Length of the runs. quick: a few minutes, only to see it work. standard: our recipe. paper: the "
            "paper's recipe and number of episodes."
        ),
    ] = "standard",
    only: Annotated[
        str | None, Option(help="Run only these rows, separated by commas, e.g. small-none,small-radius.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="Folder for the runs. Default: runs/reproduce-BUDGET, followed by -DATA for other data."),
    ] = None,
    data: Annotated[
        str | None,
        Option(
            help="Other data to train and test on than that of the target. strokes needs no download.",
            autocompletion=complete(DRAWN),
        ),
    ] = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Reproduce a table or the figures of the paper: train and score the networks, and compare the numbers.

    Finished runs are not trained again. If you stop the command, run it again to continue.
    """
    from gaussproto.paper import run

    names = [row.name for row in run.select_rows(target, only)]
    records: defaultdict[str, list[LogRecord]] = defaultdict(list)
    with console.progress_bars() as bars:

        def show(row: Row, record: LogRecord) -> None:
            total, number = row.config(budget).training.episodes, names.index(row.name) + 1
            label = f"{row.name} ({number} of {len(names)}): training"
            show_training(bars, label, total, records[row.name], record)

        try:
            where: dict[str, Any] = {"out": out, "data": data, "data_root": data_root, "device": device}
            result = run.reproduce(target, budget, only=only, **where, on_log=show, say=console.say, progress=bars)
        except KeyboardInterrupt as interrupt:
            for note in getattr(interrupt, "__notes__", ()):
                console.say(note)
            raise
    if result.stopped:
        console.say(f"stopped during {result.stopped.folder.name}; run the same command again to continue")
        raise Exit(128 + (result.stopped.stopped_by or 0))
    if json:
        tables, figures = [asdict(table) for table in result.tables], [str(path) for path in result.figures]
        content = {"tables": tables, "page": str(result.page), "figures": figures, "left_out": result.left_out}
        return console.print_json(content)
    for table in result.tables:
        lines = [[cell.replace("`", "") for cell in row] for row in table.rows]  # no Markdown in a terminal
        console.print_table(table.title, list(table.columns), lines, right=table.labels)
        if table.missing:
            console.say(table.missing_text.replace("`", ""))
    for sentence in (*result.notes, *(f"left out: {reason}" for reason in result.left_out)):
        console.say(sentence)
    console.say(f"trained on {result.hardware}")
    drawn = (
        f" and the figures to {' and '.join(dict.fromkeys(str(path.parent) for path in result.figures))}"
        if result.figures
        else ""
    )
    return console.say(f"wrote the tables to {result.page}{drawn}")
