"""Measure classifiers on drawings that differ from Omniglot's as people's own do:

python -m benchmarks.drawings --weights drawings-small [--weights NAME...] [--prepare none]
python -m benchmarks.drawings --weights runs/mine --holdout 5
python -m benchmarks.drawings --publish

Every condition is measured with changed queries, with changed supports, and with both changed. Omniglot must be at hand
(GAUSSPROTO_DATA). With --holdout, the training alphabets that a run held out are measured instead of the test
alphabets, to compare recipes; nothing is stored. --publish fills `docs/drawings.md` and the cards of bundled weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.command import parser, run
from benchmarks.conditions import CONDITIONS, SIDE
from benchmarks.measure import ROOT
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import omniglot
from gaussproto.files import write_then_rename
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.pretrained import FOLDER, bundled_names

RESULTS, PAGE = ROOT / "benchmarks" / "drawings.json", ROOT / "docs" / "drawings.md"
DEFAULT = "drawings-small"  # the classifier's default encoder for drawings, which the page shows in detail
WAY, QUERIES, EPISODES, TURNS = 20, 5, 600, 4
Part = tuple[np.ndarray, np.ndarray | None]  # embeddings and precisions, (classes, 20, D) and (classes, 20, 1)


def measured(weights: str, prepare: Any, every: int, holdout: int = 0) -> dict[str, Any]:
    """Return the accuracy in % for each condition, and the precision of changed drawings relative to clean ones."""
    encoder = find_encoder(weights, prepare=prepare)
    images = omniglot("test", SIDE)
    if holdout:
        images = load_data(DataConfig(data="omniglot", image_size=SIDE, rotations=False, holdout=holdout)).test
    pages = images.dense[::every, :, 0].numpy()
    embedded = {}
    for number, (name, change) in enumerate(CONDITIONS.items()):
        rng = np.random.default_rng(number)
        looks = (encoder.look.see(Image.fromarray(change(page, rng))) for page in pages.reshape(-1, SIDE, SIDE))
        seen = np.stack([pixels for pixels, _ in looks])
        turned = np.concatenate([np.rot90(seen, turn, axes=(-2, -1)) for turn in range(TURNS)])
        embedded[name] = by_class(encoder.embed(np.ascontiguousarray(turned)), len(pages) * TURNS)
    clean = embedded["as it is"]
    rows = {}
    for name, changed in embedded.items():
        pairs = {"queries": (clean, changed), "supports": (changed, clean), "both": (changed, changed)}
        rows[name] = {
            which: [accuracy(*pair, shot, encoder.distance) for shot in (1, 5)]
            for which, pair in pairs.items()
            if name != "as it is" or which == "queries"
        }
        if clean[1] is not None and changed[1] is not None:
            share = changed[1] / (changed[1] + 4 * clean[1])
            rows[name]["share"] = round(100 * float(share.mean()), 1)
    return rows


def by_class(embedded: Embedded[np.ndarray], classes: int) -> Part:
    x, s = embedded
    return x.reshape(classes, -1, x.shape[-1]), None if s is None else s.reshape(classes, -1, s.shape[-1])


def accuracy(supports: Part, queries: Part, shot: int, distance: str) -> float:
    """Return the accuracy in % over random episodes. No drawing is support and query of the same episode."""
    rng, right = np.random.default_rng(0), 0
    x, s = supports
    for _ in range(EPISODES):
        classes = rng.choice(len(x), WAY, replace=False)
        order = np.stack([rng.permutation(x.shape[1]) for _ in classes])
        chosen, asked = order[:, :shot], order[:, shot : shot + QUERIES]
        of_class = x[classes[:, None], chosen]
        weight = np.ones((WAY, shot, 1)) if s is None else s[classes[:, None], chosen]
        prototypes = (weight * of_class).sum(axis=1) / weight.sum(axis=1)
        asked_x = queries[0][classes[:, None], asked].reshape(WAY * QUERIES, -1)
        d = find_distance(distance).value(asked_x, prototypes, None)
        right += int((d.argmin(axis=1) == np.repeat(np.arange(WAY), QUERIES)).sum())
    return round(100 * right / (EPISODES * WAY * QUERIES), 1)


def table(results: dict[str, Any]) -> str:
    """Return the tables of the page: accuracy by condition, and the weight of a bad example."""
    names = list(results)
    head = ["query", *(f"`{name}`" for name in names)]
    lines = [_line(head), _line(["---"] * len(head))]
    for condition in CONDITIONS:
        cells = [_both(results[name][condition]["queries"]) if condition in results[name] else "" for name in names]
        lines.append(_line([condition, *cells]))
    detailed = DEFAULT if DEFAULT in results else names[-1]
    head = ["condition", "queries changed", "supports changed", "both changed", "share of one bad example in five"]
    lines += ["", f"With `{detailed}`:", "", _line(head), _line(["---"] * len(head))]
    for condition, row in results[detailed].items():
        cells = [_both(row[which]) if which in row else "" for which in ("queries", "supports", "both")]
        lines.append(_line([condition, *cells, f"{row['share']} %" if "share" in row else ""]))
    return "\n".join(lines)


def _both(scores: list[float]) -> str:
    return f"{scores[0]:.1f} / {scores[1]:.1f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--weights", action="append", default=[])
    options.add_argument("--prepare", default="auto")
    options.add_argument("--every", type=int, default=4, help="measure every n-th character")
    options.add_argument("--holdout", type=int, default=0, help="measure the alphabets that such a run holds out")
    options.add_argument("--publish", action="store_true", help="fill the tables of the page")
    chosen = options.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for weights in chosen.weights:
        rows = measured(weights, chosen.prepare, chosen.every, chosen.holdout)
        name = weights.rstrip("/").rsplit("/", 1)[-1]
        if chosen.holdout:
            print(table({name: rows}))
            continue
        results[name if chosen.prepare == "auto" else f"{name}, {chosen.prepare}"] = rows
        print(table({name: rows}))
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if chosen.publish:
        fill(PAGE, table(results))
        for name in results.keys() & set(bundled_names()):
            fill(FOLDER / f"{name}.md", in_short(results[name]))


def fill(page: Path, text: str) -> None:
    """Replace what the page says between `<!-- measured -->` and `<!-- end -->`."""
    before, rest = page.read_text().split("<!-- measured -->")
    after = rest.split("<!-- end -->", 1)[1]
    with write_then_rename(page) as temporary:
        temporary.write_text(f"{before}<!-- measured -->\n{text}\n<!-- end -->{after}")


def in_short(rows: dict[str, Any]) -> str:
    """Return the table of a card: the accuracy with changed queries."""
    lines = [_line(["query", "1-shot", "5-shot"]), _line(["---"] * 3)]
    return "\n".join(lines + [_line([name, *map(str, row["queries"])]) for name, row in rows.items()])


if __name__ == "__main__":
    run(main)
