"""Measure what `suggest` gains over a random choice of the images to label, and update `docs/classifier.md`:

python -m benchmarks.suggest [--weights drawings-small] [--publish]

Each repetition draws 20 classes. Ten images of each class are unlabelled, and ten measure the accuracy. Five labels are
added at a time, eight times. Every class starts with one example, or only every other class has one. The pool may also
hold 48 pieces of rubbish, which cost a label and teach nothing.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from PIL import Image
from scipy import stats

import gaussproto as gp
from benchmarks.command import parser, run
from benchmarks.measure import ROOT
from benchmarks.rubbish_kinds import KINDS, SIDE
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.inputs import Images
from gaussproto.classifier.suggest import most_valuable
from gaussproto.data.omniglot import omniglot
from gaussproto.formulas.embedded import Embedded

RESULTS, PAGE = ROOT / "benchmarks" / "suggest.json", ROOT / "docs" / "classifier.md"
WAY, POOL, BATCH, STEPS, REPETITIONS, EVERY = 20, 10, 5, 8, 40, 3
RUBBISH = ("specks", "noise", "checkerboard, stripes", "lines of text", "stains", "scribbles")
SHOWN = (0, 2, 4, 8)  # steps in the table


def embedded_pages(encoder: Encoder, pages: list[np.ndarray]) -> Embedded[np.ndarray]:
    return encoder.embed(np.stack([encoder.look.see(Image.fromarray(page))[0] for page in pages]))


def accuracies(
    encoder: Encoder, classes: Embedded[np.ndarray], rubbish: Embedded[np.ndarray], start: int, seed: int, ask: bool
) -> list[float]:
    """Return the accuracy after each batch of labels, with `suggest` or with a random choice."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(classes.x))[:WAY]
    order = np.stack([rng.permutation(classes.x.shape[1]) for _ in chosen])
    images = classes[chosen[:, None], order]  # (WAY, 20)
    labels = np.repeat(np.arange(WAY), POOL)
    test = images[:, POOL:].map(lambda t: t.reshape(-1, t.shape[-1]))
    truth = np.repeat(np.arange(WAY), classes.x.shape[1] - POOL)
    pool = Embedded.join([images[:, :POOL].map(lambda t: t.reshape(-1, t.shape[-1])), rubbish], np.concatenate)
    labels = np.concatenate([labels, np.full(len(rubbish), -1)])
    known = [c * POOL for c in range(start)]
    free = np.setdiff1d(np.arange(len(labels)), known)
    found = []
    for step in range(STEPS + 1):
        clf = gp.GaussianPrototypeClassifier(encoder.source)
        clf.restore(encoder, pool[known], labels[known].tolist(), [""] * len(known))
        d = clf.confidence_of(test, Images.none(len(test))).distances
        found.append(float((clf.classes_[d.argmin(axis=1)] == truth).mean()))
        if step == STEPS:
            break
        if ask:
            p = clf.confidence_of(pool[free], Images.none(len(free))).probabilities
            blank = np.zeros(len(free), dtype=bool)
            picks, _ = most_valuable(*pool[free], p, blank, pool[known].s, BATCH)
        else:
            picks = rng.choice(len(free), BATCH, replace=False).tolist()
        taken = free[picks]
        known += [int(i) for i in taken if labels[i] >= 0]
        free = np.setdiff1d(free, taken)
    return found


def measured(weights: str) -> dict[str, Any]:
    encoder = find_encoder(weights)
    rng = np.random.default_rng(0)
    waste = embedded_pages(encoder, [KINDS[kind](rng) for kind in RUBBISH for _ in range(8)])
    drawn = omniglot("test", SIDE).dense[::EVERY, :, 0].numpy()
    invented = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test.dense[:, :, 0].numpy()
    rows: dict[str, Any] = {}
    for name, pages in (("Omniglot", drawn), ("invented characters", 255 - invented)):
        flat = embedded_pages(encoder, list(pages.reshape(-1, *pages.shape[2:])))
        classes = flat.map(lambda t, pages=pages: t.reshape(*pages.shape[:2], -1))
        for start in (WAY, WAY // 2):
            for rubbish in (False, True):
                extra = waste if rubbish else waste[:0]
                pairs = np.array(
                    [
                        [accuracies(encoder, classes, extra, start, seed, ask) for ask in (False, True)]
                        for seed in range(REPETITIONS)
                    ]
                )  # (repetitions, 2, steps + 1)
                gains = (pairs[:, 1] - pairs[:, 0])[:, 1:].mean(axis=1)
                half = stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains)
                what = f"{name}, {start} of {WAY} classes known" + (", rubbish in the pool" if rubbish else "")
                rows[what] = {
                    "random": (100 * pairs[:, 0].mean(axis=0)).round(2).tolist(),
                    "suggest": (100 * pairs[:, 1].mean(axis=0)).round(2).tolist(),
                    "gain": round(100 * float(gains.mean()), 2),
                    "interval": round(100 * float(half), 2),
                }
                print(what, rows[what], flush=True)
    return rows


def table(rows: dict[str, Any]) -> str:
    labels = [f"{BATCH * step} labels" for step in SHOWN[1:]]
    lines = [["random / suggested, in %", "start", *labels, "mean gain"], ["---"] * (3 + len(labels))]
    for name, row in rows.items():
        cells = [f"{row['random'][step]:.1f} / {row['suggest'][step]:.1f}" for step in SHOWN[1:]]
        gain = f"{row['gain']:+.1f} ± {row['interval']:.1f}"
        lines.append([name, f"{row['random'][0]:.1f}", *cells, gain])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--weights", default="drawings-small")
    options.add_argument("--publish", action="store_true", help="fill the table of the page")
    chosen = options.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not chosen.publish:
        results[chosen.weights] = measured(chosen.weights)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results[chosen.weights]))
    if chosen.publish:
        before, rest = PAGE.read_text().split("<!-- suggest -->")
        after = rest.split("<!-- end -->", 1)[1]
        PAGE.write_text(f"{before}<!-- suggest -->\n{table(results[chosen.weights])}\n<!-- end -->{after}")


if __name__ == "__main__":
    run(main)
