"""Score the classification of feature vectors, with and without a Gaussian head. Prints one JSON object.

Every test class is scored once, in random groups of twenty. Heads are trained on the vectors of the training classes.
"""

from __future__ import annotations

from statistics import mean

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.command import parser, run
from benchmarks.results import TaskAccuracy, VectorScores, VectorsResult
from gaussproto import GaussianPrototypeClassifier, load_data, load_network, train_head
from gaussproto.cli import console
from gaussproto.config import DataConfig
from gaussproto.data.images import LabelledImages
from gaussproto.model.embed import embed_all
from gaussproto.runs.weights import open_weights, weights_file

WAY, SHOTS = 20, (1, 5)
PIXELS, WEIGHTS = "pixels averaged to 14 x 14", "drawings-small"


def main() -> None:
    options = parser(__doc__)
    options.add_data_root()
    data_root = options.parse_args().data_root
    strokes = load_data(DataConfig(data="strokes")).test
    network, expected = load_network(WEIGHTS), open_weights(weights_file(WEIGHTS)).run.data.for_evaluation()

    def embeddings(images: LabelledImages) -> np.ndarray:
        return by_class(images, embed_all(network, images.images).x)

    kinds = [VectorScores(vectors=f"strokes: {PIXELS}", head=False, scores=score(pixels(strokes), "identity"))]
    plain = DataConfig(data="omniglot")
    for name, vectors, data in ((PIXELS, pixels, plain), (f"embeddings of {WEIGHTS}", embeddings, expected)):
        omniglot = load_data(data, data_root)
        known, new = vectors(omniglot.train), vectors(omniglot.test)
        labels = np.arange(len(known)).repeat(known.shape[1])
        head = train_head(known.reshape(len(labels), -1), labels)
        for encoder in ("identity", head):
            scores = score(new, encoder)
            kinds.append(VectorScores(vectors=f"omniglot: {name}", head=encoder is head, scores=scores))
    console.print_json(VectorsResult(kinds=tuple(kinds)).model_dump(mode="json"))


def pixels(images: LabelledImages) -> np.ndarray:
    """Return the brightness from 0 to 1, averaged to 14 x 14 pixels: (C, drawings, 196)."""
    return by_class(images, F.avg_pool2d(images.images.float() / 255, 2))


def by_class(images: LabelledImages, vectors: torch.Tensor) -> np.ndarray:
    """(N, ...) → (C, drawings, features)."""
    return vectors.reshape(images.way, len(images.images) // images.way, -1).numpy()


def score(vectors: np.ndarray, encoder: object) -> tuple[TaskAccuracy, ...]:
    rng = np.random.default_rng(0)
    C, M, _ = vectors.shape
    groups = rng.permutation(C)[: C // WAY * WAY].reshape(-1, WAY)
    drawn = np.take_along_axis(vectors, np.stack([rng.permutation(M) for _ in range(C)])[:, :, None], axis=1)
    accuracies = []
    for shot in SHOTS:
        right = []
        for group in groups:
            clf = GaussianPrototypeClassifier(encoder)
            clf.fit(drawn[group, :shot].reshape(WAY * shot, -1), group.repeat(shot))
            answers = clf.predict(drawn[group, shot:].reshape(WAY * (M - shot), -1))
            right.append((answers == group.repeat(M - shot)).mean())
        accuracies.append(TaskAccuracy(way=WAY, shot=shot, accuracy=mean(right)))
    return tuple(accuracies)


if __name__ == "__main__":
    run(main)
