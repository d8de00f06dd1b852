"""Copy finished runs to `results/`, draw their figures, and fill the tables of the documentation from there.

python scripts/publish.py [RUN...] [--noise FOLDER] [--photos FILE]

FOLDER holds the study of bad examples, such as `runs/reproduce-standard/noise`. Networks that it does not have keep their
published numbers. FILE is the comparison on photos, such as `runs/reproduce-standard/photos.json`. Without any of them,
only fill the tables.
"""

import argparse
import re
import shutil
from pathlib import Path

from gaussproto.cli.options import help_text
from gaussproto.config import CIFAR_FS, SECTIONS, RunConfig, TrainingConfig, read_config, setting_fields
from gaussproto.files import write_json, write_then_rename
from gaussproto.paper.cells import cell, find_score, paper_cell
from gaussproto.paper.comparisons import photo_tables, write_dimensions_figure
from gaussproto.paper.figures import FIGURES, write_figure
from gaussproto.paper.noise_figures import write_noise_figures
from gaussproto.paper.noise_join import join_studies
from gaussproto.paper.noise_tables import noise_tables
from gaussproto.paper.row import Budget
from gaussproto.paper.rows import BIG_NONE, BIG_RADIUS_LEARNED, ROWS, SMALL_NONE, SMALL_RADIUS, TABLES
from gaussproto.paper.tables import hardware, make_tables, read_run, read_runs
from gaussproto.presets import PRESETS
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import Metrics
from gaussproto.runs.noise import read_noise
from gaussproto.runs.photos import read_photos
from gaussproto.setting_types import setting_text
from gaussproto.table import Table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
# Runs of these targets are published in a folder of that name, without figures. A run of several is in the first.
TOGETHER = ("seeds", "noise", "dimensions", "vinyals", "photos")
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/cifar-fs.md",
    ROOT / "docs/evaluation.md",
    ROOT / "docs/noise.md",
    ROOT / "docs/reproduction.md",
    ROOT / "docs/settings.md",
    RESULTS / "README.md",
)
NOISE = "noise.json"  # in results/noise, with its figures
PHOTOS = "photos.json"  # in results/photos
FILES = ("config.json", "log.jsonl")
# Runs that differ from their preset: shorter, as docs/reproduction.md says, with another description, and starting from
# a run instead of the bundled weights.
NO_PRESET = ("paper-small-radius", "drawings-small", "drawings-polish")
BRIEF = {row.name: row for row in ROWS.values() if row.brief}
KNOWN = PRESETS | {name: row.config("standard") for name, row in BRIEF.items()}
FOLDERS = {row.name: target for target in reversed(TOGETHER) for row in TABLES[target] if row.brief}
LOSS, LEARNED, PRECISIONS = 6, 7, 9  # the paper's figures of one run that show no drawings of Omniglot
DIMENSIONS = "dimensions.svg"  # in results/figures, the accuracy over the number of parameters
OF_SEVERAL = (4, 5, 8)  # the paper's figures that compare published runs
TASKS = ((20, 1), (20, 5), (5, 1), (5, 5))
HIGHLIGHTS = {  # what the README compares: a run, what it is, and the row of the paper if it has one
    "standard-small-none": ("small, vanilla", SMALL_NONE),
    "standard-small-radius": ("small, Gaussian as in the paper", SMALL_RADIUS),
    "standard-small-weighted": ("small, Gaussian in our form", None),
    "standard-big-none": ("big, vanilla", BIG_NONE),
    "standard-big-radius-learned": ("big, Gaussian as in the paper", BIG_RADIUS_LEARNED),
    "omniglot-big": ("big, Gaussian in our form, twice as many episodes", None),
}
BAD_EXAMPLES = {  # what the README compares when examples are bad
    "standard-small-none": "vanilla",
    "standard-small-radius": "Gaussian as in the paper",
    "standard-small-several": "vanilla, trained with some blurred images",
    "standard-small-weighted": "Gaussian in our form, trained with the same images",
}
BUNDLED = {
    "drawings-small": "prepared drawings, first training",
    "drawings-big": "prepared drawings, first training",
    "drawings-polish": "trained further: the weights `drawings-big`",
    "omniglot-big": "",
}
SMALL_OF_PAPER = (("small vanilla network", SMALL_NONE), ("small Gaussian network", SMALL_RADIUS))


def filled(page: str, results: Path = RESULTS) -> str:
    """Return the page with the text between each `<!-- NAME -->` and `<!-- end -->` generated from the results."""
    runs = read_runs(results)
    fast = [name for name in runs if name.startswith("fast-")]
    seeds = read_runs(results / "seeds")
    blocks = {
        "hardware": f"Trained on {hardware({**runs, **seeds})}.",
        "highlights": _highlights(runs),
        "bad examples": _bad_examples(runs),
        "settings": settings_tables(),
        "bundled": _last(runs, BUNDLED, TASKS),
        "fast last": _last(runs, dict.fromkeys(fast, ""), TASKS),
        "fast top": _table(
            [(f"`{name}`", *(cell(find_score(runs[name], task)) for task in TASKS[:2])) for name in fast]
            + _of_paper(SMALL_OF_PAPER, TASKS[:2]),
            TASKS[:2],
        ),
    }
    study = results / "noise" / NOISE
    for table in noise_tables(read_noise(study)) if study.exists() else ():
        blocks |= {f"noise {table.title.lower().rstrip('?').partition(':')[0]}": table.markdown(), "noise": table.note}
    photos = results / "photos" / PHOTOS
    for table in photo_tables(read_photos(photos)) if photos.exists() else ():
        blocks[table.title.lower().replace(":", "")] = f"{table.markdown()}\n\n{table.note}"
    for budget in ("standard", "paper"):
        for table in make_tables("all", published(budget, results)):
            name = f"{budget} {table.name}"
            parts = filter(None, (f"**{table.title}**", table.markdown(), table.missing_text))
            blocks[name] = blocks.get(name, "") + "\n\n".join(parts) + "\n\n"

    sized = "standard dimensions"
    if sized in blocks and (results / "figures" / DIMENSIONS).exists():
        alt = "Accuracy over the number of parameters, for each covariance"
        blocks[sized] = f"![{alt}](../results/figures/{DIMENSIONS})\n\n{blocks[sized]}"
    for target in TOGETHER:
        blocks.setdefault(f"standard {target}", "The runs of this comparison are not published yet.")

    def fill(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{blocks[match[1]].strip()}\n<!-- end -->"

    return re.sub(r"<!-- ([\w ]+) -->\n.*?<!-- end -->", fill, page, flags=re.DOTALL)


def settings_tables() -> str:
    """Every setting of a run, by section, with its default and its description."""
    parts = []
    known = setting_fields()
    for name, section in SECTIONS.items():
        fields = [setting for setting in known if setting in section.model_fields]
        fields += ["episodes", "damage"] if name == "training" else []
        rows = [(f"`{setting}`", _default(setting), help_text(known.pop(setting))) for setting in fields]
        parts += [f"## {name.capitalize()}", Table("", "", ("setting", "default", "meaning"), tuple(rows)).markdown()]
    return "\n\n".join(parts)


def _default(setting: str) -> str:
    if setting == "episodes":
        return f"{TrainingConfig().episodes}"
    value = setting_fields()[setting].default
    return "none" if value == () else setting_text(setting, value)


def published(budget: Budget, results: Path = RESULTS) -> dict[str, Metrics]:
    """Metrics of the published runs at a budget, by row name."""
    folders = {
        row.name: results / FOLDERS.get(row.name, "") / row.configs[budget].name
        for row in ROWS.values()
        if budget in row.configs
    }
    return {name: read_run(folder) for name, folder in folders.items() if folder.exists()}


def _highlights(runs: dict[str, Metrics]) -> str:
    """Scores of the last checkpoint beside the paper's, with the time that the training took."""
    rows = []
    for name, (label, row) in HIGHLIGHTS.items():
        run = runs[name]
        scores = [(row and row.paper.get(task), find_score(run, task, checkpoint="last")) for task in TASKS[:2]]
        cells = [text for theirs, ours in scores for text in (f"{theirs[0]:.2f}" if theirs else "", cell(ours))]
        threads = run.training.threads or (run.machine.threads,)
        cores = f"{' to '.join(map(str, sorted(threads)))} core{'s' * (threads != (1,))}"
        rows.append((label, *cells, f"{run.training.seconds / 60:.0f} min, {cores}"))
    columns = ("encoder, network", "1-shot: paper", "ours", "5-shot: paper", "ours", "training")
    return Table("", "", columns, tuple(rows)).markdown()


def _bad_examples(runs: dict[str, Metrics]) -> str:
    """Accuracy at 20-way 5-shot with some of the five supports damaged, the small encoder."""
    shown = (0, 2, 3, 4)
    rows = []
    for name, label in BAD_EXAMPLES.items():
        study = runs[name].damage
        assert study is not None
        assert (study.way, study.shot) == (20, 5)
        rows.append((label, *(f"{100 * study.accuracy[n]:.1f}" for n in shown)))
    columns = ("network", "none blurred", *(f"{n} of 5" for n in shown[1:]))
    return Table("", "", columns, tuple(rows)).markdown()


def _last(runs: dict[str, Metrics], labels: dict[str, str], tasks, more=()) -> str:
    """Table of the last checkpoint's scores with their intervals."""
    rows = []
    for name, label in labels.items():
        cells = [cell(find_score(runs[name], task, checkpoint="last")) for task in tasks]
        rows.append((f"`{name}`" + (f", {label}" if label else ""), *cells))
    return _table([*rows, *more], tasks)


def _of_paper(rows, tasks) -> list[tuple[str, ...]]:
    return [(f"the paper, {label}", *(paper_cell(row.paper.get(task)) for task in tasks)) for label, row in rows]


def _table(rows, tasks) -> str:
    columns = ("run", *(f"{way}-way {shot}-shot" for way, shot in tasks))
    return Table("", "", columns, tuple(rows)).markdown()


def check(run: RunFolder) -> None:
    """Exit unless the run is finished and scored, and its settings are those of the preset of its name."""
    if not run.ended:
        raise SystemExit(f"{run.path} holds no run that went to its end: resume it first")
    config, metrics = read_config(run.config), run.read_metrics()
    known = KNOWN.get(config.name)
    same = known is not None and all(getattr(config, section) == getattr(known, section) for section in SECTIONS)
    if config.name not in NO_PRESET and not same:
        raise SystemExit(
            f"{run.path} is not the run that is known as {config.name!r}: its settings differ from the preset's. If they "
            "should, add the name to NO_PRESET with the reason"
        )
    if not metrics.evaluations:
        raise SystemExit(f"{run.path} has no scores: evaluate it first")
    if config.name in BRIEF and metrics.damage is None and config.data.data != CIFAR_FS:
        raise SystemExit(f"{run.path} was not scored with bad supports: resume it first")


def publish_noise(folder: Path) -> None:
    """Copy the result of the study of bad examples, or join it with the published one, and draw its figures."""
    study, before = read_noise(folder / NOISE), RESULTS / "noise" / NOISE
    if before.exists():
        study = join_studies(read_noise(before), study)
    write_json(RESULTS / "noise" / NOISE, study.model_dump(mode="json"))
    for path in write_noise_figures(study, RESULTS / "noise"):
        if path.suffix != ".svg":
            path.unlink()


def portable(metrics: Metrics) -> Metrics:
    """Return the metrics without the folders of this machine in the command that trained the network."""
    if not metrics.training or not metrics.training.command:
        return metrics
    command = re.sub(r" --[a-z-]+[ =](?:'/[^']*'|/\S*)", "", metrics.training.command)
    return metrics.model_copy(update={"training": metrics.training.model_copy(update={"command": command})})


def draw(number: int, runs: dict[str, Path], folder: Path) -> None:
    """Draw a figure as SVG only; the bitmap would be larger."""
    for path in write_figure(number, runs, folder):
        if path.suffix != ".svg":
            path.unlink()


def draw_all(run: Path, config: RunConfig, folder: Path) -> None:
    draw(LOSS, {"network": run}, folder)
    if RunFolder(run).read_metrics().curve:
        draw(LEARNED, {"network": run}, folder)
    if config.network.covariance != "none":
        draw(PRECISIONS, {"network": run}, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--noise", metavar="FOLDER", type=Path)
    parser.add_argument("--photos", metavar="FILE", type=Path)
    options = parser.parse_args()
    paths = options.runs
    if options.noise:
        publish_noise(options.noise)
    if options.photos:
        write_json(RESULTS / "photos" / PHOTOS, read_photos(options.photos).model_dump(mode="json"))
    for path in paths:
        check(RunFolder(path))
    for path in paths:
        config = read_config(path / "config.json")
        folder = RESULTS / FOLDERS.get(config.name, "") / config.name
        for name in FILES:
            with write_then_rename(folder / name) as temporary:
                shutil.copyfile(path / name, temporary)
        write_json(folder / "metrics.json", portable(RunFolder(path).read_metrics()).model_dump(mode="json"))
        if config.name not in BRIEF:
            draw_all(path, config, folder)
    for number in OF_SEVERAL if paths else ():
        runs = {label: RESULTS / row.config("standard").name for label, row in FIGURES[number].rows.items()}
        if all(run.exists() for run in runs.values()):
            draw(number, runs, RESULTS / "figures")
    for path in write_dimensions_figure(published("standard"), RESULTS / "figures"):
        if path.suffix != ".svg":
            path.unlink()
    for page in PAGES:
        with write_then_rename(page) as temporary:
            temporary.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
