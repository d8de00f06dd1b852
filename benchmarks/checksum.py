"""Time the loading of weights, of a checkpoint and of cached images, with and without their checksums.

python -m benchmarks.checksum

Both are measured in turn in the same process. Nothing else should run on the machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch

import gaussproto as gp
from benchmarks.command import parser, run
from gaussproto import arrays
from gaussproto.cli import console
from gaussproto.data.cache import cached_images
from gaussproto.data.images import LabelledImages
from gaussproto.runs.checkpoint import load_checkpoint, save_checkpoint
from gaussproto.runs.weights import Position, weights_file

CLASSES = 2636  # of 20 images each, four times as many as the cache of Omniglot's test set has


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=31)
    repeats = options.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, GAUSSPROTO_CACHE=folder):
        checkpoint = make_checkpoint(Path(folder) / "last.safetensors")
        images = make_images()
        cached_images("benchmark", 28, lambda: images)
        rows = [
            compare("weights drawings-big", lambda: gp.load_network("drawings-big"), repeats),
            compare(f"checkpoint, {megabytes(checkpoint)}", lambda: gp.load_network(checkpoint), repeats),
            compare(f"cache of {len(images):,} images", lambda: cached_images("benchmark", 28, missing), repeats),
        ]
    console.print_table("", ["what is loaded", "with", "without", "cost", "from - to"], rows, right=1)


def make_checkpoint(path: Path) -> Path:
    """Save a checkpoint of the big encoder, with the moments of Adam."""
    loaded = load_checkpoint(weights_file("drawings-big"))
    network = loaded.network().train()
    optimizer = torch.optim.Adam(network.parameters())
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    save_checkpoint(path, loaded.config, network, Position(), optimizer, torch.Generator())
    return path


def make_images() -> LabelledImages:
    names = tuple(f"class {c}" for c in range(CLASSES))
    pixels = torch.randint(256, (20 * CLASSES, 1, 28, 28), dtype=torch.uint8)
    return LabelledImages(pixels, torch.full((CLASSES,), 20), names, ("random",) * CLASSES)


def missing() -> LabelledImages:
    raise AssertionError("the cache should have been read")


def megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.0f} MB"


def compare(what: str, load: Callable[[], object], repeats: int) -> list[str]:
    """Return a row with the median times, and the quartiles of the cost over pairs of measurements."""
    pairs = []
    for _ in range(repeats):
        checked = timed(load)
        with (
            patch.object(arrays, "_checksum", lambda header, data: header["__metadata__"].get("checksum", "")),
            patch("gaussproto.runs.weights.check_bundled"),
        ):
            pairs.append((checked, timed(load)))
    costs = sorted(100 * (a / b - 1) for a, b in pairs)
    a, b = (median(times) for times in zip(*pairs, strict=True))
    low, high = costs[len(costs) // 4], costs[-len(costs) // 4]
    return [what, f"{1000 * a:.1f} ms", f"{1000 * b:.1f} ms", f"{median(costs):.1f} %", f"{low:.0f} - {high:.0f} %"]


def timed(load: Callable[[], object]) -> float:
    start = time.perf_counter()
    load()
    return time.perf_counter() - start


if __name__ == "__main__":
    run(main)
