"""The command `bench`: how fast it is on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json


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
