"""The properties of an encoder that a classifier needs: its inputs, and how to compare its embeddings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gaussproto.config import DataConfig, NetworkConfig
from gaussproto.data.look import Look
from gaussproto.formulas.confidence import Calibration
from gaussproto.formulas.embedded import Embedded
from gaussproto.runs.weights import digest_of
from gaussproto.setting_types import LARGEST_IMAGE, LARGEST_WIDTH, Ink, Prepare, Weighting

PHOTOS = ("photo", "photo-plain")  # encoders of photos: with the head, and without it, the mean of features


@dataclass(frozen=True, kw_only=True)
class Card:
    """The inputs of an encoder, and how to compare its embeddings."""

    digest: str  # of the settings and weights, wherever they are stored
    channels: Annotated[int, Field(ge=1, le=LARGEST_WIDTH)] = 1  # 1 grey, 3 colour
    image_size: Annotated[int, Field(ge=1, le=LARGEST_IMAGE)] = 28  # side in pixels
    smallest_image: Annotated[int, Field(ge=1, le=LARGEST_IMAGE)] = 1  # side in pixels that every block can halve
    ink: Ink = "detect"  # of the images that users pass
    prepare: Prepare = "none"  # ink: drawings are prepared as in training
    distance: str = "euclidean"  # that the network was trained with
    weighting: Weighting = "prototype"  # where the precision acts
    calibration: Calibration | None = None  # None if the weights are not calibrated


@dataclass(frozen=True, kw_only=True)
class Encoder(Card):
    """A card and the function that embeds."""

    embed: Callable[[np.ndarray], Embedded[np.ndarray]]  # of vectors (N, features) or images (N, channels, H, W)
    source: str | None  # name or path that opens the encoder again; None for a network in memory
    takes_vectors: bool = False
    features: int | None = None  # size of a vector; None if any size will do
    views: int = 1  # of each image, whose embeddings are averaged

    @property
    def look(self) -> Look:
        return Look(self.image_size, self.channels, self.ink, self.prepare)


def card_of(
    config: NetworkConfig, arrays: Mapping[str, Any], data: DataConfig | None, calibration: Calibration | None
) -> Card:
    """Return the card of a network of images, from its settings and weights. `data` and `calibration` are optional."""
    poolings = len({name.split(".")[2] for name in arrays if name.startswith("encoder.blocks.")})
    drawn: Ink = "detect" if config.channels == 1 else "bright"  # without data, grey images may be drawn characters
    return Card(
        digest=digest_of(config, arrays),
        channels=config.channels,
        image_size=(data or DataConfig()).image_size,
        smallest_image=2**poolings,
        ink=data.ink_of_new_images if data else drawn,
        prepare=data.prepare if data else "none",
        distance=config.distance,
        weighting=config.weighting,
        calibration=calibration,
    )
