"""Encoders computed by torch: a network object, a weights file or a head on vectors."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gaussproto.classifier.encoders.card import PHOTOS, Encoder, card_of
from gaussproto.config import DataConfig
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import Calibration
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.device import check_device
from gaussproto.model.embed import embed_batches
from gaussproto.model.head import GaussianHead, head_of
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.checkpoint import checkpoint_of
from gaussproto.runs.weights import reading_weights, weights_file


class TorchEncoder:
    """Embeds images or vectors with a network in evaluation mode."""

    def __init__(self, network: GaussianPrototypicalNetwork) -> None:
        self.network = network

    def __call__(self, inputs: np.ndarray) -> Embedded[np.ndarray]:
        if isinstance(self.network, GaussianHead):
            with torch.no_grad():
                device = next(self.network.parameters()).device
                embedded = self.network.embed(torch.tensor(inputs, dtype=torch.float32, device=device))
        else:
            with torch.no_grad():
                embedded = embed_batches(self.network, torch.from_numpy(inputs))
        return embedded.map(lambda t: t.cpu().numpy())


def torch_encoder(encoder: Any, source: str | None, device: str = "cpu") -> Encoder:
    check_device(device)
    network, data, calibration = open_network(encoder)
    return Encoder(
        **vars(card_of(network.config, arrays_of(network), data, calibration)),
        embed=TorchEncoder(network.to(device)),
        source=source,
        takes_vectors=isinstance(network, GaussianHead),
        features=getattr(network, "features", None),
    )


def open_network(encoder: Any) -> tuple[GaussianPrototypicalNetwork, DataConfig | None, Calibration | None]:
    """Return the network in evaluation mode, and its data and calibration if they are known.

    A network object is copied, so that later changes to it do not affect the classifier.
    """
    if isinstance(encoder, GaussianPrototypicalNetwork):
        for part in ("prototypes", "distances"):
            if getattr(type(encoder), part) is not getattr(GaussianPrototypicalNetwork, part):
                raise InputError(
                    f"{type(encoder).__name__} overrides the method `{part}`, which a classifier cannot use: write a "
                    "subclass of gaussproto.Distance instead and set it as the network's distance"
                )
        return copy.deepcopy(encoder).eval(), None, None
    if not isinstance(encoder, str | Path):
        kind = type(encoder).__name__
        raise InputError(f"encoder must be the name of weights, a path, 'identity' or a network (found {kind})")
    with reading_weights(weights_file(str(encoder), PHOTOS), "pt") as file:
        if head := head_of(file.path, file.metadata, file.tensors):
            return head, None, None
        return checkpoint_of(file).network().eval(), file.run.data, file.calibration


def arrays_of(network: GaussianPrototypicalNetwork) -> dict[str, np.ndarray]:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in network.state_dict().items()}
