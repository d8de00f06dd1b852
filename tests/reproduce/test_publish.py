"""What the page on the reproduction says is what `results/` holds."""

import importlib.util
from pathlib import Path

import pytest

from gaussproto.config import read_config
from gaussproto.files import read_json
from gaussproto.presets import PRESETS

ROOT = Path(__file__).resolve().parents[2]
SHORTENED = ("paper-small-radius",)  # as the page says
PUBLISHED = sorted(path.parent for path in (ROOT / "results").glob("*/config.json"))


def publish():
    spec = importlib.util.spec_from_file_location("publish", ROOT / "scripts" / "publish.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_page_are_those_of_the_results():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    assert publish().filled(page) == page


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_run_names_itself_and_its_scores(folder):
    config, metrics = read_config(folder / "config.json"), read_json(folder / "metrics.json")
    assert config.name == folder.name
    if folder.name not in SHORTENED:
        assert config == PRESETS[folder.name]
    assert metrics["training"]["episodes"] == config.training.episodes
    assert metrics["evaluation"]
    assert metrics["training"]["command"].startswith("gaussproto ")
    assert metrics["training"]["seed"] == config.training.seed
    assert metrics["training"]["commits"]
    assert all(len(commit.removesuffix("-dirty")) == 40 for commit in metrics["training"]["commits"])
