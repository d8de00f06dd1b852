"""Measure how fast gaussproto is on this machine, compared with a plain implementation. Stop other programs first.

Pass options in ARGS: make bench ARGS="--quick --only 'step small'"
"""

from __future__ import annotations

from benchmarks.cases import select_cases
from benchmarks.command import parser, run
from benchmarks.measure import QUICK, measure
from benchmarks.results import Effort
from benchmarks.tables import machine_text, report_tables
from gaussproto.cli import console


def main() -> None:
    options = parser(__doc__)
    options.prog = "python -m benchmarks"
    options.add_argument(
        "--only", metavar="WORDS", help="only cases with these words, for example 'step small', growth or accuracy"
    )
    options.add_argument("--quick", action="store_true", help="fewer and shorter repetitions, for a first impression")
    options.add_argument(
        "--accuracy",
        action="store_true",
        help="also measure the training time to 95, 96 and 97 %% on Omniglot (a quarter of an hour)",
    )
    options.add_argument("--json", action="store_true", help="print only one JSON object on stdout")
    options.add_data_root()
    chosen = options.parse_args()

    cases = [] if chosen.only == "accuracy" else select_cases(chosen.only, chosen.quick)
    curves = chosen.accuracy or chosen.only == "accuracy"
    effort = QUICK if chosen.quick else Effort()
    with console.progress_bars() as bars:
        report = measure(cases, effort, bars, curves=curves, data_root=chosen.data_root)
    if chosen.json:
        console.print_json(report.model_dump(mode="json"))
        return
    for table in report_tables(report):
        console.print_table(table.title, list(table.columns), table.rows, right=1)
    console.say(f"medians of {report.effort.rounds} rounds on {machine_text(report)}")


if __name__ == "__main__":
    run(main)
