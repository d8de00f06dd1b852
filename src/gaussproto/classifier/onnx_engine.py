"""An exported encoder as onnxruntime computes it. Without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from gaussproto.classifier.card import Card
from gaussproto.classifier.onnx_file import CARD
from gaussproto.errors import InputError
from gaussproto.model.onnx_graph import import_extra

BATCH = 256  # images embedded at once


class OnnxEncoder:
    """Embeds with the graph in an ONNX file.

    Args:
        content: of the file.
        name: what errors call it.
    """

    def __init__(self, content: bytes, name: str) -> None:
        self.content, self.name = content, name
        self.session = _open(content, name)

    def __call__(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Images (N, channels, H, W), each judged alone -> x (N, D), s (N, E) or None."""
        batches = [self.session.run(None, {"images": images[i : i + BATCH]}) for i in range(0, len(images), BATCH)]
        x, *s = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        return x, s[0] if s else None

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "name": self.name}  # a session cannot go to another process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def card(self) -> Card:
        """What the file says of the network."""
        text = self.session.get_modelmeta().custom_metadata_map.get(CARD)
        if text is None:
            raise InputError(
                f"{self.name} is an ONNX file, but not one of gaussproto's: make it with `gaussproto export`"
            )
        try:
            return TypeAdapter(Card).validate_json(text)
        except ValidationError as error:
            raise InputError(f"{self.name} has a broken description ({error}): export it again") from error


def read_onnx(path: Path) -> bytes:
    """The content of an ONNX file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"there is no readable ONNX file {path} ({error.strerror}): name one that is there") from None


def _open(content: bytes, name: str) -> Any:
    onnxruntime = import_extra("onnxruntime")
    try:
        return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no class of their own in common
        raise InputError(f"{name} is not a readable ONNX file ({error}): export it again") from error
