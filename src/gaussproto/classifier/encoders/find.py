"""Open the encoder that the parameters of a classifier describe. Torch is imported only if it computes."""

from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.encoders.onnx import is_onnx_file, onnx_encoder
from gaussproto.classifier.encoders.other import OtherEncoder, other_encoder
from gaussproto.classifier.encoders.photo import PhotoEncoder, is_photo, photo_card
from gaussproto.data.views import check_views, embed_views
from gaussproto.errors import InputError
from gaussproto.files import is_folder, real_path
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.pretrained import current_name
from gaussproto.runs.weights import weights_file
from gaussproto.setting_types import LARGEST_IMAGE, Ink, Prepare

IDENTITY, AUTO = "identity", "auto"
Engine = Literal["torch", "onnx"]
InkParameter = Literal["auto"] | Ink
PrepareParameter = Literal["auto"] | Prepare


def find_encoder(
    encoder: Any, engine: Engine | None = None, ink: InkParameter = "auto", prepare: PrepareParameter = "auto",
    image_size: int | None = None, device: str = "cpu", mean: Any = None, std: Any = None,
    views: int = 1,
) -> Encoder:  # fmt: skip
    """Open the encoder that the parameters of a `GaussianPrototypeClassifier` describe."""
    for name, value, choices in (
        ("engine", engine, (None, *get_args(Engine))),
        ("ink", ink, ("auto", *get_args(Ink))),
        ("prepare", prepare, ("auto", *get_args(Prepare))),
    ):
        if value not in choices:
            listed = ", ".join(str(choice) for choice in choices if choice)
            raise InputError(f"{name} must be one of {listed} (found {value!r})")
    if image_size is not None and not (isinstance(image_size, Integral) and 1 <= image_size <= LARGEST_IMAGE):
        raise InputError(f"image_size must be a whole number from 1 to {LARGEST_IMAGE} (found {image_size!r})")
    check_views(views)
    opened = _open(encoder, engine, device, image_size, mean, std)
    if (mean is not None or std is not None) and not isinstance(opened.embed, OtherEncoder):
        raise InputError("mean and std are only for encoders of other libraries (gaussproto's own know theirs)")
    if opened.channels not in (1, 3):
        raise InputError(f"the encoder must take grey or colour images (found {opened.channels} channels)")
    least = opened.smallest_image
    if image_size is not None and image_size < least:
        raise InputError(f"image_size must be a whole number from {least} to {LARGEST_IMAGE} (found {image_size!r})")
    if opened.prepare == "crop" and ink not in ("auto", "bright"):
        raise InputError(f"ink is only for drawings (found ink {ink!r} for an encoder of photos): leave it out")
    if prepare == "ink" and opened.channels != 1:
        raise InputError("prepare ink needs an encoder of grey drawings (found one of colour images): leave it out")
    if views > 1 and opened.takes_vectors:
        raise InputError("views are of images, but this encoder takes vectors: leave out views")
    if views > 1:
        fitted = opened.calibration and opened.calibration.for_views(find_distance(opened.distance).power)
        opened = replace(opened, embed=partial(embed_views, opened.embed, views), views=views, calibration=fitted)
    return replace(
        opened,
        image_size=int(image_size or opened.image_size),
        ink=opened.ink if ink == "auto" else ink,
        prepare=opened.prepare if prepare == "auto" else prepare,
    )


def _open(encoder: Any, engine: Engine | None, device: str, size: int | None, mean: Any, std: Any) -> Encoder:
    if isinstance(encoder, str) and encoder == IDENTITY:
        return Encoder(embed=_copy, source=IDENTITY, digest=IDENTITY, takes_vectors=True)
    if is_onnx_file(encoder) and engine == "torch":
        remedy = "use engine onnx, or pass the weights that it was exported from"
        raise InputError(f"engine torch cannot run the ONNX file {encoder}: {remedy}")
    if is_onnx_file(encoder) or engine == "onnx":
        if device != "cpu":
            raise InputError(
                f"engine onnx runs only on the cpu (found device {device!r}): use device cpu or engine torch"
            )
        return onnx_encoder(encoder, _source(encoder), size, mean, std)
    if is_photo(encoder):
        embed = PhotoEncoder(encoder, device)
        return Encoder(**vars(photo_card(embed)), embed=embed, source=encoder)
    if callable(encoder) and not _is_network(encoder):
        return other_encoder(encoder, size, mean, std)
    from gaussproto.classifier.encoders.torch import torch_encoder

    return torch_encoder(encoder, _source(encoder), device)


def _is_network(encoder: Any) -> bool:
    from gaussproto.model.network import GaussianPrototypicalNetwork

    return isinstance(encoder, GaussianPrototypicalNetwork)


def takes_vectors(encoder: Any) -> bool:
    """Return whether an encoder takes vectors, without opening a file: False for a head that is stored in one."""
    if isinstance(encoder, str | Path):
        return encoder == IDENTITY
    from gaussproto.model.head import GaussianHead

    return isinstance(encoder, GaussianHead)


def _copy(vectors: np.ndarray) -> Embedded[np.ndarray]:
    return Embedded(vectors.copy())  # the caller may change the array later


def _source(encoder: Any) -> str | None:
    """Return the name of bundled weights or the absolute path of a file. None for a network object."""
    if not isinstance(encoder, str | Path):
        return None
    path = Path(encoder)
    if is_folder(path):
        path = weights_file(str(path))
    return str(real_path(path)) if path.suffix in (".onnx", ".safetensors") else current_name(str(encoder))
