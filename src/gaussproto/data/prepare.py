"""Prepare many drawings, and draw variants of them, on all cores."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, cpu_count, delayed
from torch import Tensor

from gaussproto.data import desk, ink, vary
from gaussproto.data.cache import cached_images
from gaussproto.data.images import LabelledImages
from gaussproto.progress import Progress, silent

BATCH = 256  # drawings


def prepared(
    greys: Sequence[np.ndarray], size: int, variants: int = 0, progress: Progress = silent
) -> tuple[Tensor, Tensor | None]:
    """Prepare drawings, and draw variants of them.

    Args:
        greys: a grey image (H, W) of each drawing, uint8, of any size.
        size: side of the prepared images.
        variants: number of variants of each drawing.
        progress: called with the task, the amount done and the total.

    Returns:
        The drawings (N, 1, size, size) and the variants (N, variants, 1, size, size), if any. Both are uint8.
    """
    batches = [range(i, min(i + BATCH, len(greys))) for i in range(0, len(greys), BATCH)]
    work = (delayed(_prepare)([greys[i] for i in batch], size, variants, batch.start) for batch in batches)
    done: list[np.ndarray] = []
    for batch, pixels in zip(
        batches, Parallel(min(len(batches), cpu_count()), return_as="generator")(work), strict=True
    ):
        done.append(pixels)
        progress("preparing drawings", batch.stop, len(greys))
    whole = torch.from_numpy(np.concatenate(done))[:, :, None]  # (N, 1 + variants, 1, size, size)
    return whole[:, 0].clone(), whole[:, 1:].clone() if variants else None


def _prepare(greys: list[np.ndarray], size: int, variants: int, first: int) -> np.ndarray:
    return np.stack(
        [
            np.concatenate([ink.prepare_or_resize(grey, size)[0][None], vary.variants_of(grey, size, variants, seed)])
            for seed, grey in enumerate(greys, start=first)
        ]
    )


def prepared_images(
    name: str, draw: Callable[[], LabelledImages], size: int, variants: int, progress: Progress, renew: bool = False
) -> LabelledImages:
    """Return the prepared drawings of `draw`, from the cache if they are in it."""

    def make() -> LabelledImages:
        drawings = draw()
        images, others = prepared(list(drawings.images[:, 0].numpy()), size, variants, progress)
        return replace(drawings, images=images, variants=others)

    # The name contains a hash of the code that prepares drawings, so that a change to it invalidates the cache.
    code = b"".join(Path(str(module.__file__)).read_bytes() for module in (desk, ink, vary)[: 3 if variants else 2])
    version = hashlib.sha256(code).hexdigest()[:8]
    return cached_images(f"{name}-ink-{variants}-{version}", size, make, renew)
