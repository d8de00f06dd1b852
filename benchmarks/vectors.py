"""How far plain vectors get, and what a Gaussian head adds to them: python benchmarks/vectors.py [--data-root DIR]

Prints one JSON object. Every test class is scored once, in random groups of twenty; heads are trained on the vectors of
the training classes.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from gaussproto import GaussianPrototypeClassifier, load_data, load_network, train_head
from gaussproto.config import DataConfig
from gaussproto.data.images import LabelledImages
from gaussproto.evaluation.protocol import embed_all

WAY, SHOTS = 20, (1, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", type=Path)
    given = parser.parse_args()
    strokes = load_data(DataConfig(data="strokes")).test
    found = {"strokes: pixels averaged to 14 x 14": scores(pixels(strokes), "identity")}
    omniglot = load_data(DataConfig(data="omniglot"), given.data_root)
    network = load_network("omniglot-small").eval()
    for what, vectors in (
        ("pixels averaged to 14 x 14", pixels),
        ("embeddings of omniglot-small", lambda images: by_class(images, embed_all(network, images.images)[0])),
    ):
        known = vectors(omniglot.train)
        labels = np.arange(len(known)).repeat(known.shape[1])
        head = train_head(known.reshape(len(labels), -1), labels)
        new = vectors(omniglot.test)
        found[f"omniglot: {what}"] = scores(new, "identity")
        found[f"omniglot: {what}, with a head"] = scores(new, head)
    print(json.dumps(found, indent=1))


def pixels(images: LabelledImages) -> np.ndarray:
    """(C, drawings, 196), the brightness between 0 and 1."""
    return by_class(images, F.avg_pool2d(images.images.float() / 255, 2))


def by_class(images: LabelledImages, vectors: torch.Tensor) -> np.ndarray:
    """(N, ...) -> (C, drawings, features)."""
    return vectors.reshape(images.way, len(images.images) // images.way, -1).numpy()


def scores(vectors: np.ndarray, encoder) -> dict[str, float]:
    """The share of queries that get their own label, by the number of examples."""
    rng = np.random.default_rng(0)
    C, M, _ = vectors.shape
    groups = rng.permutation(C)[: C // WAY * WAY].reshape(-1, WAY)
    drawn = np.take_along_axis(vectors, np.stack([rng.permutation(M) for _ in range(C)])[:, :, None], axis=1)
    right = dict.fromkeys(SHOTS, 0.0)
    for group in groups:
        for shot in SHOTS:
            clf = GaussianPrototypeClassifier(encoder)
            clf.fit(drawn[group, :shot].reshape(WAY * shot, -1), group.repeat(shot))
            answers = clf.predict(drawn[group, shot:].reshape(WAY * (M - shot), -1))
            right[shot] += (answers == group.repeat(M - shot)).mean() / len(groups)
    return {f"{WAY}-way {shot}-shot": round(accuracy, 4) for shot, accuracy in right.items()}


if __name__ == "__main__":
    main()
