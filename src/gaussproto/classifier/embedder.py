"""What the classifier's `encoder` names -> something that embeds: a network and what its images should be like."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from gaussproto.classifier.head import METADATA, GaussianHead
from gaussproto.config import Distance, Weighting
from gaussproto.data.ink import Ink
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import embed_all
from gaussproto.model.encoder import Encoder
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.checkpoint import load_checkpoint
from gaussproto.training.run_folder import find_weights

IDENTITY = "identity"


@dataclass(frozen=True)
class Embedder:
    """A network and what its images should be like.

    Args:
        network: None where the inputs are embeddings already.
        source: what to ask for to find the same network again; None for one that lives in memory only.
        digest: the same for the same function, wherever its weights are.
        image_size: side in pixels.
        ink: of the images that it is given; as found by name, what `auto` means for this network.
    """

    network: GaussianPrototypicalNetwork | None
    source: str | None
    digest: str
    image_size: int = 28
    ink: Ink = "detect"

    @property
    def takes_vectors(self) -> bool:
        """Whether the inputs are vectors, not images."""
        return self.network is None or isinstance(self.network, GaussianHead)

    @property
    def channels(self) -> int:
        """1 grey, 3 colour."""
        return 1 if self.network is None else self.network.config.channels

    @property
    def smallest_image(self) -> int:
        """The least side in pixels that leaves something after every pooling."""
        encoder = None if self.network is None else self.network.encoder
        return 2 ** len(encoder.blocks) if isinstance(encoder, Encoder) else 1

    @property
    def distance(self) -> Distance:
        """What the network was trained with."""
        return "euclidean" if self.network is None else self.network.config.distance

    @property
    def weighting(self) -> Weighting:
        """Where the precision acts."""
        return "prototype" if self.network is None else self.network.config.weighting

    def embed(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Vectors (N, features) or images (N, channels, H, W), each judged alone -> x (N, D), s (N, E) or None."""
        if self.network is None:
            return inputs.copy(), None  # the caller's own array may change
        if isinstance(self.network, GaussianHead):
            with torch.no_grad():
                x, s = self.network.embed(torch.tensor(inputs, dtype=torch.float32))
        else:
            x, s = embed_all(self.network, torch.from_numpy(inputs))
        return x.cpu().numpy(), None if s is None else s.cpu().numpy()


def find_embedder(encoder: Any) -> Embedder:
    """The embedder of bundled weights, a weights file, a run folder, `identity`, or a network object."""
    if isinstance(encoder, str) and encoder == IDENTITY:
        return Embedder(None, IDENTITY, IDENTITY)
    if isinstance(encoder, GaussianPrototypicalNetwork):
        ink: Ink = "detect" if encoder.config.channels == 1 else "bright"
        return Embedder(encoder, None, weights_digest(encoder), ink=ink)
    if not isinstance(encoder, str | Path):
        kind = type(encoder).__name__
        raise InputError(f"encoder is the name of weights, a path, 'identity' or a network (found a {kind})")
    (path,) = find_weights(str(encoder))
    is_name = not Path(encoder).is_dir() and Path(encoder).suffix != ".safetensors"
    source = str(encoder) if is_name else str(path.resolve())
    head = _read_head(path)
    if head is not None:
        return Embedder(head, source, weights_digest(head))
    checkpoint = load_checkpoint(path)
    network, data = checkpoint.network().eval(), checkpoint.config.data
    return Embedder(network, source, weights_digest(network), data.image_size, data.ink)


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


def weights_digest(network: GaussianPrototypicalNetwork) -> str:
    """SHA-256 of what the network computes: its settings and weights, not the file they are in."""
    digest = hashlib.sha256(network.config.model_dump_json(exclude_defaults=True).encode())
    for name, tensor in sorted(network.state_dict().items()):
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
