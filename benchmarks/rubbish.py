"""Measure how much rubbish `reject` accepts, and update `docs/classifier.md`:

python -m benchmarks.rubbish [--weights drawings-small] [--photos ZIP_OR_FOLDER...] [--publish]

Every number is from the classifier with `reject=0.05`, on classes of Omniglot's test alphabets (GAUSSPROTO_DATA).
Known images are other drawings of the classes, unknown characters are drawings of other classes. Photos are CLASS/IMAGE
files, for example CIFAR-100 or PlantDoc.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gaussproto as gp
from benchmarks.command import parser, run
from benchmarks.finetuned import image_names, open_photos
from benchmarks.measure import ROOT
from benchmarks.rubbish_kinds import KINDS, SIDE
from gaussproto.data.omniglot import omniglot

RESULTS, PAGE = ROOT / "benchmarks" / "rubbish.json", ROOT / "docs" / "classifier.md"
RATE, QUERIES = 0.05, 5
TASKS = ((5, 5), (20, 5), (100, 5), (20, 1))  # ways and shots
EPISODES = {5: 12, 20: 8, 100: 2}
EACH, PHOTOS = 40, 200  # images of a kind in an episode, and of which photos are drawn


def rubbish(rng: np.random.Generator, photos: list[Path]) -> Iterator[tuple[str, list[np.ndarray]]]:
    for name, draw in KINDS.items():
        yield name, [draw(rng) for _ in range(EACH)]
    for source in photos:
        some = photos_of(source)
        yield f"photos ({source.stem})", [some[i] for i in rng.choice(len(some), EACH, replace=False)]
    invented = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test
    pages = 255 - invented.dense[:, 0, 0].numpy()
    yield "invented characters", list(pages[rng.choice(len(pages), EACH, replace=False)])


@cache
def photos_of(source: Path) -> list[np.ndarray]:
    names = np.random.default_rng(0).choice(sorted(image_names(source)), PHOTOS, replace=False)
    return [np.asarray(photo) for photo in open_photos(source, names)]


def measured(weights: str, photos: list[Path]) -> dict[str, Any]:
    """Return the share of images that are accepted, in %, by way, shot and kind."""
    images = omniglot("test", SIDE)
    pages = images.dense[:, :, 0].numpy()
    rows: dict[str, Any] = {}
    for way, shot in TASKS:
        accepted: dict[str, list[float]] = {}
        for seed in range(EPISODES[way]):
            rng = np.random.default_rng(seed)
            classes = rng.permutation(len(pages))
            order = rng.permutation(pages.shape[1])
            examples, known = (
                pages[classes[:way]][:, order[:shot]],
                pages[classes[:way]][:, order[shot : shot + QUERIES]],
            )
            clf = gp.GaussianPrototypeClassifier(weights, reject=RATE)
            clf.fit(examples.reshape(-1, SIDE, SIDE), np.repeat(np.arange(way), shot))
            others = pages[classes[way : way + EACH], order[0]]
            kinds = [("known images", list(known.reshape(-1, SIDE, SIDE))), ("unknown characters", list(others))]
            with warnings.catch_warnings(action="ignore", category=gp.ImageWarning):  # blank, and unlike the examples
                for name, some in (*kinds, *rubbish(rng, photos)):
                    share = 1 - float(clf.confidence(some).unknown.mean())
                    accepted.setdefault(name, []).append(share)
        for name, shares in accepted.items():
            rows.setdefault(name, {})[f"{way}-way {shot}-shot"] = round(100 * float(np.mean(shares)), 1)
    return rows


def table(rows: dict[str, Any]) -> str:
    tasks = list(next(iter(rows.values())))
    lines = [["accepted, in %", *tasks], ["---"] * (1 + len(tasks))]
    lines += [[name, *(f"{row[task]:.1f}" for task in tasks)] for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--weights", default="drawings-small")
    options.add_argument("--photos", action="append", type=Path, default=[])
    options.add_argument("--publish", action="store_true", help="fill the table of the page")
    chosen = options.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not chosen.publish:
        results[chosen.weights] = measured(chosen.weights, chosen.photos)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results[chosen.weights]))
    if chosen.publish:
        before, rest = PAGE.read_text().split("<!-- rubbish -->")
        after = rest.split("<!-- end -->", 1)[1]
        PAGE.write_text(f"{before}<!-- rubbish -->\n{table(results[chosen.weights])}\n<!-- end -->{after}")


if __name__ == "__main__":
    run(main)
