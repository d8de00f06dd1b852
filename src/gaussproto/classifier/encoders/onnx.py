"""Encoders computed by onnxruntime, and the content of their ONNX files. Without torch."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from gaussproto.arrays import NO_CHECKSUM
from gaussproto.classifier.encoders.card import PHOTOS, Card, Encoder, card_of
from gaussproto.classifier.encoders.onnx_check import check_intact, check_safe, with_checksum
from gaussproto.classifier.encoders.onnx_graph import encoder_graph
from gaussproto.classifier.encoders.photo import is_photo, photo_graph
from gaussproto.config import DataConfig, NetworkConfig
from gaussproto.errors import InputError, import_extra
from gaussproto.files import read_file
from gaussproto.formulas.confidence import Calibration
from gaussproto.formulas.embedded import Embedded
from gaussproto.provenance import version
from gaussproto.runs.weights import open_weights, single_precision, weights_file
from gaussproto.setting_types import first_problem

BATCH, BATCH_PIXELS = 256, 2_000_000  # embedded at once
LARGEST = 1 << 30  # bytes of a file
SILENT = 4  # the highest severity of onnxruntime's messages
CARD = "gaussproto"  # the key of the card in the file's metadata
ABOUT = (
    "Input: images (N, channels, H, W), uint8, with bright ink or a bright object, of {0.image_size} x {0.image_size} "
    "pixels as in training, or of another size of at least {0.smallest_image}. Output: embeddings and, if the network "
    "predicts them, precisions."
)


def open_session(content: bytes, name: str) -> Any:
    """Return the session of onnxruntime that runs the content of an ONNX file."""
    onnxruntime = import_extra("onnxruntime", "onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = SILENT  # errors are raised
    try:
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=False
        )  # the fallback prints, and tries the same again
    except Exception as error:  # onnxruntime's errors have no common base class
        raise InputError(f"{name} is not a readable ONNX file ({_line(error)}): export it again") from error


def run_session(session: Any, input_name: str, images: np.ndarray, name: str) -> list[np.ndarray]:
    """Return the outputs of a session for images, computed in batches."""
    batch = max(1, min(BATCH, BATCH_PIXELS // max(1, math.prod(images.shape[-2:]))))
    try:
        batches = [session.run(None, {input_name: images[i : i + batch]}) for i in range(0, len(images), batch)]
        return [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    except Exception as error:
        raise InputError(f"{name} cannot embed these images ({_line(error)}): export it again") from error


class OnnxEncoder:
    """Embeds images with the content of an ONNX file. Error messages call it `name`."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content, self.name = content, name
        self.session = open_session(content, name)

    def __call__(self, images: np.ndarray) -> Embedded[np.ndarray]:
        outputs = run_session(self.session, "images", images, self.name)
        x, s = outputs[0], outputs[1] if len(outputs) > 1 else None
        D = x.shape[-1] if x.ndim == 2 else 0
        sizes = [(len(images), *size) for size in ((1,), (D,), (D, D))]
        if len(outputs) > 2 or x.shape != (len(images), D) or (s is not None and s.shape not in sizes):
            shapes = ", ".join(str(output.shape) for output in outputs)
            raise InputError(f"{self.name} must compute embeddings and precisions (found the shapes {shapes})")
        return Embedded(x, s)

    def __reduce__(self) -> tuple[Any, ...]:
        return OnnxEncoder, (self.content, self.name)  # a session cannot be pickled

    def card(self) -> Card | None:
        """Return the card in the file, or None if gaussproto did not export it."""
        try:
            text = self.session.get_modelmeta().custom_metadata_map.get(CARD)
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name} has a damaged description ({error.reason}): export it again") from None
        if text is None:
            return None
        try:
            return TypeAdapter(Card).validate_json(text)
        except ValidationError as error:
            raise InputError(
                f"{self.name} has a damaged description ({first_problem(error)}): export it again"
            ) from None


def onnx_encoder(
    encoder: Any, source: str | None, image_size: int | None = None, mean: Any = None, std: Any = None
) -> Encoder:
    """Open an ONNX file, or weights converted to ONNX in memory. The last three are for files of other libraries."""
    if is_onnx_file(encoder):
        content = read_file(Path(encoder), "ONNX file", LARGEST)
        intact = check_intact(content, str(encoder))
        check_safe(content, str(encoder))
    else:
        content, intact = onnx_content(encoder), True
    embed = OnnxEncoder(content, name_of(encoder))
    card = embed.card()
    if card is None:
        from gaussproto.classifier.encoders.other import onnx_model

        return onnx_model(embed, image_size, mean, std, source)
    if not intact:
        warnings.warn(NO_CHECKSUM.format(encoder), stacklevel=2)
    return Encoder(**vars(card), embed=embed, source=source)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def is_onnx_file(encoder: Any) -> bool:
    return isinstance(encoder, str | Path) and Path(encoder).suffix == ".onnx"


def onnx_content(encoder: Any) -> bytes:
    """Convert bundled weights, a weights file, a run folder or a network object to the content of an ONNX file."""
    onnx = import_extra("onnx", "onnx")
    try:
        if is_photo(encoder):
            model, card = photo_graph(encoder)
        else:
            weights = _weights_of(encoder)
            model, card = encoder_graph(*weights[:2]), card_of(*weights)
        onnx.checker.check_model(model, full_check=True)
    except (KeyError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        problem = f"the weights of {name_of(encoder)} do not match their configuration ({error})"
        raise InputError(f"{problem}: copy or train them again") from error
    model.producer_name, model.producer_version = "gaussproto", version()
    model.doc_string = ABOUT.format(card)
    described = TypeAdapter(Card).dump_python(card, mode="json")
    described["source"] = str(encoder) if isinstance(encoder, str | Path) else None
    model.metadata_props.add(key=CARD, value=json.dumps(described))
    return with_checksum(bytes(model.SerializeToString()))


def name_of(encoder: Any) -> str:
    return str(encoder) if isinstance(encoder, str | Path) else "the network"


def _weights_of(encoder: Any) -> tuple[NetworkConfig, dict[str, np.ndarray], DataConfig | None, Calibration | None]:
    if not isinstance(encoder, str | Path):
        from gaussproto.classifier.encoders.torch import arrays_of, open_network

        network, data, calibration = open_network(encoder)
        return network.config, arrays_of(network), data, calibration
    file = open_weights(weights_file(str(encoder), PHOTOS))
    return file.network_config, single_precision(file.weights), file.run.data, file.calibration
