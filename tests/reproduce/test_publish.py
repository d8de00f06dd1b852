"""What the page on the reproduction says is what `results/` holds."""

import importlib.util
from pathlib import Path

import pytest

from gaussproto.config import read_config
from gaussproto.files import read_json, write_json
from gaussproto.presets import PRESETS
from gaussproto.training.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = sorted(path.parent for path in (ROOT / "results").glob("**/config.json"))


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
    config, metrics = read_config(folder / "config.json"), read_json(folder / "metrics.json")
    assert config.name == folder.name
    if folder.name not in publish().NO_PRESET:
        assert config == (PRESETS | publish().SHORT)[folder.name]
    assert metrics["training"]["episodes"] == config.training.episodes
    assert metrics["evaluation"]
    assert metrics["training"]["command"].startswith("gaussproto ")
    assert metrics["training"]["seed"] == config.training.seed
    assert metrics["training"]["commits"]
    assert all(len(commit.removesuffix("-dirty")) == 40 for commit in metrics["training"]["commits"])


def test_what_is_not_ready_is_not_published(tmp_path):
    def must_stop(words):
        with pytest.raises(SystemExit, match=words):
            publish().check(RunFolder(tmp_path))

    must_stop("no run that went to its end")
    write_json(tmp_path / "config.json", PRESETS["fast-small-none"].model_dump(mode="json"))
    must_stop("no run that went to its end")
    write_json(tmp_path / "metrics.json", {"training": {"episodes": PRESETS["fast-small-none"].training.episodes}})
    must_stop("no scores")
    shorter = PRESETS["fast-small-none"].override(way=9)
    write_json(tmp_path / "config.json", shorter.model_dump(mode="json"))
    must_stop("not the run that is known as 'fast-small-none'")
    config = publish().SHORT["small-none-seed-0"]
    write_json(tmp_path / "config.json", config.model_dump(mode="json"))
    metrics = {"training": {"episodes": config.training.episodes}, "evaluation": {"omniglot running last": {}}}
    write_json(tmp_path / "metrics.json", metrics)
    must_stop("not scored with bad supports")
