"""Score and time the classifier on Omniglot as users call it, with paths of files. Prints one JSON object.

Every test class is scored, in random groups of twenty. The files are Omniglot's originals of 105 x 105 pixels, rotated
for the classes that are rotations.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image

from benchmarks.command import parser, run
from benchmarks.results import ClassifierResult, DamagedExamples, TaskAccuracy
from benchmarks.timer import median_time
from gaussproto import GaussianPrototypeClassifier, load_data, load_network
from gaussproto.cli import console
from gaussproto.config import DataConfig
from gaussproto.data.damage import down_sample
from gaussproto.data.omniglot import DRAWINGS, PARTS, find_or_fetch, published_files
from gaussproto.data.picture import open_image
from gaussproto.evaluation.protocol import evaluate
from gaussproto.model.network import as_float
from gaussproto.provenance import machine

WAY, SHOTS, DAMAGE_SHOT = 20, (1, 5), 5
TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
SIZE = 7  # side in pixels of a damaged example
TIMED = 50  # classes, whose 1,000 drawings are passed to one call of `predict`


def main() -> None:
    options = parser(__doc__)
    options.add_argument("encoder")
    options.add_argument("--vanilla", help="a vanilla network, trained in the same way")
    options.add_data_root()
    chosen = options.parse_args()
    test = load_data(DataConfig(data="omniglot"), chosen.data_root).test
    rng = np.random.default_rng(0)
    order = rng.permutation(test.way)
    groups = np.resize(order, (-(-test.way // WAY), WAY))  # the last group is filled up with classes of the first
    drawings = np.stack([rng.permutation(DRAWINGS) for _ in range(test.way)])

    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), chosen.data_root)  # (C, drawings)
        by_files = tuple(score_files(chosen.encoder, files, groups, drawings, shot) for shot in SHOTS)
        paths, arrays = time_predict(chosen.encoder, files)
    clean = test.dense[:, :, 0].numpy()
    bad = down_sample(as_float(test.images), SIZE).mul(255).round().byte().view(test.dense.shape)[:, :, 0].numpy()
    result = ClassifierResult(
        machine=machine(),
        encoder=chosen.encoder,
        by_files=by_files,
        by_protocol=evaluate(load_network(chosen.encoder), test, [WAY], SHOTS).scores,
        predict_paths=paths,
        predict_arrays=arrays,
        damaged=tuple(
            score_damaged(encoder, clean, bad, groups, drawings)
            for encoder in (chosen.encoder, chosen.vanilla)
            if encoder
        ),
    )
    console.print_json(result.model_dump(mode="json"))


def write_files(folder: Path, data_root: Path | None) -> np.ndarray:
    """Write the files and return paths (C, drawings): all characters, then all rotated by 90 degrees, ..."""
    part = PARTS["test"]
    content = published_files(part, find_or_fetch(part, data_root))
    images = {name: open_image(data, name) for name, data in content.items()}
    paths = []
    for number, turn in enumerate(TURNS):
        for name, image in images.items():
            path = folder / f"{number} {name.replace('/', ' ')}"
            (image if turn is None else image.transpose(turn)).save(path)
            paths.append(path)
    return np.array(paths, dtype=object).reshape(-1, DRAWINGS)


def score_files(encoder: str, files: np.ndarray, groups: np.ndarray, drawings: np.ndarray, shot: int) -> TaskAccuracy:
    right = []
    for group in groups:
        chosen = np.take_along_axis(files[group], drawings[group], axis=1)
        clf = GaussianPrototypeClassifier(encoder)
        clf.fit(chosen[:, :shot].ravel().tolist(), group.repeat(shot))
        answers = clf.predict(chosen[:, shot:].ravel().tolist())
        right.append((answers == group.repeat(DRAWINGS - shot)).mean())  # every group has the same number of queries
    return TaskAccuracy(way=WAY, shot=shot, accuracy=mean(right))


def time_predict(encoder: str, files: np.ndarray) -> tuple[float, float]:
    """Return the median seconds of `predict` for 1,000 paths and for 1,000 arrays, 20-way, with five examples each."""
    paths = files[:TIMED].ravel().tolist()
    arrays = np.stack([np.asarray(Image.open(path).resize((28, 28)).convert("L")) for path in paths])
    clf = GaussianPrototypeClassifier(encoder).fit(files[:WAY, :5].ravel().tolist(), np.arange(WAY).repeat(5))
    by_paths, by_arrays = (
        median_time(lambda images=images: clf.predict(images), repetitions=5, warm_up=1) for images in (paths, arrays)
    )
    return by_paths, by_arrays


def score_damaged(
    encoder: str, clean: np.ndarray, bad: np.ndarray, groups: np.ndarray, drawings: np.ndarray
) -> DamagedExamples:
    """Score with five examples of each class, two of them damaged in half of the groups and three in the others."""
    shot = DAMAGE_SHOT
    right, shares = [], {True: [], False: []}
    for g, group in enumerate(groups):
        is_damaged = np.arange(shot) < 2 + g % 2
        order = drawings[group][:, :, None, None]
        good, poor = (np.take_along_axis(pixels[group], order, axis=1) for pixels in (clean, bad))
        support = np.where(is_damaged[None, :, None, None], poor[:, :shot], good[:, :shot])
        clf = GaussianPrototypeClassifier(encoder, ink="bright").fit(support.reshape(-1, 28, 28), group.repeat(shot))
        weights = clf.example_weights_.reshape(-1, shot)
        for damaged in (True, False):
            shares[damaged].extend(weights[:, is_damaged == damaged].ravel().tolist())
        answers = clf.predict(good[:, shot:].reshape(-1, 28, 28))
        right.append((answers == group.repeat(DRAWINGS - shot)).mean())
    return DamagedExamples(
        encoder=encoder, accuracy=mean(right), share_damaged=mean(shares[True]), share_clean=mean(shares[False])
    )


if __name__ == "__main__":
    run(main)
