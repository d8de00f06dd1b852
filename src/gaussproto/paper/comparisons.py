"""Tables of the comparisons that are not in the paper: embedding sizes, the split of most papers, photos."""

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path

from gaussproto.figures.dimensions import accuracy_over_parameters
from gaussproto.figures.style import add_note, save_figure
from gaussproto.formulas.covariance import find_covariance
from gaussproto.paper.cells import NOT_RUN, Runs, cell, find_score, measured_rows, missing_rows
from gaussproto.paper.photos import CORRUPTED, TASKS, VANILLA
from gaussproto.paper.row import SIZED_EPISODES, Task
from gaussproto.paper.rows import LITERATURE_TASKS, PHOTOS, SIZES, TABLES
from gaussproto.runs.metrics import score_text
from gaussproto.runs.photos import PhotoStudy
from gaussproto.table import Table

COVARIANCES = {"none": "none (vanilla)", "radius": "radius", "diagonal": "diagonal", "full": "full"}
SIZED = (
    f"Short runs with our recipe: {SIZED_EPISODES['small']:,} episodes of the small encoder, {SIZED_EPISODES['big']:,} "
    "of the big one, one seed. Accuracy in % of the last checkpoint, 20-way, running statistics"
)
BETWEEN_SEEDS = "Between seeds, the 1-shot accuracy of such runs varies by a standard deviation of 0.05 to 0.08 points."
DIMENSIONS_NOTE = (
    f"{SIZED}, ± 95 % interval over characters. The same test classes are used in all rows, so differences are surer "
    f"than the intervals. {BETWEEN_SEEDS}"
)
VINYALS_NOTE = (
    "Accuracy in %. All train on 1,200 characters and test on the other 423; rotations are separate classes. Ours: the "
    "last checkpoint, ± 95 % interval over characters. Inductive: each image is classified independently. "
    "Transductive: the answer to an image depends on the other images of its test."
)
# As their authors published them. Mishra et al. do not state whether SNAIL is inductive.
OTHERS: Mapping[str, tuple[str, str, str, str, str]] = {
    "SNAIL (Mishra et al. 2018)": ("97.64", "99.36", "99.07", "99.78", "not stated"),
    "prototypical networks (Snell et al. 2017)": ("96.0", "98.9", "98.8", "99.7", "inductive"),
    "MAML (Finn et al. 2017)": ("95.8", "98.9", "98.7", "99.9", "transductive"),
}
DIFFERENCES_NOTE = (
    "Points gained over the vanilla network of the same seed. ± is the widest of three 95 % intervals: over the seeds, "
    "over the test classes and over the episodes."
)
PRECISIONS_NOTE = (
    "Mean precision of corrupted photos, as a share of that of clean ones, and the share of pairs of a clean and a "
    "corrupted photo in which the clean one has the higher precision. Means over the seeds."
)
PARAMETERS_NOTE = (
    "Accuracy in %, 20-way 1-shot / 5-shot. The networks of a row have the same encoder and about as many outputs, "
    "which are shared between the embedding and its precision."
)
SIZED_TASKS: tuple[Task, ...] = ((20, 1), (20, 5))


def dimensions_table(runs: Runs) -> Table:
    lines = []
    for (encoder, covariance), rows in SIZES.items():
        for row in rows:
            if row.name in runs:
                dim = str(row.config("standard").network.embedding_dim)
                scores = [cell(find_score(runs[row.name], task, checkpoint="last")) for task in SIZED_TASKS]
                training = runs[row.name].training
                parameters = f"{training.parameters:,}" if training else NOT_RUN
                lines.append((f"`{row.name}`", encoder, COVARIANCES[covariance], dim, parameters, *scores))
    columns = (
        "run",
        "encoder",
        "covariance",
        "D",
        "parameters",
        *(f"{way}-way {shot}-shot" for way, shot in SIZED_TASKS),
    )
    missing = missing_rows(runs, TABLES["dimensions"])
    return Table("dimensions", "Embedding sizes", columns, tuple(lines), DIMENSIONS_NOTE, labels=3, missing=missing)


def parameters_table(runs: Runs) -> Table:
    """Return the accuracies of networks with about as many parameters, which differ in what the outputs are for."""
    cells: dict[tuple[str, int], dict[str, str]] = {}
    sizes: dict[tuple[str, int], list[int]] = {}
    for (encoder, covariance), rows in SIZES.items():
        for row in rows:
            run = runs.get(row.name)
            scores = [run and find_score(run, task, checkpoint="last") for task in SIZED_TASKS]
            if run and run.training and all(scores):
                dim = row.config("standard").network.embedding_dim
                outputs = dim + find_covariance(covariance).raw_size(dim)
                key = encoder, 2 ** round(log2(outputs))
                one, five = (score_text(100 * score.accuracy) for score in scores if score)
                cells.setdefault(key, {})[covariance] = f"{one} / {five} (D = {dim})"
                sizes.setdefault(key, []).append(run.training.parameters)
    lines = [
        (encoder, f"{thousands(sizes[encoder, n])}", *(found.get(name, "") for name in COVARIANCES))
        for (encoder, n), found in sorted(cells.items(), key=lambda item: (item[0][0] == "big", item[0][1]))
        if len(found) > 1
    ]
    columns = ("encoder", "parameters", *COVARIANCES.values())
    return Table("dimensions", "The same number of parameters", columns, tuple(lines), PARAMETERS_NOTE)


def thousands(parameters: Sequence[int]) -> str:
    """Return about how many parameters networks have.

    >>> thousands([111_680, 112_258]), thousands([148_672, 152_718])
    ('112,000', '149,000 to 153,000')
    """
    low, high = (f"{round(n, -3):,}" for n in (min(parameters), max(parameters)))
    return low if low == high else f"{low} to {high}"


def sized_points(runs: Runs, encoder: str, task: Task) -> dict[str, list[tuple[int, float, int]]]:
    """Return the parameters, the accuracy and the embedding size D of the measured runs, by covariance."""
    points: dict[str, list[tuple[int, float, int]]] = {}
    for (other, covariance), rows in SIZES.items():
        for row in rows if other == encoder else ():
            run = runs.get(row.name)
            score = run and find_score(run, task, checkpoint="last")
            if run and run.training and score:
                point = run.training.parameters, score.accuracy, row.config("standard").network.embedding_dim
                points.setdefault(COVARIANCES[covariance], []).append(point)
    return points


def write_dimensions_figure(runs: Runs, folder: Path) -> list[Path]:
    """Draw the accuracy over the number of parameters. Without measured runs, draw nothing."""
    panels = {
        f"{encoder} encoder, {way}-way {shot}-shot": points
        for way, shot in SIZED_TASKS
        for encoder in SIZED_EPISODES
        if (points := sized_points(runs, encoder, (way, shot)))
    }
    if not panels:
        return []
    figure = accuracy_over_parameters(panels)
    add_note(figure, f"Numbers: embedding size D. {SIZED}. The scales differ. {BETWEEN_SEEDS}")
    return save_figure(figure, folder, "dimensions", "Where should an extra parameter go?")


def vinyals_table(runs: Runs) -> Table:
    measured = measured_rows(runs, TABLES["vinyals"])
    lines = []
    for row, run in measured:
        scores = (cell(find_score(run, task, checkpoint="last")) for task in LITERATURE_TASKS)
        lines.append((f"ours, `{row.name}`", *scores, "inductive"))
    lines += [(name, *quotes) for name, quotes in OTHERS.items()] if measured else []
    columns = ("model", *(f"{way}-way {shot}-shot" for way, shot in LITERATURE_TASKS), "setting")
    missing = missing_rows(runs, TABLES["vinyals"])
    title = "The split of most papers"
    return Table("vinyals", title, columns, tuple(lines), VINYALS_NOTE, labels=1, missing=missing)


def photo_tables(study: PhotoStudy) -> list[Table]:
    """Return the accuracies, the differences from the vanilla network, and the precisions."""
    kinds = [kind for kind in PHOTOS if any(network.kind == kind for network in study.networks)]
    tasks = tuple(task.text for task in TASKS)
    accuracies, differences = [], []
    for kind in kinds:
        networks = [network for network in study.networks if network.kind == kind]
        about = (PHOTOS[kind], f"{networks[0].parameters:,}", str(len(networks)))
        scores = [study.score(kind, task) for task in TASKS]
        cells = [score_text(100 * s.accuracy, 100 * (s.over_episodes or 0)) if s else NOT_RUN for s in scores]
        accuracies.append((*about, *cells))
        gaps = [study.difference(kind, task) for task in TASKS]
        if kind != VANILLA and all(gaps):
            cells = [
                score_text(100 * gap.difference, None if gap.half_width is None else 100 * gap.half_width, sign="+")
                for gap in gaps
                if gap
            ]
            differences.append((PHOTOS[kind], str(len(gaps[0].by_seed) if gaps[0] else 0), *cells))
    lengths = " and ".join(f"{n:,}" for n in sorted({network.episodes for network in study.networks}))
    note = (
        f"Accuracy in %, {study.way}-way, {study.queries} queries of each class, {study.episodes:,} random episodes of "
        f"the {study.classes} test classes, the same for every network. {lengths} training episodes. In the last "
        "columns, some of the five supports of every class are corrupted. ± is the 95 % interval over "
        "episodes, of the mean over the seeds."
    )
    tables = (
        _photo_table("accuracy", ("network", "parameters", "seeds", *tasks), accuracies, note),
        _photo_table("difference from vanilla", ("network", "seeds", *tasks), differences, DIFFERENCES_NOTE),
        _photo_table("precision", ("network", *CORRUPTED), _precisions(study), PRECISIONS_NOTE),
    )
    return [table for table in tables if table.rows]


def _photo_table(what: str, columns: tuple[str, ...], lines: list[tuple[str, ...]], note: str) -> Table:
    return Table("photos", f"Photos: {what}", columns, tuple(lines), note, labels=1)


def _precisions(study: PhotoStudy) -> list[tuple[str, ...]]:
    lines: dict[str, list[str]] = {}
    for each in study.precisions:
        text = f"{each.ratio:.2f} ({100 * each.clean_is_higher:.0f} %)"
        lines.setdefault(PHOTOS[each.kind], []).append(text)
    return [(kind, *cells) for kind, cells in lines.items()]
