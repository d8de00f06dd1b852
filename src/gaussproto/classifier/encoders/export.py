"""The encoder as an ONNX file, for programs that have no torch; written only if it gives what torch gives."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.classifier.encoders.onnx import OnnxEncoder, name_of, onnx_content
from gaussproto.classifier.encoders.torch import torch_encoder
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename

COMPARED = 7  # random images
MOST_APART = 1e-4  # relative to the largest number of an output
TINY = 1e-30  # in place of that number if all are 0


@dataclass(frozen=True)
class Export:
    """What was written."""

    path: Path
    bytes: int
    inputs: dict[str, list[int | str]]  # name and shape
    outputs: dict[str, list[int | str]]
    difference: float  # from torch, relative to the largest number of an output


def export_onnx(encoder: Any, path: Path | str) -> Export:
    """Write the encoder of bundled weights, a weights file, a run folder or a network object to an ONNX file.

    Args:
        encoder: as for a classifier.
        path: the file, which ends in .onnx.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise InputError(f"the output file must end in .onnx (found {path})")
    content = onnx_content(encoder)
    by_onnx, by_torch = OnnxEncoder(content, str(path)), torch_encoder(encoder, None)
    shape = (COMPARED, by_torch.channels, by_torch.image_size, by_torch.image_size)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pairs = [(a, b) for a, b in zip(by_onnx(images), by_torch.embed(images), strict=True) if b is not None]
    difference = float(np.max([np.abs(a - b).max() / np.maximum(np.abs(b).max(), TINY) for a, b in pairs]))
    if not difference < MOST_APART:
        raise InputError(
            f"the ONNX form of {name_of(encoder)} differs from torch by {difference:.1g}, so it was not written: its "
            "weights are too large, or no numbers"
        )
    with write_then_rename(path) as temporary:
        temporary.write_bytes(content)
    inputs = {node.name: node.shape for node in by_onnx.session.get_inputs()}
    outputs = {node.name: node.shape for node in by_onnx.session.get_outputs()}
    return Export(path, len(content), inputs, outputs, difference)
