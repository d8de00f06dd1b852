"""The ONNX file of an encoder: its graph and its card, from the weights as they are on disk. Without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from safetensors import safe_open

from gaussproto.classifier.card import Card, arrays_of, card_of
from gaussproto.config import DataConfig, NetworkConfig
from gaussproto.errors import InputError
from gaussproto.evaluation.calibration import Calibration, read_calibration
from gaussproto.model.onnx_graph import encoder_graph, import_extra
from gaussproto.weights import read_metadata, weights_file

CARD = "gaussproto"  # the key of the card in the file's metadata
ABOUT = (
    "Images (N, channels, H, W), uint8, ink or object bright, of {0.image_size} x {0.image_size} pixels as in training "
    "or of another size from {0.smallest_image} on -> embeddings and, if the network has them, precisions."
)


def onnx_content(encoder: Any) -> bytes:
    """The content of the ONNX file of bundled weights, a weights file, a run folder or a network object."""
    config, arrays, data, calibration = _weights_of(encoder)
    card = card_of(config, arrays, data, calibration)
    onnx = import_extra("onnx")
    try:
        model = encoder_graph(config, arrays)
        onnx.checker.check_model(model, full_check=True)
    except (KeyError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InputError(f"the weights of {name_of(encoder)} do not fit their own configuration ({error})") from error
    _describe(model, card, str(encoder) if isinstance(encoder, str | Path) else None)
    content: bytes = model.SerializeToString()
    return content


def name_of(encoder: Any) -> str:
    """What messages call it."""
    return str(encoder) if isinstance(encoder, str | Path) else "the network"


def _weights_of(
    encoder: Any,
) -> tuple[NetworkConfig, dict[str, np.ndarray], DataConfig | None, Calibration | None]:
    """The settings of a network, its weights, and what is known of it: what it was trained on, how sure it is."""
    if not isinstance(encoder, str | Path):
        from gaussproto.classifier.torch_engine import open_network

        network, data, calibration = open_network(encoder)
        return network.config, arrays_of(network), data, calibration
    path = weights_file(str(encoder))
    run, position = read_metadata(path)
    with safe_open(path, framework="numpy") as file:  # the network's own, not those that only a resumed run needs
        names = [name for name in file.keys() if name.startswith(("encoder.", "precision."))]  # noqa: SIM118
        arrays = {name: file.get_tensor(name) for name in names}
    arrays = {  # bundled weights have half precision
        name: array.astype(np.float32) if array.dtype.kind == "f" else array for name, array in arrays.items()
    }
    config = run.network.model_copy(update={"transform": position["transform"]})  # it changes during some runs
    return config, arrays, run.data, read_calibration(path)


def _describe(model: Any, card: Card, source: str | None) -> None:
    from gaussproto import __version__

    model.producer_name, model.producer_version = "gaussproto", __version__
    model.doc_string = ABOUT.format(card)
    described = TypeAdapter(Card).dump_python(card, mode="json") | {"source": source}
    model.metadata_props.add(key=CARD, value=json.dumps(described))
