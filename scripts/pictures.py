"""Draw the pictures of the documentation that show drawings: `python -m scripts.pictures runs/demo`.

The run is the one of `make demo`. The drawings are invented ones, so that no picture needs another data set.
"""

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

import gaussproto as gp
from benchmarks.conditions import CONDITIONS, SIDE
from gaussproto.data.damage import down_sample
from gaussproto.data.ink import prepare_ink, reduced_grey
from gaussproto.data.strokes import strokes
from gaussproto.figures.style import clear, new_figure, render, styled

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FIGURES = {1: "network.svg", 2: "space.svg", 3: "rotations.svg", 10: "map.png", 11: "dots.svg"}
NAMES = ("oar", "kite", "harp", "lamp", "fern", "bell")
SHOTS, BLURRED, SIZE = 5, 3, 7  # examples of a class, how many of them are blurred, and to how many pixels
SHOWN = {  # the conditions in the picture of prepared drawings, and their titles
    "as it is": "as it is",
    "a third of the size": "small",
    "bolder still (11)": "with a\nmarker",
    "framed by a box": "in a box",
    "photographed": "photo-\ngraphed",
    "under a lamp": "under a\nlamp",
    "in a shadow": "in a\nshadow",
    "squared paper": "on squared\npaper",
    "coloured paper": "on coloured\npaper",
    "chalk on a board": "with chalk",
}


def draw_figures(run: Path) -> None:
    with TemporaryDirectory() as folder:
        for number, name in FIGURES.items():
            gp.write_figure(number, {"demo": run}, folder)
            shutil.copy(Path(folder, f"figure-{number:02}{Path(name).suffix}"), IMAGES / name)


def draw_explanation(seed: int = 1734) -> None:
    """Explain a query that is right with weighted examples and would be wrong if all counted the same.

    The search starts at the seed; the default is the first that finds a clear one.
    """
    test = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test
    for episode in range(seed, seed + 10_000):
        drawn = gp.sample_episode(test, len(NAMES), SHOTS + 1, torch.Generator().manual_seed(episode))
        images = drawn[:, :SHOTS].clone()
        blurred = down_sample(images[:, -BLURRED:].flatten(0, 1).float() / 255, SIZE)
        images[:, -BLURRED:] = (255 * blurred).round().byte().view_as(images[:, -BLURRED:])
        clf = gp.GaussianPrototypeClassifier("drawings-small", ink="bright")
        clf.fit(images.flatten(0, 1).numpy(), np.repeat(NAMES, SHOTS))
        query = drawn[:, SHOTS].numpy()
        equal = np.stack([clf.example_embeddings_[clf.example_labels_ == name].mean(axis=0) for name in clf.classes_])
        by_mean = np.linalg.norm(clf.transform(query)[:, None] - equal, axis=2).argmin(axis=1)
        sure = clf.predict_proba(query).max(axis=1)
        helped = (clf.predict(query) == NAMES) & (clf.classes_[by_mean] != NAMES) & (sure > 0.98)
        if helped.any():
            return save_explanation(images, query, int(helped.argmax()), clf.classes_[by_mean], episode)
    raise SystemExit("no query is helped by the weights: train them again")


def save_explanation(images: torch.Tensor, query: np.ndarray, chosen: int, by_mean: np.ndarray, episode: int) -> None:
    with TemporaryDirectory() as place:
        for c, name in enumerate(NAMES):
            for i, pixels in enumerate(images[c, :, 0].numpy()):
                file = Path(place, "my_images", name, f"{i}.png")
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(255 - pixels).save(file)
        file = Path(place, "new.png")
        Image.fromarray(255 - query[chosen, 0]).save(file)
        clf = gp.GaussianPrototypeClassifier("drawings-small").fit(Path(place, "my_images"))
        clf.explain([file], IMAGES / "why.png")
    print(f"why.png: episode {episode}, {NAMES[chosen]}; with equal weights it would be {by_mean[chosen]}")


@styled
def draw_prepared(character: int = 20) -> None:
    """Draw one character under several conditions, as it came and as the network sees it."""
    page = strokes(size=SIDE).dense[character, 0, 0].numpy()
    figure = new_figure(9, 2.3)
    axes = figure.subplots(2, len(SHOWN))
    for number, (condition, title) in enumerate(SHOWN.items()):
        bright = CONDITIONS[condition](page, np.random.default_rng(number))
        given = 255 - bright if np.median(bright) == 0 else bright  # on white paper
        seen = prepare_ink(reduced_grey(Image.fromarray(given)), 28)
        for axis, pixels in zip(axes[:, number], (given, seen), strict=True):
            axis.imshow(pixels, cmap="gray", vmin=0, vmax=255)
            clear(axis, frame=True)
        axes[0, number].set_title(title, fontweight="normal", loc="center")
    axes[0, 0].set_ylabel("as it\ncame")
    axes[1, 0].set_ylabel("as it\nis seen")
    (IMAGES / "prepared.png").write_bytes(render(figure, "png"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    draw_figures(parser.parse_args().run)
    draw_explanation()
    draw_prepared()
