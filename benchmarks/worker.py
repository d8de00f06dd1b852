"""Repeat one piece of work and print the times: `python -m benchmarks.worker JOB`.

Each side of a comparison runs in its own process, because allocator settings and peak memory apply to a whole process.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from benchmarks import plain
from benchmarks.cases import DRAWINGS, Job, Work
from benchmarks.results import Curve, CurvePoint, WorkerResult
from benchmarks.timer import measure_times, median_time
from gaussproto.config import NetworkConfig, RunConfig, TrainingConfig
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import Split, load_data
from gaussproto.data.strokes import strokes
from gaussproto.episodes import sample_episode
from gaussproto.evaluation.protocol import evaluate
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork, as_float
from gaussproto.presets import preset
from gaussproto.provenance import machine
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.setting_types import FILTERS
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.step import make_optimizer, step
from gaussproto.training.train import train

WARM_UP = 2  # calls in which threads start and memory is allocated
SETTLE = 6  # the same with keep_freed_memory, which takes some calls to collect enough memory
GEMM = 2048  # side of the square matrices whose product measures the machine's speed
PLAIN_BATCH = 128  # images that the plain network embeds at once; larger batches are slower
PNG_SIZE, ALPHABETS = 105, 6  # Omniglot's files are 105 x 105 pixels; six alphabets have over 120 characters
PREDICT_WAY, PREDICT_SHOT = 20, 5
SNAPSHOTS = 20

Repeatable = Callable[[], object]


def prepare(work: Work, folder: Path) -> Repeatable:
    """Prepare the work, with files in `folder`, and return the function to time."""
    if work.keep_memory:
        keep_freed_memory()
    if work.kind == "episode":
        return _episode(work, folder)
    return {"step": _step, "embedding": _embedding, "protocol": _protocol, "predict": _predict}[work.kind](work)


def _network(work: Work) -> GaussianPrototypicalNetwork:
    config = NetworkConfig(encoder=work.encoder, embedding_dim=work.D, covariance="radius")
    return GaussianPrototypicalNetwork(config).to(memory_format=torch.channels_last)


def _learner(work: Work) -> Callable[[torch.Tensor], object]:
    if work.plain:
        textbook = plain.plain_network(work.encoder, work.D)
        adam = torch.optim.Adam(textbook.parameters(), lr=2e-3)
        return lambda batch: plain.plain_step(textbook, adam, batch, work.way, work.shot)
    network = _network(work)
    optimizer = make_optimizer(network, TrainingConfig())
    return lambda batch: step(network, optimizer, [(0, batch, [work.shot])], work.way)


def _step(work: Work) -> Repeatable:
    learn, batch = _learner(work), torch.rand(work.batch, 1, 28, 28)
    return lambda: learn(batch)


def _episode(work: Work, folder: Path) -> Repeatable:
    learn, drawings = _learner(work), work.shot + work.query
    if work.plain:
        plain.write_png(strokes(ALPHABETS, size=PNG_SIZE), folder)
        episodes = plain.plain_episodes(folder, work.way, drawings, workers=os.cpu_count() or 1)
        return lambda: learn(next(episodes))
    images, generator = strokes(ALPHABETS), torch.Generator().manual_seed(0)
    return lambda: learn(as_float(sample_episode(images, work.way, drawings, generator).flatten(0, 1)))


def _embedding(work: Work) -> Repeatable:
    images = _noise(work.images)
    if work.plain:
        textbook = plain.plain_network(work.encoder, work.D)
        return lambda: plain.plain_embed(textbook, images, PLAIN_BATCH)
    network = _network(work)
    return lambda: embed_all(network, images)


def _protocol(work: Work) -> Repeatable:
    network, way = _network(work), work.images // DRAWINGS
    names = tuple(str(c) for c in range(way))
    images = LabelledImages(_noise(work.images), torch.full((way,), DRAWINGS), names, names)
    return lambda: evaluate(network, images)


def _predict(work: Work) -> Repeatable:
    from gaussproto import GaussianPrototypeClassifier  # importing scikit-learn uses memory

    labels = np.arange(PREDICT_WAY).repeat(PREDICT_SHOT)
    examples, images = _noise(len(labels))[:, 0].numpy(), _noise(work.images)[:, 0].numpy()
    clf = GaussianPrototypeClassifier(f"drawings-{work.encoder}", ink="bright", prepare="none").fit(examples, labels)
    return lambda: clf.predict(images)


def _noise(images: int) -> torch.Tensor:
    """Return random images: pixel values do not affect the time."""
    return torch.randint(256, (images, 1, 28, 28), dtype=torch.uint8)


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def gemm_rate() -> float:
    """Return the multiplications per second in a product of two large float32 matrices."""
    a, b = torch.rand(2, GEMM, GEMM)
    product = torch.empty(GEMM, GEMM)
    return GEMM**3 / median_time(lambda: torch.mm(a, b, out=product), repetitions=5, seconds=0.5, warm_up=1)


def multiplications(work: Work) -> int:
    """Return the multiplications in the convolutions of a step: forward, and backward to filters and inputs."""
    total, side = 0, 28
    for number, (before, after) in enumerate(pairwise([1, *FILTERS[work.encoder], work.D + 1])):
        total += (3 if number else 2) * 9 * before * after * side**2  # the images need no gradient
        side //= 2
    return total * work.batch


def learning_curve(config: RunConfig, split: Split) -> tuple[CurvePoint, ...]:
    """Train, and return the test accuracy of each snapshot."""
    points = []
    with tempfile.TemporaryDirectory() as folder:
        train(config, split.train, Path(folder) / "run")
        for path in RunFolder(Path(folder) / "run").snapshots():
            snapshot = load_checkpoint(path)
            score = evaluate(snapshot.network(), split.test, ways=(20,), shots=(1,)).score(20, 1)
            points.append(CurvePoint(seconds=snapshot.position.seconds, accuracy=score.accuracy))
    return tuple(points)


def time_to_load(config: RunConfig, data_root: Path | None) -> float:
    """Return the seconds to read and prepare the images without a cache."""
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, GAUSSPROTO_CACHE=cache):
        start = time.perf_counter()
        load_data(config.data, data_root)
        return time.perf_counter() - start


def do_job(job: Job) -> WorkerResult:
    """Time the work, or train and score."""
    work = job.work
    if work is None:
        config = preset(job.preset, snapshots=SNAPSHOTS)
        load = time_to_load(config, job.data_root)
        points = learning_curve(config, load_data(config.data, job.data_root))
        return WorkerResult(machine=machine(), curve=Curve(preset=job.preset, load=load, points=points))
    warm_up = WARM_UP if work.plain or work.kind in ("embedding", "protocol") else SETTLE
    with tempfile.TemporaryDirectory() as folder:
        repeat = prepare(work, Path(folder))
        times = measure_times(repeat, repetitions=job.repetitions, seconds=job.seconds, warm_up=warm_up)
        del repeat  # ends the processes of the loader before their files are deleted
    return WorkerResult(
        machine=machine(),
        times=tuple(times),
        memory=peak_memory(),
        gemm_rate=gemm_rate(),
        multiplications=multiplications(work) if work.kind == "step" else None,
    )


if __name__ == "__main__":
    print(do_job(Job.model_validate_json(sys.argv[1])).model_dump_json())
