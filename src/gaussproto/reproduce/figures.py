"""The paper's figures from the runs of a folder."""

from __future__ import annotations

from pathlib import Path

from gaussproto.data.images import Progress, silent
from gaussproto.report.figures import write_figure
from gaussproto.reproduce.paper import FIGURE_RUNS
from gaussproto.training.run_folder import RunFolder


def write_figures(runs: Path, folder: Path, data_root: Path | None = None, progress: Progress = silent) -> list[Path]:
    """Draw every figure whose runs are all there; gives the files."""
    files = []
    for number, by_label in FIGURE_RUNS.items():
        found = {label: RunFolder(runs / run) for label, run in by_label.items()}
        if all(run.last.exists() for run in found.values()):
            files += write_figure(number, found, folder, data_root=data_root, progress=progress)
            progress("figures", number, len(FIGURE_RUNS))
    return files
