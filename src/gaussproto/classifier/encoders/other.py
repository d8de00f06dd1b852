"""Encoders of other libraries: a torch module, a callable or an ONNX image model, from colour images to vectors."""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gaussproto.arrays import digest_of_arrays
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.encoders.onnx import OnnxEncoder, run_session
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which most image models are trained on
SIZE = 224  # side in pixels that most image models are trained with
BATCH = 16  # images embedded at once
OUTPUTS = ("image_embeds", "pooler_output")  # of the models of transformers


class OtherEncoder:
    """Embeds images with a function of normalised colour images, float32 (N, 3, H, W).

    Args:
        function: returns vectors (N, D) as an array or a tensor.
        name: for error messages.
        mean: of the colours red, green and blue from 0 to 1, which is subtracted.
        std: of the colours, by which the difference is divided.
    """

    def __init__(self, function: Callable[[Any], Any], name: str, mean: Sequence[float], std: Sequence[float]) -> None:
        self.function, self.name = function, name
        self.mean, self.std = (np.array(each, dtype=np.float32)[:, None, None] for each in (mean, std))

    def __call__(self, images: np.ndarray) -> Embedded[np.ndarray]:
        batches = (images[i : i + BATCH] for i in range(0, len(images), BATCH))
        return Embedded(np.concatenate([self._embed(batch) for batch in batches]))

    def _embed(self, images: np.ndarray) -> np.ndarray:
        vectors = self.function((images.astype(np.float32) / 255 - self.mean) / self.std)
        try:
            x = np.asarray(vectors.detach().float().cpu() if hasattr(vectors, "detach") else vectors)
        except ValueError:
            x = np.empty(0, dtype=object)
        if x.ndim != 2 or len(x) != len(images) or x.dtype.kind != "f":
            raise InputError(
                f"{self.name} must return one vector for each image, ({len(images)}, D) (found {x.dtype} of shape "
                f"{x.shape}): wrap it in a function that returns, for example, output[:, 0]"
            )
        if not np.isfinite(x).all():
            raise InputError(f"{self.name} returned NaN or infinity: check its weights, `mean` and `std`")
        return x.astype(np.float32, copy=False)


class _Module:
    """Calls a torch module in evaluation mode, on the device of its weights, and leaves its mode as it was."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, images: np.ndarray) -> Any:
        import torch

        weights = next(iter(self.module.parameters()), torch.empty(0))
        modes = {part: part.training for part in self.module.modules()}  # parts may differ
        self.module.eval()
        try:
            with torch.inference_mode():
                output = self.module(torch.from_numpy(images).to(weights.device, weights.dtype))
        finally:
            for part, training in modes.items():
                part.training = training
        named = output if isinstance(output, dict) else vars(output) if hasattr(output, "__dict__") else {}
        return next((named[name] for name in OUTPUTS if named.get(name) is not None), output)


class _OnnxModel:
    """Runs an ONNX image model."""

    def __init__(self, file: OnnxEncoder) -> None:
        self.file = file

    def __call__(self, images: np.ndarray) -> np.ndarray:
        session = self.file.session
        return run_session(session, session.get_inputs()[0].name, images, self.file.name)[0]


def is_module(encoder: Any) -> bool:
    return callable(getattr(encoder, "state_dict", None)) and callable(encoder)


def other_encoder(encoder: Any, image_size: int | None, mean: Any, std: Any, source: str | None = None) -> Encoder:
    """Return the encoder that a torch module or a callable computes."""
    mean, std = check_colours("mean", mean, MEAN), check_colours("std", std, STD)
    function, name = encoder, getattr(encoder, "__name__", type(encoder).__name__)
    identity = {"name": f"{getattr(encoder, '__module__', '')}.{getattr(encoder, '__qualname__', name)}"}
    arrays: dict[str, np.ndarray] = {}
    if is_module(encoder):
        function = _Module(encoder)
        identity = {"name": f"{type(encoder).__module__}.{type(encoder).__qualname__}"}
        arrays = {key: np.asarray(t.detach().float().cpu()) for key, t in sorted(encoder.state_dict().items())}
    text = json.dumps(identity | {"mean": mean, "std": std})
    return _encoder(function, name, digest_of_arrays(text, arrays), image_size or SIZE, mean, std, source)


def onnx_model(file: OnnxEncoder, image_size: int | None, mean: Any, std: Any, source: str | None) -> Encoder:
    """Return the encoder that an ONNX image model of another library computes."""
    mean, std = check_colours("mean", mean, MEAN), check_colours("std", std, STD)
    name, (first, *more) = file.name, file.session.get_inputs()
    shape = list(first.shape)
    if more or len(shape) != 4 or shape[1] != 3 or first.type != "tensor(float)":
        found = f"{1 + len(more)} inputs, the first {first.type} of shape {shape}"
        raise InputError(f"{name} must take one batch of colour images, float (N, 3, H, W) (found {found})")
    if isinstance(shape[0], int):
        raise InputError(f"{name} must take any number of images (found {shape}): export it with a dynamic first axis")
    fixed = next((side for side in shape[2:] if isinstance(side, int)), None)
    if fixed and any(isinstance(side, int) and side != fixed for side in shape[2:]):
        raise InputError(f"{name} must take square images (found {shape}): export it for square images")
    if fixed and image_size and image_size != fixed:
        raise InputError(f"{name} takes images of {fixed} pixels (found image_size {image_size}): leave it out")
    digest = hashlib.sha256(file.content + json.dumps([mean, std]).encode()).hexdigest()
    return _encoder(_OnnxModel(file), name, digest, image_size or fixed or SIZE, mean, std, source)


def _encoder(
    function: Callable[[Any], Any], name: str, digest: str, size: int, mean: Any, std: Any, source: str | None
) -> Encoder:
    return Encoder(
        embed=OtherEncoder(function, name, mean, std),
        digest=digest,
        channels=3,
        image_size=size,
        ink="bright",
        prepare="crop",
        source=source,
    )


def check_colours(name: str, value: Any, default: tuple[float, ...]) -> tuple[float, ...]:
    """Return three finite numbers, one for each colour. Those of `std` must be positive."""
    if value is None:
        return default
    try:
        numbers = tuple(float(number) for number in value)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != 3 or not np.isfinite(numbers).all() or (name == "std" and min(numbers) <= 0):
        kind = "positive numbers" if name == "std" else "numbers"
        raise InputError(f"{name} must be three {kind}, for red, green and blue (found {value!r})")
    return numbers
