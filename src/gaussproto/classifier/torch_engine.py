"""Networks as torch computes them: any network object, a weights file, a head on vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from gaussproto.classifier.head import METADATA, GaussianHead
from gaussproto.config import DataConfig
from gaussproto.errors import InputError
from gaussproto.evaluation.calibration import Calibration, read_calibration
from gaussproto.evaluation.protocol import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.checkpoint import load_checkpoint
from gaussproto.weights import weights_file


class TorchEncoder:
    """Embeds with a network."""

    def __init__(self, network: GaussianPrototypicalNetwork) -> None:
        self.network = network

    def __call__(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Vectors (N, features) or images (N, channels, H, W), each judged alone -> x (N, D), s (N, E) or None."""
        if isinstance(self.network, GaussianHead):
            with torch.no_grad():
                x, s = self.network.embed(torch.tensor(inputs, dtype=torch.float32))
        else:
            x, s = embed_all(self.network, torch.from_numpy(inputs))
        return x.cpu().numpy(), None if s is None else s.cpu().numpy()


def open_network(encoder: Any) -> tuple[GaussianPrototypicalNetwork, DataConfig | None, Calibration | None]:
    """The network that is given or named, and what is known of it: what it was trained on, how sure it is."""
    if isinstance(encoder, GaussianPrototypicalNetwork):
        return encoder, None, None
    if not isinstance(encoder, str | Path):
        kind = type(encoder).__name__
        raise InputError(f"encoder is the name of weights, a path, 'identity' or a network (found a {kind})")
    path = weights_file(str(encoder))
    head = _read_head(path)
    if head is not None:
        return head, None, None
    checkpoint = load_checkpoint(path)
    return checkpoint.network().eval(), checkpoint.config.data, read_calibration(path)


def _read_head(path: Path) -> GaussianHead | None:
    try:
        with safe_open(path, framework="pt") as file:
            settings = (file.metadata() or {}).get(METADATA)
            if settings is None:
                return None
            head = GaussianHead(**json.loads(settings))
            head.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (not a mapping)
            return head.eval()
    except (SafetensorError, OSError):
        return None  # `load_checkpoint` says what is wrong
    except (TypeError, RuntimeError) as error:
        raise InputError(f"the head in {path} does not fit its own settings ({error}): train it again") from error
