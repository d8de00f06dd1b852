"""Few-shot image classification with Gaussian prototypical networks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier as GaussianPrototypeClassifier
    from gaussproto.classifier.gallery import load as load
    from gaussproto.classifier.head import GaussianHead as GaussianHead
    from gaussproto.classifier.head import train_head as train_head
    from gaussproto.config import DataConfig as DataConfig
    from gaussproto.config import EpisodeConfig as EpisodeConfig
    from gaussproto.config import NetworkConfig as NetworkConfig
    from gaussproto.config import RunConfig as RunConfig
    from gaussproto.config import Stage as Stage
    from gaussproto.config import TrainingConfig as TrainingConfig
    from gaussproto.data.damage import damage as damage
    from gaussproto.data.images import LabelledImages as LabelledImages
    from gaussproto.data.load import load_data as load_data
    from gaussproto.errors import InputError as InputError
    from gaussproto.evaluation.protocol import embed_all as embed_all
    from gaussproto.evaluation.protocol import evaluate as evaluate
    from gaussproto.evaluation.robustness import damage_study as damage_study
    from gaussproto.export import export_onnx as export_onnx
    from gaussproto.model.distance import distances as distances
    from gaussproto.model.network import GaussianPrototypicalNetwork as GaussianPrototypicalNetwork
    from gaussproto.model.prototype import class_prototypes as class_prototypes
    from gaussproto.presets import preset as preset
    from gaussproto.report.figures import write_figure as write_figure
    from gaussproto.report.page import write_report as write_report
    from gaussproto.training.episode import sample_episode as sample_episode
    from gaussproto.training.run_folder import load_network as load_network
    from gaussproto.training.train import DeadPrecisionWarning as DeadPrecisionWarning
    from gaussproto.training.train import RunResult as RunResult
    from gaussproto.training.train import TrainingDiverged as TrainingDiverged
    from gaussproto.training.train import train as train

# Each name is imported when it is first used, so that `import gaussproto` does not wait for torch.
_HOME = {
    "GaussianPrototypeClassifier": "classifier.estimator",
    "load": "classifier.gallery",
    "DataConfig": "config",
    "EpisodeConfig": "config",
    "NetworkConfig": "config",
    "RunConfig": "config",
    "Stage": "config",
    "TrainingConfig": "config",
    "damage": "data.damage",
    "LabelledImages": "data.images",
    "load_data": "data.load",
    "InputError": "errors",
    "embed_all": "evaluation.protocol",
    "evaluate": "evaluation.protocol",
    "damage_study": "evaluation.robustness",
    "export_onnx": "export",
    "GaussianHead": "classifier.head",
    "train_head": "classifier.head",
    "distances": "model.distance",
    "GaussianPrototypicalNetwork": "model.network",
    "class_prototypes": "model.prototype",
    "preset": "presets",
    "write_figure": "report.figures",
    "write_report": "report.page",
    "sample_episode": "training.episode",
    "load_network": "training.run_folder",
    "DeadPrecisionWarning": "training.train",
    "RunResult": "training.train",
    "TrainingDiverged": "training.train",
    "train": "training.train",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("gaussproto")
    if name not in _HOME:
        raise AttributeError(f"module 'gaussproto' has no attribute {name!r}")
    return getattr(import_module(f"gaussproto.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])
