"""The paper's figures from the runs of a folder."""

from __future__ import annotations

from pathlib import Path

from gaussproto.config import DataConfig
from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.errors import InputError
from gaussproto.report.figures import write_figure
from gaussproto.reproduce.paper import FIGURE_RUNS
from gaussproto.training.run_folder import RunFolder


def write_figures(
    runs: Path, folder: Path, data_root: Path | None = None, progress: Progress = silent
) -> tuple[list[Path], list[str]]:
    """Draw every figure that can be drawn; gives the files, and what is left out and why."""
    files: list[Path] = []
    left_out = []
    loaded: dict[DataConfig, LabelledImages] = {}
    for number, by_label in FIGURE_RUNS.items():
        found = {label: RunFolder(runs / run) for label, run in by_label.items()}
        missing = [run.path.name for run in found.values() if not run.ended]
        if missing:
            left_out.append(f"figure {number}, which needs {', '.join(missing)}")
            continue
        try:
            files += write_figure(number, found, folder, data_root=data_root, progress=progress, loaded=loaded)
        except InputError as error:  # the others are still worth having
            left_out.append(f"figure {number} ({error})")
        progress("figures", number, len(FIGURE_RUNS))
    return files, left_out
