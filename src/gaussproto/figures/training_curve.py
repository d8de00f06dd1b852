"""How a training went, as arrays; without matplotlib, so that reading a run does not import it."""

from typing import NamedTuple

import numpy as np


class TrainingCurve(NamedTuple):
    """The log of a training, one entry for each line."""

    episodes: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    precision_mean: np.ndarray  # nan for a vanilla network
    precision_std: np.ndarray
    damaged: np.ndarray  # whether the images of its stage were partly damaged
    halvings: tuple[int, ...]  # episodes after which the learning rate was halved
    way: int  # classes of a training episode
