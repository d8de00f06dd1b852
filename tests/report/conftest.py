"""Runs made by real trainings, small enough to make in a second or two."""

import json
from pathlib import Path

import pytest

from gaussproto.config import RunConfig, Stage, TrainingConfig
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import CurvePoint, Evaluation, Score
from gaussproto.setting_types import Norm
from gaussproto.training.train import train

TINY = {"filters": "6,6,6", "embedding_dim": 6, "way": 8, "query": 2, "checkpoint_every": 20}


def tiny(name: str, **settings) -> RunConfig:
    return RunConfig(name=name).override(**(TINY | {"episodes": 40} | settings))


@pytest.fixture(scope="session")
def runs(tmp_path_factory, characters) -> dict[str, RunFolder]:
    """One run of each covariance; `radius` has a damaged stage, halvings and scores along its training."""
    place = tmp_path_factory.mktemp("runs")
    made = {}
    for covariance in ("none", "radius", "diagonal", "full"):
        config = tiny(covariance, covariance=covariance, precision_relu=False, transform="exp")
        if covariance == "radius":
            stages = (Stage(episodes=30), Stage(episodes=30, damage=((14, 0.2),)))
            training = TrainingConfig(stages=stages, schedule="halving", halve_every=20, checkpoint_every=20)
            config = config.model_copy(update={"training": training})
        train(config, characters, place / covariance)
        made[covariance] = RunFolder(place / covariance)
    scores = tuple(Score(way=20, shot=shot, accuracy=0.4 + shot / 100, interval=0.01) for shot in (1, 5))
    made["radius"].write_metrics(curve=tuple(CurvePoint(episode=episode, scores=scores) for episode in (20, 40, 60)))
    return made


def evaluation(norm: Norm = "running", classes: int = 30, offset: float = 0.0) -> Evaluation:
    """Scores as `evaluate` might give them."""
    scores = [
        Score(way=way, shot=shot, accuracy=0.6171 + shot / 100 - way / 999 + offset, interval=0.0123)
        for way in (5, 20)
        for shot in range(1, 6)
    ]
    return Evaluation(norm=norm, classes=classes, rounds=10, seed=0, checkpoints=1, scores=tuple(scores))


def read(path: Path):
    return json.loads(path.read_text())
