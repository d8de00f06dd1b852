"""What the page on the reproduction says is what `results/` holds."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from gaussproto.config import read_config
from gaussproto.files import read_json, write_json
from gaussproto.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PUBLISHED = sorted(path.parent for path in RESULTS.glob("**/config.json"))


def publish():
    spec = importlib.util.spec_from_file_location("publish", ROOT / "scripts" / "publish.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", publish().PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tables_of_the_pages_are_those_of_the_results(page):
    text = page.read_text()
    assert "<!-- end -->" in text
    assert publish().filled(text) == text


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_run_names_itself_and_its_scores(folder):
    config, metrics = read_config(folder / "config.json"), RunFolder(folder).read_metrics()
    assert config.name == folder.name
    if folder.name not in publish().NO_PRESET:
        assert config == publish().KNOWN[folder.name]
    assert metrics.training.episodes == config.training.episodes
    assert metrics.evaluations
    assert metrics.training.command.startswith("gaussproto ")
    assert not re.search(r"[ ='\"]/", metrics.training.command)  # no folder of the machine that trained it
    assert metrics.training.seed == config.training.seed
    assert metrics.training.commits
    assert all(len(commit.removesuffix("-dirty")) == 40 for commit in metrics.training.commits)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_published_files_are_written_as_a_run_writes_them(folder):
    run = RunFolder(folder)
    assert read_json(run.config) == read_config(run.config).model_dump(mode="json")
    assert read_json(run.metrics) == run.read_metrics().model_dump(mode="json")
    records = run.read_log()
    if run.log_file.exists():
        assert len(records) == len(run.log_file.read_text().splitlines())
        assert records[-1].episode == run.read_metrics().training.episodes


def test_what_is_not_ready_is_not_published(tmp_path):
    def must_stop(words):
        with pytest.raises(SystemExit, match=words):
            publish().check(RunFolder(tmp_path))

    must_stop("no run that went to its end")
    write_json(tmp_path / "config.json", publish().KNOWN["fast-small-none"].model_dump(mode="json"))
    must_stop("no run that went to its end")
    whole = RunFolder(RESULTS / "fast-small-none").read_metrics()
    write_json(tmp_path / "metrics.json", whole.model_copy(update={"evaluations": ()}).model_dump(mode="json"))
    must_stop("no scores")
    shorter = publish().KNOWN["fast-small-none"].override(way=9)
    write_json(tmp_path / "config.json", shorter.model_dump(mode="json"))
    must_stop("not the run that is known as 'fast-small-none'")
    name = "small-none-seed-0"
    write_json(tmp_path / "config.json", publish().KNOWN[name].model_dump(mode="json"))
    undamaged = RunFolder(RESULTS / "seeds" / name).read_metrics().model_copy(update={"damage": None})
    write_json(tmp_path / "metrics.json", undamaged.model_dump(mode="json"))
    must_stop("not scored with bad supports")


@pytest.mark.parametrize(
    ("typed", "published"),
    [
        ("gaussproto train demo", "gaussproto train demo"),
        ("gaussproto train demo --data-root /data/a --out runs/x", "gaussproto train demo --out runs/x"),
        ("gaussproto train demo --out=/tmp/x --way 5", "gaussproto train demo --way 5"),
        ("gaussproto train demo --data-root '/my data/a' --init runs/y", "gaussproto train demo --init runs/y"),
    ],
)
def test_a_published_command_names_no_folder_of_the_machine(typed, published):
    whole = RunFolder(RESULTS / "fast-small-none").read_metrics()
    trained = whole.model_copy(update={"training": whole.training.model_copy(update={"command": typed})})
    assert publish().portable(trained) == whole.model_copy(
        update={"training": whole.training.model_copy(update={"command": published})}
    )


def test_embedding_sizes_are_shown_once_they_are_published(tmp_path):
    """The figure, every accuracy, and the networks with as many parameters, on the page on the reproduction."""
    results = tmp_path / "results"
    shutil.copytree(RESULTS, results, ignore=shutil.ignore_patterns("*.svg", "log.jsonl", "dimensions"))
    page = (ROOT / "docs/reproduction.md").read_text()
    scored = RunFolder(RESULTS / "seeds" / "small-none-seed-0").read_metrics()
    for name in ("small-none-64", "small-diagonal-32"):
        folder = results / "dimensions" / name
        write_json(folder / "config.json", publish().KNOWN[name].model_dump(mode="json"))
        write_json(folder / "metrics.json", scored.model_dump(mode="json"))
    (results / "figures").mkdir(exist_ok=True)
    (results / "figures" / publish().DIMENSIONS).touch()
    shown = publish().filled(page, results).partition("<!-- standard dimensions -->")[2].partition("<!-- end -->")[0]
    assert "(../results/figures/dimensions.svg)" in shown
    assert "| `small-diagonal-32` | small | diagonal | 32 |" in shown
    assert "**The same number of parameters**" in shown
    assert "Not run yet: `small-none-32`" in shown
