"""Calibrate ten fine-tunings and measure the calibration error on classes that none of them has seen:

python -m benchmarks.finetuned [--photos ZIP_OR_FOLDER...] [--episodes N] [--out results.json]

Each fine-tuning starts from `drawings-small` and trains on half of the classes of a folder, without held-out classes.
`calibrate` then has only training classes to fit on. The other half measures the result. Without photos
(CLASS/IMAGE files, for example CIFAR-100 or PlantDoc), all ten are drawings.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

import gaussproto as gp
from benchmarks.command import parser, run
from gaussproto.cli import console
from gaussproto.config import read_config
from gaussproto.data.omniglot import omniglot
from gaussproto.evaluation.calibrate import calibrate, measure_confidence
from gaussproto.runs.folder import RunFolder

CLASSES, IMAGES, RUNS = 24, 20, 10
ALPHABETS = ("Gurmukhi", "Angelic", "Kannada", "Tengwar", "Manipuri")


def write_omniglot(folder: Path, alphabet: str) -> None:
    images = omniglot("test", 105)
    chosen = [c for c in range(images.way) if images.alphabets[c].startswith(alphabet)][:CLASSES]
    for c, drawings in enumerate(images.select(chosen).dense[:, :, 0].numpy()):
        _write(folder / f"{c:03d}", [Image.fromarray(255 - page) for page in drawings])


def write_invented(folder: Path, first: int) -> None:
    images = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test
    for c in range(first, min(first + CLASSES, images.way)):
        _write(folder / f"{c:03d}", [Image.fromarray(255 - page[0]) for page in images.dense[c].numpy()])


def write_photos(folder: Path, source: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    files = defaultdict(list)
    for name in sorted(image_names(source)):
        files[Path(name).parent.name].append(name)
    classes = [name for name, some in files.items() if len(some) >= IMAGES]
    for c in rng.choice(len(classes), min(CLASSES, len(classes)), replace=False):
        some = rng.choice(files[classes[c]], IMAGES, replace=False)
        _write(folder / classes[c].replace("/", "-"), open_photos(source, some))


def image_names(source: Path) -> list[str]:
    endings = (".png", ".jpg", ".jpeg")
    if source.is_dir():
        return [str(path) for path in source.glob("*/*") if path.suffix.lower() in endings]
    with zipfile.ZipFile(source) as file:
        return [name for name in file.namelist() if name.lower().endswith(endings)]


def open_photos(source: Path, names: Iterable[str]) -> list[Image.Image]:
    if source.is_dir():
        return [Image.open(name).convert("RGB") for name in names]
    with zipfile.ZipFile(source) as file:
        return [Image.open(io.BytesIO(file.read(name))).convert("RGB") for name in names]


def _write(folder: Path, images: list[Image.Image]) -> None:
    folder.mkdir(parents=True)
    for i, image in enumerate(images):
        image.save(folder / f"{i}.png")


def folders(root: Path, photos: list[Path]) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield a name, a folder of CLASS/IMAGE files and the settings of each fine-tuning."""
    drawings = RUNS - 2 * len(photos)
    for i in range(drawings):
        if i % 2 == 0 and i // 2 < len(ALPHABETS):
            name = ALPHABETS[i // 2]
            write_omniglot(root / name, name)
            yield f"Omniglot, {name}", root / name, {}
        else:
            name = f"invented {i}"
            write_invented(root / name, CLASSES * (i // 2))
            yield f"invented characters {i // 2 + 1}", root / name, {}
    for source in photos:
        for seed in range(2):
            name = f"{source.stem} {seed}"
            write_photos(root / name, source, seed)
            yield f"photos, {source.stem} {seed + 1}", root / name, {"channels": 3, "image_size": 32, "prepare": "none"}


def measured(name: str, folder: Path, settings: dict[str, Any], episodes: int, out: Path) -> dict[str, Any]:
    config = gp.preset("finetune", data=str(folder), test_fraction=0.5, episodes=episodes, **settings)
    gp.train(config, out=out)
    network = gp.load_network(out)
    split = gp.load_data(read_config(RunFolder(out).config).data.for_evaluation())
    calibration = calibrate(network, split.train, held_out=False)
    evidence = calibration.evidence
    assert evidence is not None
    likeliest = calibration.model_copy(update={"temperature": evidence.fitted, "scaled": True})
    kept, fitted = (measure_confidence(network, split.test, one) for one in (calibration, likeliest))
    return {
        "name": name,
        "fitted": evidence.fitted,
        "temperature": calibration.temperature,
        "at 1": 100 * float(np.mean([one.ece_before for one in kept])),
        "likeliest": 100 * float(np.mean([one.ece_after for one in fitted])),
        "calibrated": 100 * float(np.mean([one.ece_after for one in kept])),
        "accuracy": 100 * float(np.mean([one.accuracy for one in kept])),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--photos", action="append", type=Path, default=[])
    options.add_argument("--episodes", type=int, default=100)
    options.add_argument("--out", type=Path, help="JSON file for the results")
    chosen = options.parse_args()
    rows = []
    with TemporaryDirectory() as root:
        for number, (name, folder, settings) in enumerate(folders(Path(root), chosen.photos)):
            row = measured(name, folder, settings, chosen.episodes, Path(root) / f"run {number}")
            console.say(json.dumps(row))
            rows.append(row)
            if chosen.out:
                chosen.out.write_text(json.dumps(rows, indent=1) + "\n")
    columns = ["accuracy", "at 1", "likeliest", "calibrated"]
    text = [[row["name"], f"{row['fitted']:.2f}", *(f"{row[each]:.2f}" for each in columns)] for row in rows]
    console.print_table("", ["fine-tuned on", "likeliest T", *columns], text, right=1)
    raised = sum(row["calibrated"] > row["at 1"] + 1e-9 for row in rows)
    console.say(f"the calibration raises the error of {raised} of {len(rows)} fine-tunings")


if __name__ == "__main__":
    run(main)
