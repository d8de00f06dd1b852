"""The summary of a training in `metrics.json`, and which earlier results still belong to its weights."""

from typing import Literal

from gaussproto.config import TrainingConfig
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.metrics import Kept, Metrics, RunEvaluation, TrainingSummary
from gaussproto.runs.weights import Position


def summary_of(
    network: GaussianPrototypicalNetwork, position: Position, training: TrainingConfig, loss: float, accuracy: float
) -> TrainingSummary:
    return TrainingSummary(
        episodes=position.episode,
        seconds=round(position.seconds, 1),
        loss=loss,
        accuracy=accuracy,
        kept=tuple(Kept(episode=episode, accuracy=accuracy) for accuracy, episode in position.kept),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        seed=training.seed,
        init=training.init,
        command=position.command,
        commits=tuple(position.commits),
        lengthened=tuple(position.lengthened),
        threads=tuple(position.threads),
        ranks=tuple(position.ranks),
    )


def still_true(metrics: Metrics, position: Position, calibrated: bool) -> Metrics:
    """Return the results that were measured on the weights at this position. `calibrated`: whether these are."""
    if metrics.training is not None and metrics.training.episodes == position.episode:
        return metrics
    return Metrics(
        curve=metrics.curve,
        evaluations=tuple(each for each in metrics.evaluations if not is_outdated(each, position)),
        calibration=metrics.calibration if calibrated else None,
    )


def is_outdated(evaluation: RunEvaluation, position: Position) -> bool:
    """Return whether the run was trained further since the evaluation."""
    return evaluation.episodes != scored_episodes(evaluation.checkpoint, position)


def scored_episodes(which: Literal["last", "top"], position: Position) -> tuple[int, ...]:
    """Return the episodes of the checkpoints that an evaluation would score now."""
    kept = tuple(episode for _, episode in position.kept) if which == "top" else ()
    return kept or (position.episode,)
