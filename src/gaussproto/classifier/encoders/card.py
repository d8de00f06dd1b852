"""What a classifier must know of an encoder beside its weights: what it takes, and how embeddings are compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaussproto.config import DataConfig, NetworkConfig
from gaussproto.formulas.confidence import Calibration
from gaussproto.formulas.embedded import Embedded
from gaussproto.runs.weights import digest_of
from gaussproto.setting_types import Ink, Weighting


@dataclass(frozen=True, kw_only=True)
class Card:
    """What an encoder takes and how its embeddings are compared."""

    digest: str  # the same for the same function, wherever its weights are
    channels: int = 1  # 1 grey, 3 colour
    image_size: int = 28  # side in pixels
    smallest_image: int = 1  # the least side in pixels that leaves something after every pooling
    ink: Ink = "detect"  # of the images that it is given
    distance: str = "euclidean"  # what the network was trained with
    weighting: Weighting = "prototype"  # where the precision acts
    calibration: Calibration | None = None  # how confident the network is, if its weights carry it


@dataclass(frozen=True, kw_only=True)
class Encoder(Card):
    """A card, and the function that embeds."""

    embed: Callable[[np.ndarray], Embedded[np.ndarray]]  # vectors (N, features) or images (N, channels, H, W)
    source: str | None  # what names the same encoder again; None for a network that lives in memory only
    takes_vectors: bool = False
    features: int | None = None  # the numbers in a vector, if they are settled


def card_of(
    config: NetworkConfig, arrays: Mapping[str, Any], data: DataConfig | None, calibration: Calibration | None
) -> Card:
    """The card of a network of images, from its settings and weights, and what is known beside them."""
    poolings = len({name.split(".")[2] for name in arrays if name.startswith("encoder.blocks.")})
    drawn: Ink = "detect" if config.channels == 1 else "bright"  # unknown grey images are taken for drawn characters
    return Card(
        digest=digest_of(config, arrays),
        channels=config.channels,
        image_size=(data or DataConfig()).image_size,
        smallest_image=2**poolings,
        ink=data.ink_of_new_images if data else drawn,
        distance=config.distance,
        weighting=config.weighting,
        calibration=calibration,
    )
