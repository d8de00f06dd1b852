"""A process that does one piece of work again and again and tells the times: `python -m gaussproto.bench.work`.

Each side of a comparison has a process of its own, since the allocator's settings hold for a whole process, and so
does the peak of its memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from gaussproto.bench import plain
from gaussproto.bench.cases import DRAWINGS, Work
from gaussproto.config import NetworkConfig, RunConfig, TrainingConfig
from gaussproto.data.images import LabelledImages, as_float
from gaussproto.data.load import Split, load_data
from gaussproto.data.strokes import strokes
from gaussproto.evaluation.protocol import embed_all, evaluate
from gaussproto.model.encoder import FILTERS
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.presets import preset
from gaussproto.training.checkpoint import load_checkpoint
from gaussproto.training.episode import sample_episode
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.run_folder import RunFolder, machine
from gaussproto.training.step import make_optimizer, step
from gaussproto.training.train import train

WARM_UP = 2  # times before the clock runs: threads start, memory is claimed
STEPS_WARM_UP = 6  # of our own training: memory is claimed for good, and it takes some steps until it is enough
GEMM = 2048  # side of the square matrices whose product tells the machine's speed
PLAIN_BATCH = 128  # images that the plain network embeds at once; more of them are slower
PNG_SIZE, ALPHABETS = 105, 6  # Omniglot's files have 105 pixels to a side; six alphabets hold over 120 characters
SNAPSHOTS = 20

Do = Callable[[], Any]


def prepare(work: Work, folder: Path) -> Do:
    """Everything that is made once; what it gives is what is timed. Files may be put into the folder."""
    if not work.plain:
        keep_freed_memory()
    make: dict[str, Callable[[], Do]] = {
        "step": lambda: _step(work),
        "episode": lambda: _episode(work, folder),
        "embedding": lambda: _embedding(work),
        "protocol": lambda: _protocol(work),
    }
    return make[work.kind]()


def _network(work: Work) -> GaussianPrototypicalNetwork:
    config = NetworkConfig(encoder=work.encoder, embedding_dim=work.D, covariance="radius")
    network = GaussianPrototypicalNetwork(config)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _learner(work: Work) -> Callable[[torch.Tensor], Any]:
    if work.plain:
        textbook = plain.plain_network(work.encoder, work.D)
        adam = torch.optim.Adam(textbook.parameters(), lr=2e-3)
        return lambda batch: plain.plain_step(textbook, adam, batch, work.way, work.shot)
    network = _network(work)
    optimizer = make_optimizer(network, TrainingConfig())
    return lambda batch: step(network, optimizer, batch, work.way, [work.shot])


def _step(work: Work) -> Do:
    learn, batch = _learner(work), torch.rand(work.batch, 1, 28, 28)
    return lambda: learn(batch)


def _episode(work: Work, folder: Path) -> Do:
    learn, drawings = _learner(work), work.shot + work.query
    if work.plain:
        plain.write_png(strokes(ALPHABETS, size=PNG_SIZE), folder)
        episodes = plain.plain_episodes(folder, work.way, drawings, workers=os.cpu_count() or 1)
        return lambda: learn(next(episodes))
    images, generator = strokes(ALPHABETS), torch.Generator().manual_seed(0)
    return lambda: learn(as_float(sample_episode(images, work.way, drawings, generator).flatten(0, 1)))


def _embedding(work: Work) -> Do:
    images = _noise(work.images)
    if work.plain:
        textbook = plain.plain_network(work.encoder, work.D)
        return lambda: plain.plain_embed(textbook, images, PLAIN_BATCH)
    network = _network(work)
    return lambda: embed_all(network, images)


def _protocol(work: Work) -> Do:
    network, way = _network(work), work.images // DRAWINGS
    names = tuple(str(c) for c in range(way))
    images = LabelledImages(_noise(work.images), torch.full((way,), DRAWINGS), names, names)
    return lambda: evaluate(network, images)


def _noise(images: int) -> torch.Tensor:
    """What the pixels are does not change how long they take."""
    return torch.randint(256, (images, 1, 28, 28), dtype=torch.uint8)


def timed(do: Do, seconds: float, least: int) -> list[float]:
    """How long it takes each time: so many seconds in all, and at least so often."""
    times: list[float] = []
    while len(times) < least or sum(times) < seconds:
        start = time.perf_counter()
        do()
        times.append(time.perf_counter() - start)
    return times


def peak_memory() -> int:
    """Of this process, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def gemm_rate() -> float:
    """Multiplications a second in a product of two large matrices, float32."""
    a, b = torch.rand(2, GEMM, GEMM)
    product = torch.empty(GEMM, GEMM)

    def multiply() -> None:
        torch.mm(a, b, out=product)

    multiply()
    times = sorted(timed(multiply, 0.5, 5))
    return GEMM**3 / times[len(times) // 2]


def multiplications(work: Work) -> int:
    """Of a step, in its convolutions as they are defined: forward, and backward to the filters and the inputs."""
    total, side = 0, 28
    for number, (before, after) in enumerate(pairwise([1, *FILTERS[work.encoder], work.D + 1])):
        total += (3 if number else 2) * 9 * before * after * side**2  # the images need no gradient
        side //= 2
    return total * work.batch


def learning_curve(config: RunConfig, split: Split) -> list[tuple[float, float]]:
    """Seconds of training at each snapshot, and the 20-way 1-shot accuracy on the test set then."""
    curve = []
    with tempfile.TemporaryDirectory() as folder:
        train(config, split.train, Path(folder) / "run")
        for path in RunFolder(Path(folder) / "run").snapshots():
            snapshot = load_checkpoint(path)
            accuracy = evaluate(snapshot.network(), split.test, ways=(20,), shots=(1,)).score(20, 1).accuracy
            curve.append((snapshot.position.seconds, accuracy))
    return curve


def main() -> None:
    """Take what to do from the command line, as JSON, and print what was found, as JSON."""
    asked = json.loads(sys.argv[1])
    if "curve" in asked:
        config = preset("fast-small-none", snapshots=SNAPSHOTS)
        split = load_data(config.data, Path(asked["data_root"]) if asked["data_root"] else None)
        found: dict[str, Any] = {"curve": learning_curve(config, split)}
    else:
        work = Work(**asked["work"])
        with tempfile.TemporaryDirectory() as folder:
            do = prepare(work, Path(folder))
            settles = work.kind in ("step", "episode") and not work.plain
            for _ in range(STEPS_WARM_UP if settles else WARM_UP):
                do()
            times = timed(do, asked["seconds"], asked["least"])
            del do  # ends the loader's processes before their files go
        found = {"times": times, "memory": peak_memory(), "gemm": gemm_rate()}
        if work.kind == "step":
            found["multiplications"] = multiplications(work)
    print(json.dumps(found | {"machine": machine()}))


if __name__ == "__main__":
    main()
