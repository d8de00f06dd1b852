"""Export an encoder as an ONNX file, for programs without torch, after comparing its outputs with torch's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.encoders.onnx import OnnxEncoder, name_of, onnx_content
from gaussproto.classifier.encoders.onnx_check import check_safe
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename

COMPARED = 7  # random images
MOST_APART = 1e-4  # relative to the largest value of an output
TINY = 1e-30  # avoids a division by 0


@dataclass(frozen=True)
class Export:
    """An exported ONNX file.

    Attributes:
        path: the file.
        bytes: its size.
        inputs: the shape of each input, by name.
        outputs: the shape of each output, by name.
        difference: the largest difference from torch, relative to the largest value of an output.
    """

    path: Path
    bytes: int
    inputs: dict[str, list[int | str]]
    outputs: dict[str, list[int | str]]
    difference: float


def export_onnx(encoder: Any, path: Path | str) -> Export:
    """Export a network to an ONNX file, which computes embeddings and precisions without torch.

    The file is written only if its outputs agree with torch's. You need the extra: `pip install 'gaussproto[onnx]'`.

    Args:
        encoder: the name of bundled weights, a weights file, a run folder or a network object.
        path: the file to write. It must end in .onnx.

    Returns:
        The path and size of the file, its inputs and outputs, and how far it differs from torch.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     export = gp.export_onnx("drawings-small", f"{folder}/encoder.onnx")
        >>> export.inputs
        {'images': ['N', 1, 'H', 'W']}
        >>> export.outputs
        {'embedding': ['N', 256], 'precision': ['N', 1]}
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise InputError(f"the output file must end in .onnx (found {path}): change its name")
    content = onnx_content(encoder)
    check_safe(content, f"the network {name_of(encoder)}")
    by_onnx, by_torch = OnnxEncoder(content, str(path)), find_encoder(encoder, "torch")
    shape = (COMPARED, by_torch.channels, by_torch.image_size, by_torch.image_size)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pairs = [(a, b) for a, b in zip(by_onnx(images), by_torch.embed(images), strict=True) if b is not None]
    difference = float(np.max([np.abs(a - b).max() / np.maximum(np.abs(b).max(), TINY) for a, b in pairs]))
    if not difference < MOST_APART:
        raise InputError(
            f"cannot export {name_of(encoder)} (the outputs of ONNX and torch differ by {difference:.1g}, relative to "
            "the largest value): check the weights for NaN and very large values"
        )
    with write_then_rename(path) as temporary:
        temporary.write_bytes(content)
    inputs = {node.name: node.shape for node in by_onnx.session.get_inputs()}
    outputs = {node.name: node.shape for node in by_onnx.session.get_outputs()}
    return Export(path, len(content), inputs, outputs, difference)
