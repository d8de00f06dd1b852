"""The comparison of covariances on photos: accuracies on the same episodes, and what corrupted photos change."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gaussproto.data.corrupt import corrupt
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import usual_ways
from gaussproto.evaluation.robustness import each_precision, share_higher
from gaussproto.evaluation.sampled import EPISODES, QUERIES, episode_accuracies
from gaussproto.files import write_json
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.interval import student_interval
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.paper.rows import PHOTO_ROWS
from gaussproto.progress import Progress, silent
from gaussproto.provenance import machine
from gaussproto.runs.folder import RunFolder, load_network
from gaussproto.runs.photos import PhotoDifference, PhotoNetwork, PhotoPrecision, PhotoScore, PhotoStudy, PhotoTask
from gaussproto.runs.weights import weights_digest, weights_file

SEED = 0
SEVERITY = 4  # of five
CROP = 0.5  # of the side: a quarter of the photo
VANILLA = "none"
BAD = 3  # of five supports: most of them, but not all


def cropped(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random quarter of each image (N, channels, H, W), enlarged to the size of the image."""
    N, _, H, W = images.shape
    h, w = max(1, round(CROP * H)), max(1, round(CROP * W))
    top = torch.randint(H - h + 1, (N,), generator=generator)
    left = torch.randint(W - w + 1, (N,), generator=generator)
    rows, columns = top[:, None] + torch.arange(h), left[:, None] + torch.arange(w)
    part = images[torch.arange(N)[:, None, None, None], torch.arange(images.shape[1])[:, None, None],
                  rows[:, None, :, None], columns[:, None, None, :]]  # fmt: skip
    large = F.interpolate(part.float(), size=(H, W), mode="bilinear", align_corners=False)
    return large.round().clamp(0, 255).byte()


CORRUPTED: Mapping[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "blurred": lambda images, generator: corrupt(images, "blur", SEVERITY, generator),
    "noisy": lambda images, generator: corrupt(images, "noise", SEVERITY, generator),
    "cropped": cropped,
}
TASKS = (
    PhotoTask(shot=1),
    PhotoTask(shot=5),
    *(PhotoTask(shot=5, bad=BAD, corruption=name) for name in CORRUPTED),
)


class Measured(NamedTuple):
    """What was measured of one network."""

    by_class: dict[PhotoTask, np.ndarray]  # (C,) accuracies
    by_episode: dict[PhotoTask, np.ndarray]  # (episodes,)
    precisions: dict[str, tuple[float, float]]  # by corruption: the ratio to clean, and how often clean is higher


def trained_photo_networks(runs: Path) -> dict[tuple[str, int], Path]:
    """Return the folder of each network of the comparison that is trained, by its kind and seed."""
    return {
        (kind, seed): runs / row.name
        for kind, rows in PHOTO_ROWS.items()
        for seed, row in enumerate(rows)
        if RunFolder(runs / row.name).ended
    }


def measure_photos(
    runs: Path, path: Path, images: LabelledImages, data: str, episodes: int = EPISODES, progress: Progress = silent
) -> PhotoStudy:
    """Measure the trained networks in the folder `runs` and write the result to `path`."""
    folders = trained_photo_networks(runs)
    if not folders:
        raise InputError(f"{runs} has no trained network on photos: train some with `gaussproto reproduce photos`")
    if int(images.counts.min()) < 5 + QUERIES:
        raise InputError(
            f"the comparison needs {5 + QUERIES} test images of each class (found {int(images.counts.min())}): use "
            "larger classes"
        )
    generator = torch.Generator().manual_seed(SEED)
    versions = {"": images.images} | {name: change(images.images, generator) for name, change in CORRUPTED.items()}
    way = usual_ways(images)[0]
    measured = {}
    for number, (key, folder) in enumerate(folders.items(), start=1):
        progress("measuring networks", number - 1, len(folders))
        measured[key] = _measure(load_network(folder), images, versions, way, episodes)
    progress("measuring networks", len(folders), len(folders))
    study = PhotoStudy(
        data=data,
        way=way,
        queries=QUERIES,
        episodes=episodes,
        seed=SEED,
        classes=images.way,
        images=len(images),
        networks=tuple(_studied(kind, seed, folder) for (kind, seed), folder in folders.items()),
        scores=tuple(_scores(measured)),
        differences=tuple(_differences(measured)),
        precisions=tuple(_precisions(measured)),
        machine=machine(),
    )
    write_json(path, study.model_dump(mode="json"))
    return study


@torch.inference_mode()
def _measure(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    versions: Mapping[str, Tensor],
    way: int,
    episodes: int,
) -> Measured:
    embedded = {name: embed_all(network, pixels) for name, pixels in versions.items()}
    by_class, by_episode = {}, {}
    for task in TASKS:

        def with_bad(index: Tensor, task: PhotoTask = task) -> Embedded[Tensor]:
            parts = embedded[task.corruption][index[..., : task.bad]], embedded[""][index[..., task.bad :]]
            return Embedded.join(parts, lambda both: torch.cat(both, dim=2))

        classes, each = episode_accuracies(network, images, way, task.shot, episodes, SEED, with_bad)
        by_class[task], by_episode[task] = classes.numpy(), each.numpy()
    precisions = {}
    if embedded[""].s is not None:
        clean = each_precision(embedded[""].s)
        for name in CORRUPTED:
            bad = each_precision(embedded[name].s)
            precisions[name] = float(bad.mean() / clean.mean()), share_higher(clean, bad)
    return Measured(by_class, by_episode, precisions)


def _studied(kind: str, seed: int, run: Path) -> PhotoNetwork:
    training = RunFolder(run).read_metrics().training
    assert training is not None, "the run has ended"
    return PhotoNetwork(
        run=run.name,
        kind=kind,
        seed=seed,
        episodes=training.episodes,
        parameters=training.parameters,
        weights=weights_digest(weights_file(str(run))),
        seconds=training.seconds,
        commits=training.commits,
    )


def _scores(measured: Mapping[tuple[str, int], Measured]) -> list[PhotoScore]:
    scores = []
    for kind in dict.fromkeys(kind for kind, _ in measured):
        of_kind = {seed: each for (other, seed), each in measured.items() if other == kind}
        for task in TASKS:
            episodes = np.mean([each.by_episode[task] for each in of_kind.values()], axis=0)
            classes = np.mean([each.by_class[task] for each in of_kind.values()], axis=0)
            scores.append(
                PhotoScore(
                    kind=kind,
                    task=task,
                    accuracy=float(episodes.mean()),
                    by_seed={seed: float(each.by_episode[task].mean()) for seed, each in of_kind.items()},
                    over_classes=student_interval(classes),
                    over_episodes=student_interval(episodes),
                )
            )
    return scores


def _differences(measured: Mapping[tuple[str, int], Measured]) -> list[PhotoDifference]:
    """Return the differences from the vanilla network of the same seed, over the seeds that both have."""
    differences = []
    for kind in dict.fromkeys(kind for kind, _ in measured if kind != VANILLA):
        seeds = [seed for other, seed in measured if other == kind and (VANILLA, seed) in measured]
        for task in TASKS if seeds else ():
            pairs = [(measured[kind, seed], measured[VANILLA, seed]) for seed in seeds]
            episodes = np.array([one.by_episode[task] - other.by_episode[task] for one, other in pairs])
            classes = np.mean([one.by_class[task] - other.by_class[task] for one, other in pairs], axis=0)
            by_seed = dict(zip(seeds, episodes.mean(axis=1).tolist(), strict=True))
            differences.append(
                PhotoDifference(
                    kind=kind,
                    task=task,
                    difference=float(episodes.mean()),
                    by_seed=by_seed,
                    over_seeds=student_interval(list(by_seed.values())) if len(seeds) > 1 else None,
                    over_classes=student_interval(classes),
                    over_episodes=student_interval(episodes.mean(axis=0)),
                )
            )
    return differences


def _precisions(measured: Mapping[tuple[str, int], Measured]) -> list[PhotoPrecision]:
    precisions = []
    for kind in dict.fromkeys(kind for (kind, _), each in measured.items() if each.precisions):
        for name in CORRUPTED:
            by_seed = {seed: each.precisions[name] for (other, seed), each in measured.items() if other == kind}
            ratio, higher = np.mean(list(by_seed.values()), axis=0).tolist()
            precisions.append(
                PhotoPrecision(kind=kind, corruption=name, ratio=ratio, clean_is_higher=higher, by_seed=by_seed)
            )
    return precisions
