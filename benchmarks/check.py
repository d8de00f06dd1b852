"""Measure how well `check` finds planted wrong labels and damaged images, and update `docs/check.md`:

python -m benchmarks.check [--weights drawings-small] [--repetitions 10] [--publish]

Beside it stand cleanlab's label quality scores of the same leave-one-out probabilities (extra `bench`)
and the precision alone. Omniglot's test alphabets must be at hand (GAUSSPROTO_DATA).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFilter
from sklearn.metrics import average_precision_score, roc_auc_score

import gaussproto as gp
from benchmarks.command import parser, run
from benchmarks.conditions import SIDE
from benchmarks.measure import ROOT
from gaussproto.classifier.check import check_examples, relative_precision
from gaussproto.classifier.confidence import temperature_of
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.examples import Examples
from gaussproto.classifier.left_out import Metric, left_out_distances
from gaussproto.data.damage import down_sample
from gaussproto.data.omniglot import omniglot
from gaussproto.errors import import_extra
from gaussproto.formulas.confidence import probabilities
from gaussproto.formulas.embedded import Embedded

PAGE = ROOT / "docs" / "check.md"
CLASSES, SHOT, SHARES, DAMAGED = 100, 5, (0.05, 0.1, 0.2), 0.1
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
Seen = tuple[Embedded[np.ndarray], np.ndarray]  # of all drawings, and whether each is blank


def damaged_to(pixels: np.ndarray, size: int) -> np.ndarray:
    """Down-sample what the network sees, as in the paper, (N, 1, 28, 28)."""
    small = down_sample(torch.from_numpy(pixels).float() / 255, size)
    return (255 * small).round().clamp(0, 255).byte().numpy()


def down_and_up(page: Image.Image, size: int) -> Image.Image:
    return page.resize((size, size), Image.Resampling.BILINEAR).resize(page.size, Image.Resampling.BILINEAR)


PAGES: dict[str, Callable[[Image.Image], Image.Image]] = {  # damage of the page, before it is prepared
    "page down-sampled to 7 x 7": lambda page: down_and_up(page, 7),
    "page blurred, radius 5 of 105 pixels": lambda page: page.filter(ImageFilter.GaussianBlur(5)),
    "page blurred, radius 3": lambda page: page.filter(ImageFilter.GaussianBlur(3)),
}
SEEN = {"7 x 7": 7, "5 x 5": 5, "10 x 10": 10}  # damage of the prepared drawing


def embedded(encoder: Any) -> dict[str, Seen]:
    """Embed ten drawings of each test character, clean and with every kind of damage."""
    pages = omniglot("test", SIDE).dense[:, :10, 0].numpy().reshape(-1, SIDE, SIDE)

    def look(change: Callable[[Image.Image], Image.Image]) -> tuple[np.ndarray, np.ndarray]:
        seen = [encoder.look.see(change(Image.fromarray(page))) for page in pages]
        return np.stack([pixels for pixels, _ in seen]), np.array([blank for _, blank in seen])

    pixels, blank = look(lambda page: page)
    result = {"clean": (encoder.embed(pixels), blank)}
    for name, size in SEEN.items():
        result[name] = encoder.embed(damaged_to(pixels, size)), blank
    for name, change in PAGES.items():
        changed, found = look(change)
        result[name] = encoder.embed(changed), found
    return result


def wrong_labels(rng: np.random.Generator, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (N,) of which a share is exchanged with others, so that classes keep their size, and which."""
    truth = np.repeat(np.arange(CLASSES), SHOT)
    chosen = rng.choice(len(truth), round(share * len(truth)), replace=False)
    labels = truth.copy()
    labels[chosen] = rng.permutation(truth[chosen])
    while (same := chosen[labels[chosen] == truth[chosen]]).size:
        for i in same:
            j = rng.choice(chosen)
            labels[i], labels[j] = labels[j], labels[i]
    return labels, labels != truth


def quality(labels: np.ndarray, p: np.ndarray, method: str) -> np.ndarray:
    """Return cleanlab's label quality scores."""
    rank = import_extra("cleanlab.rank", "bench")
    return np.asarray(rank.get_label_quality_scores(labels, p, method=method))


def checked(
    encoder: Any, x: np.ndarray, s: np.ndarray, blank: np.ndarray, labels: np.ndarray, files: list[str]
) -> tuple[Any, Examples]:
    examples = Examples.of(Embedded(x, s), labels.tolist(), files, blank=blank)
    return check_examples(examples, encoder, None, encoder.distance, False), examples


def write_pages(folder: Path) -> list[str]:
    """Write the same drawings as files, whose pictures `check` compares to find copies."""
    pages = omniglot("test", SIDE).dense[:, :10, 0].numpy().reshape(-1, SIDE, SIDE)
    files = [folder / f"{i}.png" for i in range(len(pages))]
    for file, page in zip(files, pages, strict=True):
        Image.fromarray(page).save(file)
    return list(map(str, files))


def measured(
    encoder: Any, repetitions: int, files: list[str], progress: Callable[[int], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return average precisions by share of wrong labels, and AUROCs by kind of damage: a list for each method."""
    test = embedded(encoder)
    (x, s), blank = test["clean"]
    total = len(x) // 10
    labels_found: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    damage_found: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for repetition in range(repetitions):
        rng = np.random.default_rng(repetition)
        classes = rng.choice(total, CLASSES, replace=False)
        drawn = (10 * classes[:, None] + np.stack([rng.permutation(10)[:SHOT] for _ in classes])).ravel()
        names = [files[i] for i in drawn]
        for share in SHARES:
            labels, wrong = wrong_labels(rng, share)
            check, examples = checked(encoder, x[drawn], s[drawn], blank[drawn], labels, names)
            metric = Metric(
                encoder.distance,
                False,
                temperature_of(encoder, None, len(examples.embedded) / len(examples.classes), encoder.distance, False),
            )
            p = np.concatenate([probabilities(d, metric.temperature) for _, d in left_out_distances(examples, metric)])
            margin = np.array([row.margin for row in sorted(check.examples, key=lambda row: row.index)])
            scores = {"check, `margin`": margin, "check, all reasons": check.suspicion} | {
                f"cleanlab, {m}": -quality(labels, p, m) for m in CLEANLAB
            }
            scores["precision alone"] = -s[drawn][:, 0]
            for name, score in scores.items():
                labels_found[name][share].append(average_precision_score(wrong, score))
            listed = np.isin(np.arange(len(wrong)), [row.index for row in check.suspicious])
            truth = np.repeat(np.arange(CLASSES), SHOT)
            right_class = [row.looks_like == truth[row.index] for row in check.suspicious if wrong[row.index]]
            labels_found["listed, of the wrong"][share].append(listed[wrong].mean())
            labels_found["listed, of the right"][share].append(listed[~wrong].mean())
            labels_found["right class named"][share].append(np.mean(right_class))
        truth = np.repeat(np.arange(CLASSES), SHOT)
        bad = rng.random(len(drawn)) < DAMAGED
        for kind, (changed, found) in test.items():
            if kind == "clean":
                check, _ = checked(encoder, x[drawn], s[drawn], blank[drawn], truth, names)
                damage_found[kind]["listed"].append(len(check.suspicious) / len(drawn))
                continue
            mixed = [np.where(bad[:, None], b[drawn], a[drawn]) for a, b in ((x, changed.x), (s, changed.s))]
            lost = np.where(bad, found[drawn], blank[drawn])
            check, examples = checked(encoder, *mixed, lost, truth, names)
            poor = -np.log(relative_precision(examples))
            poor[lost] = poor.max() + 1
            damage_found[kind]["check"].append(roc_auc_score(bad, check.suspicion))
            damage_found[kind]["precision in its class"].append(roc_auc_score(bad, poor))
            damage_found[kind]["precision alone"].append(roc_auc_score(bad, -mixed[1][:, 0]))
            damage_found[kind]["blank"].append(lost[bad].mean())
        progress(repetition + 1)
    return labels_found, damage_found


def table(labels_found: dict[str, Any], damage_found: dict[str, Any]) -> str:
    """Return the two tables of the page."""
    head = ["average precision", *(f"{100 * share:.0f} % wrong" for share in SHARES)]
    lines = [_line(head), _line(["---"] * len(head))]
    for name, by_share in labels_found.items():
        text = _percent if name.startswith(("listed", "right")) else _score
        lines.append(_line([name, *(text(by_share[share]) for share in SHARES)]))
    best = max(CLEANLAB, key=lambda method: np.mean([labels_found[f"cleanlab, {method}"][share] for share in SHARES]))
    pairs = [[labels_found[name][share] for share in SHARES] for name in ("check, all reasons", f"cleanlab, {best}")]
    gains = [np.subtract(ours, theirs) for ours, theirs in zip(*pairs, strict=True)]
    lines.append(_line([f"check, all reasons, minus cleanlab, {best}", *map(_score, gains)]))
    lines += ["", f"Without wrong labels, {_percent(damage_found['clean']['listed'])} of the examples are listed.", ""]
    head = ["AUROC", "all reasons", "precision in its class", "precision alone", "found to be blank"]
    lines += [_line(head), _line(["---"] * len(head))]
    for kind, found in damage_found.items():
        if kind == "clean":
            continue
        scores = [_score(found[name]) for name in ("check", "precision in its class", "precision alone")]
        lines.append(_line([kind, *scores, _percent(found["blank"])]))
    return "\n".join(lines)


def _score(values: list[float] | np.ndarray) -> str:
    half = 1.96 * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.4f}" + (f" ± {half:.4f}" if half >= 5e-5 else "")


def _percent(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} %"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--weights", default="drawings-small")
    options.add_argument("--repetitions", type=int, default=10)
    options.add_argument("--publish", action="store_true", help="fill the tables of the page")
    chosen = options.parse_args()
    if chosen.repetitions < 2:
        raise gp.InputError(f"--repetitions must be at least 2 (found {chosen.repetitions})")
    encoder = find_encoder(chosen.weights)
    with TemporaryDirectory() as folder:
        files = write_pages(Path(folder))
        found = measured(
            encoder, chosen.repetitions, files, lambda n: print(f"{n} of {chosen.repetitions}", flush=True)
        )
    result = table(*found)
    print(result)
    if chosen.publish:
        before, rest = PAGE.read_text().split("<!-- measured -->")
        end = rest.split("<!-- end -->", 1)[1]
        PAGE.write_text(f"{before}<!-- measured -->\n{result}\n<!-- end -->{end}")


if __name__ == "__main__":
    run(main)
