import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest
import torch

from gaussproto.config import DataConfig
from gaussproto.data.images import LabelledImages
from gaussproto.data.strokes import strokes
from gaussproto.presets import preset
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import Evaluation
from gaussproto.training.train import train

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "omniglot"  # a folder beside the checkout


def omniglot_folder() -> Path | None:
    """GAUSSPROTO_DATA, or else a folder beside the checkout, if Omniglot's zips are there."""
    root = Path(os.environ.get("GAUSSPROTO_DATA") or BESIDE)
    return root if (root / "images_background.zip").exists() else None


def pytest_report_header() -> str:
    return f"Omniglot: {omniglot_folder() or 'not found, so tests that need it are skipped (set GAUSSPROTO_DATA)'}"


@pytest.fixture(scope="session")
def omniglot_root() -> Path:
    root = omniglot_folder()
    if root is None:
        pytest.skip("needs Omniglot: set GAUSSPROTO_DATA to the folder with its zips")
    return root


@pytest.fixture(scope="session")
def characters() -> LabelledImages:
    """A few invented alphabets, 20 drawings of each character."""
    return as_strokes(strokes(alphabets=4))


@pytest.fixture(scope="session")
def weights(characters: LabelledImages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights file of a small network whose precision tells damaged drawings from clean ones."""
    episode = {"way": 20, "shot": 3, "max_shot": None, "query": 2, "splits": 2}
    settings = {"filters": "16,16,16", "embedding_dim": 16, **episode}
    config = preset("demo", **settings, episodes=80, learning_rate=0.01, checkpoint_every=80, damage="7:0.2")
    run = train(config, characters, tmp_path_factory.mktemp("run") / "tiny")
    return run.folder / "checkpoints" / "last.safetensors"


@pytest.fixture
def gaussproto(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command in this process, where it does not wait for torch: exit code, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["gaussproto", *map(str, arguments)])
        monkeypatch.setattr("gaussproto.cli.console.show_warnings", lambda: None)
        capsys.readouterr()
        from gaussproto.cli import main

        with mock.patch.dict(os.environ), pytest.raises(SystemExit) as left:
            main()  # it may set variables for its own process, which other tests must not inherit
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def as_strokes(images: LabelledImages) -> LabelledImages:
    """Images that pass for all of the invented ones, so that commands find test classes for a run trained on them."""
    return replace(images, source=DataConfig(data="strokes"))


def add_scores(run: RunFolder, result: Evaluation, which: Literal["last", "top"] = "last") -> None:
    """As `gaussproto evaluate` does."""
    run.write_evaluation("strokes", which, [load_checkpoint(path) for path in run.weights(which)], result)


def uneven(images: LabelledImages, counts: list[int]) -> LabelledImages:
    """The first classes, with so many drawings of each."""
    starts = images.starts[: len(counts)].tolist()
    index = torch.cat([torch.arange(start, start + n) for start, n in zip(starts, counts, strict=True)])
    names = images.classes[: len(counts)], images.alphabets[: len(counts)]
    return LabelledImages(images.images[index], torch.tensor(counts), *names)
