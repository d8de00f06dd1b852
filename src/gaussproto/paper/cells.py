"""Find the scores of runs, and format them as the cells of a table."""

from collections.abc import Mapping, Sequence

from gaussproto.paper.row import PaperScore, Row, Task
from gaussproto.runs.metrics import Metrics, Score, score_text
from gaussproto.setting_types import Norm

Runs = Mapping[str, Metrics]  # by the name of the row
NOT_RUN = "-"


def find_score(metrics: Metrics, task: Task, norm: Norm = "running", checkpoint: str = "top") -> Score | None:
    kind = (norm, checkpoint, False, 1)
    evaluations = (e for e in metrics.evaluations if (e.norm, e.checkpoint, e.within_alphabet, e.views) == kind)
    return next(filter(None, (evaluation.find(*task) for evaluation in evaluations)), None)


def cell(score: Score | None) -> str:
    return score.text() if score else NOT_RUN


def paper_cell(score: PaperScore | None) -> str:
    return score_text(score[0], std=score[1]) if score else ""


def measured_rows(runs: Runs, shown: Sequence[Row]) -> list[tuple[Row, Metrics]]:
    return [(row, runs[row.name]) for row in shown if row.name in runs]


def missing_rows(runs: Runs, shown: Sequence[Row]) -> tuple[str, ...]:
    return tuple(f"`{row.name}`" for row in shown if row.name not in runs)
