"""What the classifier's `encoder` names -> something that embeds. Torch is imported only for what it computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gaussproto.classifier.card import Card, arrays_of, card_of
from gaussproto.errors import InputError
from gaussproto.weights import weights_file

IDENTITY = "identity"
Engine = Literal["torch", "onnx"]


@dataclass(frozen=True, kw_only=True)
class Embedder(Card):
    """A network, whatever computes it, and what its inputs should be like.

    Args:
        embed: vectors (N, features) or images (N, channels, H, W), each judged alone -> x (N, D), s (N, E) or None.
        source: what to ask for to find the same network again; None for one that lives in memory only.
        takes_vectors: whether the inputs are vectors, not images.
        features: the numbers in a vector, if they are settled.
    """

    embed: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]
    source: str | None
    takes_vectors: bool = False
    features: int | None = None


def find_embedder(encoder: Any, engine: Engine | None = None) -> Embedder:
    """The embedder of bundled weights, a weights file, a run folder, an ONNX file, `identity`, or a network object.

    If no engine is named, onnxruntime computes ONNX files and torch all else.
    """
    if engine is not None and engine not in get_args(Engine):
        raise InputError(f"engine must be one of {', '.join(get_args(Engine))} (found {engine!r})")
    if isinstance(encoder, str) and encoder == IDENTITY:
        return Embedder(embed=_copy, source=IDENTITY, digest=IDENTITY, takes_vectors=True)
    is_file = isinstance(encoder, str | Path) and Path(encoder).suffix == ".onnx"
    if is_file and engine == "torch":
        raise InputError(f"{encoder} is an ONNX file, which torch does not compute: name its weights, or engine onnx")
    return _onnx_embedder(encoder, is_file) if is_file or engine == "onnx" else _torch_embedder(encoder)


def takes_vectors(encoder: Any) -> bool:
    """Whether an encoder takes vectors, as far as can be said without opening a file."""
    if isinstance(encoder, str | Path):
        return encoder == IDENTITY
    from gaussproto.classifier.head import GaussianHead

    return isinstance(encoder, GaussianHead)


def _copy(vectors: np.ndarray) -> tuple[np.ndarray, None]:
    return vectors.copy(), None  # the caller's own array may change


def _onnx_embedder(encoder: Any, is_file: bool) -> Embedder:
    from gaussproto.classifier.onnx_engine import OnnxEncoder, read_onnx
    from gaussproto.classifier.onnx_file import name_of, onnx_content

    embed = OnnxEncoder(read_onnx(Path(encoder)) if is_file else onnx_content(encoder), name_of(encoder))
    source = str(Path(encoder).resolve()) if is_file else _source(encoder)
    return Embedder(**vars(embed.card()), embed=embed, source=source)


def _torch_embedder(encoder: Any) -> Embedder:
    from gaussproto.classifier.torch_engine import TorchEncoder, open_network

    network, data, calibration = open_network(encoder)
    return Embedder(
        **vars(card_of(network.config, arrays_of(network), data, calibration)),
        embed=TorchEncoder(network),
        source=_source(encoder),
        takes_vectors=takes_vectors(network),
        features=getattr(network, "features", None),
    )


def _source(encoder: Any) -> str | None:
    """The name of bundled weights, or where the weights are."""
    if not isinstance(encoder, str | Path):
        return None
    is_name = not Path(encoder).is_dir() and Path(encoder).suffix != ".safetensors"
    return str(encoder) if is_name else str(weights_file(str(encoder)).resolve())
