"""The classifier on Omniglot as a person uses it, paths of files in, labels out:

python benchmarks/classifier.py ENCODER [--vanilla OTHER]

Prints one JSON object. Every class of the test set is scored, in random groups of twenty; the files are Omniglot's
own of 105 x 105 pixels, turned where a rotation is a class of its own.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from gaussproto import GaussianPrototypeClassifier, load_data, load_network
from gaussproto.config import DataConfig
from gaussproto.data.damage import down_sample
from gaussproto.data.images import as_float
from gaussproto.data.omniglot import PARTS, find, published_files
from gaussproto.data.picture import open_image
from gaussproto.evaluation.protocol import evaluate
from gaussproto.training.run_folder import machine

WAY, SHOTS, DRAWINGS = 20, (1, 5), 20
TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
SIZE = 7  # pixels to a side of a damaged example
TIMED = 1000  # images to one call of `predict`


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder")
    parser.add_argument("--vanilla", help="a network without precisions, trained the same way")
    parser.add_argument("--data-root", type=Path)
    given = parser.parse_args()
    test = load_data(DataConfig(data="omniglot"), given.data_root).test
    rng = np.random.default_rng(0)
    order = rng.permutation(test.way)
    groups = np.resize(order, (-(-test.way // WAY), WAY))  # the last is filled up with classes of the first
    drawings = np.stack([rng.permutation(DRAWINGS) for _ in range(test.way)])

    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), given.data_root)  # (C, drawings)
        found = {f"20-way {shot}-shot": by_files(given.encoder, files, groups, drawings, shot) for shot in SHOTS}
        found["predict, seconds"] = predict_seconds(given.encoder, files)
    protocol = evaluate(load_network(given.encoder), test, [WAY], SHOTS)
    dense = test.dense[:, :, 0].numpy()
    bad = down_sample(as_float(test.images), SIZE).mul(255).round().byte().view(test.dense.shape)[:, :, 0].numpy()
    encoders = [given.encoder, *([given.vanilla] if given.vanilla else [])]
    print(
        json.dumps(
            {
                "encoder": given.encoder,
                "by files": found,
                "by the protocol": {f"20-way {s.shot}-shot": [s.accuracy, s.interval] for s in protocol.scores},
                "damaged": {name: with_damage(name, dense, bad, groups, drawings) for name in encoders},
                "machine": machine(),
            },
            indent=1,
        )
    )


def write_files(folder: Path, data_root: Path | None) -> np.ndarray:
    """(C, drawings) paths in the order of the test classes: all characters, then all turned by 90 degrees, ..."""
    part = PARTS["test"]
    source = find(part, data_root)
    if source is None:
        raise SystemExit("Omniglot is not here: `gaussproto data omniglot` fetches it")
    images = {name: open_image(content, name) for name, content in published_files(part, source).items()}
    paths = []
    for turn, how in enumerate(TURNS):
        for name, image in images.items():
            path = folder / f"{turn} {name.replace('/', ' ')}"
            (image if how is None else image.transpose(how)).save(path)
            paths.append(path)
    return np.array(paths, dtype=object).reshape(-1, DRAWINGS)


def by_files(encoder: str, files: np.ndarray, groups: np.ndarray, drawings: np.ndarray, shot: int) -> float:
    """The share of queries that get their own label."""
    right = asked = 0
    for group in groups:
        own = np.take_along_axis(files[group], drawings[group], axis=1)
        clf = GaussianPrototypeClassifier(encoder)
        clf.fit(own[:, :shot].ravel().tolist(), group.repeat(shot))
        answers = clf.predict(own[:, shot:].ravel().tolist())
        right += int((answers == group.repeat(DRAWINGS - shot)).sum())
        asked += len(answers)
    return right / asked


def predict_seconds(encoder: str, files: np.ndarray) -> dict:
    """One call of `predict` with a thousand images and twenty classes of five examples."""
    pixels = np.stack([np.asarray(Image.open(path).resize((28, 28)).convert("L")) for path in files[:50].ravel()])
    labels = np.arange(WAY).repeat(5)
    times = {}
    for what, images in (("paths of 105 x 105", files[:50].ravel().tolist()), ("arrays of 28 x 28", pixels)):
        clf = GaussianPrototypeClassifier(encoder).fit(files[:WAY, :5].ravel().tolist(), labels)
        each = []
        for _ in range(5):
            start = time.perf_counter()
            clf.predict(images)
            each.append(time.perf_counter() - start)
        times[what] = round(statistics.median(each), 3)
    assert len(pixels) == TIMED
    return times


def with_damage(encoder: str, clean: np.ndarray, bad: np.ndarray, groups: np.ndarray, drawings: np.ndarray) -> dict:
    """Five examples of each class, two of them damaged in half of the groups and three in the others."""
    shares: dict[bool, list] = {True: [], False: []}
    right = asked = 0
    for g, group in enumerate(groups):
        broken = np.arange(5) < 2 + g % 2
        own = np.take_along_axis(clean[group], drawings[group][:, :, None, None], axis=1)
        other = np.take_along_axis(bad[group], drawings[group][:, :, None, None], axis=1)
        support = np.where(broken[None, :, None, None], other[:, :5], own[:, :5])
        clf = GaussianPrototypeClassifier(encoder, ink="bright").fit(support.reshape(-1, 28, 28), group.repeat(5))
        weights = clf.example_weights_.reshape(-1, 5)
        for damaged in (True, False):
            shares[damaged].extend(weights[:, broken == damaged].ravel().tolist())
        answers = clf.predict(own[:, 5:].reshape(-1, 28, 28))
        right += int((answers == group.repeat(DRAWINGS - 5)).sum())
        asked += len(answers)
    damaged, whole = statistics.mean(shares[True]), statistics.mean(shares[False])
    return {"accuracy": right / asked, "share of a damaged example": damaged, "of a clean one": whole}


if __name__ == "__main__":
    main()
