"""What a classifier must know of a network beside its weights: what it takes, and how embeddings are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaussproto.config import DataConfig, Distance, NetworkConfig, Weighting
from gaussproto.data.ink import Ink
from gaussproto.evaluation.calibration import Calibration
from gaussproto.weights import digest_of


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a network takes and how its embeddings are compared.

    Args:
        digest: the same for the same function, wherever its weights are.
        channels: 1 grey, 3 colour.
        image_size: side in pixels.
        smallest_image: the least side in pixels that leaves something after every pooling.
        ink: of the images that it is given; as found by name, what `auto` means for this network.
        distance: what the network was trained with.
        weighting: where the precision acts.
        calibration: how sure the network is, if its weights carry it.
    """

    digest: str
    channels: int = 1
    image_size: int = 28
    smallest_image: int = 1
    ink: Ink = "detect"
    distance: Distance = "euclidean"
    weighting: Weighting = "prototype"
    calibration: Calibration | None = None


def card_of(
    config: NetworkConfig, arrays: Mapping[str, Any], data: DataConfig | None, calibration: Calibration | None
) -> Card:
    """The card of a network of images, from its settings and weights, and what is known beside them."""
    blocks = {name.split(".")[2] for name in arrays if name.startswith("encoder.blocks.")}
    return Card(
        digest=digest_of(config, arrays),
        channels=config.channels,
        image_size=DataConfig().image_size if data is None else data.image_size,
        smallest_image=2 ** len(blocks),
        ink=_ink_of(data, config.channels),
        distance=config.distance,
        weighting=config.weighting,
        calibration=calibration,
    )


def _ink_of(data: DataConfig | None, channels: int) -> Ink:
    """What the data says; if that is not known, grey images are taken for drawn characters."""
    if data is None:
        return "detect" if channels == 1 else "bright"
    return data.ink


def arrays_of(network: Any) -> dict[str, np.ndarray]:
    """The weights of a network of torch as arrays."""
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in network.state_dict().items()}
