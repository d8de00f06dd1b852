"""The result of training, and how training can fail."""

import signal
from dataclasses import dataclass
from pathlib import Path

from gaussproto.config import RunConfig
from gaussproto.errors import InputError
from gaussproto.model.network import GaussianPrototypicalNetwork


class TrainingDiverged(InputError):  # noqa: N818 (it reads as a sentence)
    """Raised when the loss or the weights are no longer finite numbers.

    The learning rate is usually too high. The last checkpoint of the run, if one was saved, is good.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", rotations=False, filters=(4, 4, 4), way=5, episodes=10, learning_rate=1e30)
        >>> with TemporaryDirectory() as folder:
        ...     try:
        ...         run = gp.train(config, out=f"{folder}/first")
        ...     except gp.TrainingDiverged:
        ...         run = gp.train(config.override(learning_rate=1e-3), out=f"{folder}/second")
        >>> run.folder.name
        'second'
    """


class DeadPrecisionWarning(UserWarning):
    """Warns that all images get the same precision, so that the network works as a vanilla one.

    Training warns once. To avoid it, set `precision_relu=False`, `transform="exp"` and `weighting="prototype"`.

    Examples:
        >>> import gaussproto as gp
        >>> import warnings
        >>> warnings.simplefilter("error", gp.DeadPrecisionWarning)  # stop training instead of warning
    """


@dataclass(frozen=True)
class RunResult:
    """The result of `train`.

    Attributes:
        folder: the run folder, with the settings, the log and the checkpoints.
        config: the settings as they were used, for example with episodes reduced to the data.
        network: the trained network, in evaluation mode.
        episodes: the number of episodes trained.
        seconds: the time of training, over all parts of a resumed run.
        stopped_by: the signal that stopped the run early, or None if it is complete.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", rotations=False, filters=(4, 4, 4), way=5, episodes=10)
        >>> with TemporaryDirectory() as folder:
        ...     run = gp.train(config, out=folder)
        >>> run.episodes, run.stopped_by is None, run.network.training
        (10, True, False)
    """

    folder: Path
    config: RunConfig
    network: GaussianPrototypicalNetwork
    episodes: int
    seconds: float
    stopped_by: signal.Signals | None
