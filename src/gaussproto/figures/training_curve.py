"""The log of a training as arrays. Without matplotlib, so that reading a run does not import it."""

from typing import NamedTuple

import numpy as np


class TrainingCurve(NamedTuple):
    """The log of a training, with one entry for each line of the log."""

    episodes: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    precision_mean: np.ndarray  # nan for a vanilla network
    precision_std: np.ndarray
    damaged: np.ndarray  # whether some images of the stage were damaged
    halvings: tuple[int, ...]  # episodes after which the learning rate was halved
    way: int  # classes of an episode
