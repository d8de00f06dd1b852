"""Train the head of the photo encoder on PlantDoc and CIFAR-100, and write it in half precision.

python scripts/photo_head.py plantdoc.zip cifar100.zip head.safetensors [--cache FOLDER] [--evaluate]

On PlantDoc alone the head would learn that only leaves matter, and be worse than no head on other photos.

The head is trained in two steps, both by episodes. The first step learns the embedding from good photos. It starts from
the axes in which photos of the same class differ least. The second step learns the precision from classes in which some
supports were made worse: blurred, dark, noisy, cropped, covered, compressed or small.

With --evaluate it also trains heads on two thirds of the plant classes, and prints their accuracy on the remaining third.
"""

import argparse
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Tensor

from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.model.lite import load_lite
from gaussproto.model.lite_plan import FEATURES, IMAGE_SIZE
from gaussproto.model.photo_head import PhotoHead
from gaussproto.training.step import episode_loss

SEED = 0
BATCH = 8
FEWEST = 10  # photos; smaller classes are left out
OTHERS = 60  # photos of each of the other classes
DUPLICATE = 0.995  # cosine of features of the same photo, saved twice
D, SHRINK = 128, 0.9  # size of the embedding; how far the scatter within classes is moved towards a sphere
SHARPNESS = 5.0
WAY, QUERY, SHOTS, EPISODES = 18, 10, (1, 5), 400
PRECISION_SHOT, PRECISION_EPISODES, BAD = 5, 600, 0.3  # BAD: share of bad supports
PARTS = 3  # of the training classes, to learn the precision
EQUAL = 1.0  # how strongly good photos are kept at the largest precision
RATE, PRECISION_RATE, SHARPNESS_RATE = 1e-2, 1e-3, 1e-2  # RATE is relative to the size of the weights

Defect = Callable[[Image.Image, np.random.Generator], Image.Image]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path, help="a zip file of FOLDER/CLASS/NAME.jpg")
    parser.add_argument("others", type=Path, help="a zip file of other photos, FOLDER/CLASS/train_NAME.png")
    parser.add_argument("head", type=Path)
    parser.add_argument("--cache", type=Path, help="a folder for the features, which take minutes")
    parser.add_argument("--evaluate", action="store_true")
    given = parser.parse_args()
    labels, good, bad = load_features(given.photos, given.cache)
    others = load_others(given.others, given.cache)
    if given.evaluate:
        evaluate(labels, good, bad, others)
    head = train(labels, good, bad, others)
    head.save(given.head, torch.float16)
    print(f"{given.head}: {given.head.stat().st_size:,} bytes")


def square(photo: Image.Image) -> Image.Image:
    """Cut the largest square from the middle and resize it."""
    W, H = photo.size
    side = min(W, H)
    box = ((W - side) / 2, (H - side) / 2, (W + side) / 2, (H + side) / 2)
    return photo.convert("RGB").resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC, box=box)


def blurred(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    return photo.filter(ImageFilter.GaussianBlur(rng.uniform(4, 10)))


def dark(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = rng.uniform(0.05, 0.2)
    return photo.point(lambda value: value * factor)


def noisy(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    pixels = np.asarray(photo, dtype=np.float32)
    pixels = pixels + rng.normal(0, rng.uniform(40, 100), pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def cropped(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    side = IMAGE_SIZE * rng.uniform(0.15, 0.3)
    x, y = rng.uniform(0, IMAGE_SIZE - side, 2)
    return photo.resize(photo.size, Image.Resampling.BICUBIC, box=(x, y, x + side, y + side))


def covered(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    share, ratio = rng.uniform(0.5, 0.8), rng.uniform(0.8, 1.25)
    W, H = (min(IMAGE_SIZE, round(IMAGE_SIZE * (share * factor) ** 0.5)) for factor in (ratio, 1 / ratio))
    x, y = int(rng.integers(0, IMAGE_SIZE - W + 1)), int(rng.integers(0, IMAGE_SIZE - H + 1))
    photo = photo.copy()
    photo.paste((128, 128, 128), (x, y, x + W, y + H))
    return photo


def compressed(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=10)
    return Image.open(file).convert("RGB")


def small(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    return photo.resize((24, 24), Image.Resampling.BOX).resize(photo.size, Image.Resampling.BICUBIC)


DEFECTS: dict[str, Defect] = {
    "blur": blurred, "dark": dark, "noise": noisy, "crop": cropped, "occlusion": covered, "jpeg": compressed,
    "small": small,
}  # fmt: skip


def load_features(photos: Path, cache: Path | None) -> tuple[np.ndarray, Tensor, Tensor]:
    """Return labels (N,), features of the photos (N, F), and of every second one with each defect (7, N / 2, F)."""
    with zipfile.ZipFile(photos) as file:
        paths = sorted(name for name in file.namelist() if name.lower().endswith((".jpg", ".png")))
        classes = [Path(path).parent.name for path in paths]
        paths = [path for path, c in zip(paths, classes, strict=True) if classes.count(c) >= FEWEST]
        good = features(file, paths, cache, "good")
        bad = [
            features(
                file, paths, cache, name, 2, lambda photo, i, k=k, f=f: f(photo, np.random.default_rng([SEED, k, i]))
            )
            for k, (name, f) in enumerate(DEFECTS.items())
        ]
    return labels_of(paths), good, torch.stack(bad)


def load_others(photos: Path, cache: Path | None) -> tuple[np.ndarray, Tensor]:
    """Return labels and features of the first photos of each class."""
    with zipfile.ZipFile(photos) as file:
        paths = sorted(name for name in file.namelist() if Path(name).name.startswith("train_"))
        labels = labels_of(paths)
        paths = [path for c in np.unique(labels) for path in np.array(paths)[labels == c][:OTHERS]]
        return labels_of(paths), features(file, paths, cache, "others")


def labels_of(paths: list[str]) -> np.ndarray:
    labels: np.ndarray = np.unique([Path(path).parent.name for path in paths], return_inverse=True)[1]
    return labels


@torch.no_grad()
def features(
    file: zipfile.ZipFile, paths: list[str], cache: Path | None, name: str, step: int = 1,
    change: Callable[[Image.Image, int], Image.Image] = lambda photo, i: photo,
) -> Tensor:  # fmt: skip
    """Return the features of every `step`-th photo after a change, from the cache if it has them."""
    stored = cache / f"{name}.npy" if cache else None
    if stored and stored.exists():
        return torch.from_numpy(np.load(stored))
    network, chosen, parts = load_lite(), range(0, len(paths), step), []
    for start in range(0, len(chosen), BATCH):
        batch = chosen[start : start + BATCH]
        changed = [np.asarray(change(square(Image.open(io.BytesIO(file.read(paths[i])))), i)) for i in batch]
        parts.append(network(torch.from_numpy(np.stack(changed)).permute(0, 3, 1, 2)))
    if stored:
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.save(stored, torch.cat(parts).numpy())
    return torch.cat(parts)


def train(
    labels: np.ndarray, good: Tensor, bad: Tensor, others: tuple[np.ndarray, Tensor], classes: np.ndarray | None = None
) -> PhotoHead:
    """Train a head on some of the plant classes, by default on all, and on all of the others."""
    classes = np.unique(labels) if classes is None else classes
    labels = np.where(duplicates(labels, good), -1, labels)
    rng = np.random.default_rng(SEED)
    torch.manual_seed(SEED)
    head = train_embedding(labels, good, others, classes, rng)
    # An embedding is better on photos that it has learned from, and so makes defects look worse than they are. The
    # precision therefore learns from classes that an embedding has not seen.
    parts = np.array_split(rng.permutation(classes), PARTS)
    unseen = [(part, train_embedding(labels, good, others, np.setdiff1d(classes, part), rng)) for part in parts]
    train_precision(head, labels, good, bad, unseen, rng)
    return head.eval()


def train_embedding(
    labels: np.ndarray, good: Tensor, others: tuple[np.ndarray, Tensor], classes: np.ndarray, rng: np.random.Generator
) -> PhotoHead:
    """Train an embedding by episodes of plants and of other photos in turn."""
    used = np.isin(labels, classes)
    head = begin(
        torch.cat([good[torch.from_numpy(used)], others[1]]),
        np.concatenate([labels[used], labels.max() + 1 + others[0]]),
    )
    layers = head.encoder
    sources = (
        (good, [np.flatnonzero(labels == c) for c in classes]),
        (others[1], [np.flatnonzero(others[0] == c) for c in np.unique(others[0])]),
    )
    rate = RATE * float(layers.embedding.weight.detach().std())
    groups = [{"params": [layers.embedding.weight], "lr": rate}, {"params": [layers.sharpness], "lr": SHARPNESS_RATE}]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPISODES)
    for episode in range(EPISODES):
        shot = int(rng.choice(SHOTS))
        source, members = sources[episode % len(sources)]
        vectors = source[torch.from_numpy(draw(members, shot + QUERY, rng))]
        loss, _ = episode_loss(head, Embedded(layers.x(vectors), torch.ones(*vectors.shape[:2], 1)), shot)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return head


def train_precision(
    head: PhotoHead, labels: np.ndarray, good: Tensor, bad: Tensor, unseen: list[tuple[np.ndarray, PhotoHead]],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Train the precision by episodes of classes, each with an embedding that has not seen them."""
    optimizer = torch.optim.Adam(head.encoder.raw.parameters(), lr=PRECISION_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, PRECISION_EPISODES)
    for episode in range(PRECISION_EPISODES):
        classes, embedding = unseen[episode % len(unseen)]
        members = [np.flatnonzero(labels == c) for c in classes]
        drawn = draw([c[c % 2 == 0] for c in members], PRECISION_SHOT + QUERY, rng)  # only these have defects
        vectors = good[torch.from_numpy(drawn)]
        worse = rng.random(drawn.shape) < BAD
        worse[:, PRECISION_SHOT:] = False  # queries stay good
        defect = rng.integers(len(bad), size=drawn.shape)
        vectors[torch.from_numpy(worse)] = bad[torch.from_numpy(defect[worse]), torch.from_numpy(drawn[worse] // 2)]
        with torch.no_grad():
            x = embedding.encoder.x(vectors)
        s_raw = head.encoder.s_raw(vectors)
        loss, _ = episode_loss(head, Embedded(x, s_raw.exp()), PRECISION_SHOT)
        loss = loss + EQUAL * s_raw[torch.from_numpy(~worse)].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def duplicates(labels: np.ndarray, good: Tensor) -> np.ndarray:
    """Return which photos are also in another class. Their class may be one that is held out."""
    unit = torch.nn.functional.normalize(good, dim=1)
    other = torch.from_numpy(labels[:, None] != labels)
    found: np.ndarray = ((unit @ unit.T > DUPLICATE) & other).any(dim=1).numpy()
    return found


def begin(vectors: Tensor, labels: np.ndarray) -> PhotoHead:
    """Return a head that whitens the scatter within classes and keeps the D axes with the largest spread."""
    unit = torch.nn.functional.normalize(vectors, dim=1).double()
    within = torch.cat([unit[labels == c] - unit[labels == c].mean(dim=0) for c in np.unique(labels)])
    variances, axes = torch.linalg.eigh(within.T @ within / len(within))
    shrunk = (1 - SHRINK) * variances + SHRINK * variances.mean()
    whiten = (axes * shrunk**-0.5) @ axes.T
    mean = unit.mean(dim=0)
    spread = (unit - mean) @ whiten
    largest = torch.linalg.eigh(spread.T @ spread).eigenvectors[:, -D:]
    weight = (whiten @ largest).T
    head = PhotoHead(FEATURES, D)
    with torch.no_grad():
        head.encoder.mean.copy_(mean)
        head.encoder.embedding.weight.copy_(weight / weight.abs().max())
        head.encoder.sharpness.fill_(SHARPNESS)
        head.encoder.raw_mean.copy_(vectors.mean(dim=0))
        head.encoder.raw_scale.copy_(vectors.std(dim=0).mean())
    return head


def draw(members: list[np.ndarray], photos: int, rng: np.random.Generator) -> np.ndarray:
    """Draw classes, and photos of each: indices (C, photos)."""
    chosen = rng.choice(len(members), min(WAY, len(members)), replace=False)
    return np.stack([rng.choice(members[c], photos, replace=False) for c in chosen])


@torch.no_grad()
def evaluate(
    labels: np.ndarray,
    good: Tensor,
    bad: Tensor,
    others: tuple[np.ndarray, Tensor],
    folds: int = 3,
    episodes: int = 700,
) -> None:
    """Print 5-way accuracies on classes that the head was not trained on, with and without the head."""
    shuffled = np.random.default_rng(SEED + 1).permutation(np.unique(labels))
    right: dict[tuple[str, int], list[float]] = {}
    for fold in range(folds):
        tested = shuffled[fold::folds]
        with torch.enable_grad():
            head = train(labels, good, bad, others, np.setdiff1d(shuffled, tested))
        x, s = head.embed(good)
        rng = np.random.default_rng([SEED, fold])
        for shot in (1, 5):
            for _ in range(episodes):
                chosen = rng.choice(tested, 5, replace=False)
                drawn = np.stack([rng.choice(np.flatnonzero(labels == c), shot + 15, replace=False) for c in chosen])
                for name, vectors, weights in (("features", good, None), ("head", x, s)):
                    p, _ = class_prototypes(
                        vectors[drawn[:, :shot]], None if weights is None else weights[drawn[:, :shot]]
                    )
                    nearest = torch.cdist(vectors[drawn[:, shot:]].flatten(0, 1), p).argmin(dim=1)
                    truth = torch.arange(5).repeat_interleave(15)
                    right.setdefault((name, shot), []).append(float((nearest == truth).float().mean()))
    for (name, shot), values in right.items():
        half = 196 * np.std(values) / len(values) ** 0.5
        print(f"{name}, 5-way {shot}-shot: {100 * np.mean(values):.2f} ± {half:.2f} % over {len(values)} episodes")


if __name__ == "__main__":
    main()
