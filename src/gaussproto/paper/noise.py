"""The study of bad examples: which networks and prototypes it measures, what is wrong with the images, and its result.

The accuracies of every class are kept in a file for each network and kind of damage, so a stopped study continues.
"""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.data.corrupt import CORRUPTIONS, SEVERITIES
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.noise import (
    Accuracies,
    Rule,
    check_condition,
    fewer_images,
    noise_accuracies,
    usual_rounds,
)
from gaussproto.files import write_json
from gaussproto.paper.noise_scores import Measured, differences_of, scores_of
from gaussproto.paper.rows import NOISE
from gaussproto.progress import Progress, silent
from gaussproto.provenance import machine
from gaussproto.runs.folder import RunFolder, load_network
from gaussproto.runs.noise import SOURCES, Condition, NoiseStudy, StudiedNetwork
from gaussproto.runs.weights import weights_digest, weights_file

SHOT, SEED = 5, 0
STUDIED: tuple[Rule, ...] = ("plain mean", "weighted mean", "median", "agreement")
CORRUPTED = 3  # of the supports of every class: most of them, but not all
# Encoding corrupted images 35 times takes most of the time, so there are fewer of them.
CORRUPTED_CLASSES, CORRUPTED_IMAGES = 200, 1600
SEVEN = 4  # the severity that down-samples to 7 x 7 of 28 pixels
LABELS = "labels"  # the part of the study with wrong labels, alone and together with damage


def _damaged(count: int, wrong: int = 0) -> Condition:
    return Condition(wrong=wrong, corruption="down-sampling", severity=SEVEN, corrupted=count)


# Rows that one setting must withstand, with the gain over a vanilla network that we aimed at, in points.
AIMS: dict[Condition, float | None] = {
    Condition(): -0.05,
    Condition(wrong=1): None,
    Condition(wrong=2): 2.7,
    _damaged(3): 0.4,
    _damaged(4): 1.5,
    _damaged(2, wrong=1): None,
    _damaged(1, wrong=2): 6.0,
}
WRONG: tuple[Condition, ...] = tuple(
    Condition(wrong=wrong, source=source) for source in SOURCES for wrong in (1, 2, 3)
)  # 20, 40 and 60 %


class Part(NamedTuple):
    """What is measured together, on the same images, and kept in one file."""

    name: str
    conditions: tuple[Condition, ...]
    images: LabelledImages


class Plan(NamedTuple):
    """Everything that the study measures on some data."""

    way: int
    images: LabelledImages
    parts: tuple[Part, ...]
    left_out: tuple[str, ...]


def plan_study(images: LabelledImages) -> Plan:
    """Choose what can be measured on these test classes. Without rotations, every class is a character."""
    images = images.select(images.unturned())
    way = 20 if images.way >= 40 else min(5, images.way)
    left_out: dict[str, None] = {}

    def possible(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        kept = []
        for condition in conditions:
            try:
                check_condition(condition, images, way, SHOT)
            except InputError as error:
                left_out[str(error)] = None
            else:
                kept.append(condition)
        return tuple(kept)

    parts = [Part(LABELS, possible(list(dict.fromkeys((*AIMS, *WRONG)))), images)]
    some = images.sample_of_classes(CORRUPTED_CLASSES)
    some = fewer_images(some, max(SHOT + 3, CORRUPTED_IMAGES // some.way), SEED)
    for name, corruption in CORRUPTIONS.items():
        reason = corruption.reason_to_skip(images.images.shape[1])
        if reason:
            left_out[reason] = None
            continue
        supports = [Condition(corruption=name, severity=n, corrupted=CORRUPTED) for n in SEVERITIES]
        queries = [Condition(corruption=name, severity=n, queries=True) for n in SEVERITIES]
        parts.append(Part(name, (*supports, *queries), some))
    return Plan(way, images, tuple(parts), tuple(left_out))


def trained_networks(runs: Path) -> list[tuple[str, int, Path]]:
    """Return the row, the seed and the folder of each network of the study that is trained, seed by seed."""
    return [
        (network, seed, runs / row.name)
        for seed, rows in enumerate(zip(*NOISE.values(), strict=True))
        for network, row in zip(NOISE, rows, strict=True)
        if RunFolder(runs / row.name).ended
    ]


def measure_study(
    runs: Path, folder: Path, images: LabelledImages, data: str, progress: Progress = silent
) -> NoiseStudy:
    """Measure the trained networks in the folder `runs`, keep what is measured in `folder`, and write `noise.json`.

    What is in `folder` already is not measured again, unless the weights, the images or the conditions have changed.
    """
    plan = plan_study(images)
    networks = trained_networks(runs)
    if not networks:
        raise InputError(f"{runs} has no trained network of the study: train some with `gaussproto reproduce noise`")
    studied = {run: _studied(network, seed, run) for network, seed, run in networks}
    measured: Measured = {(network, seed): {} for network, seed, _ in networks}
    for part in plan.parts:
        for n, (network, seed, run) in enumerate(networks, start=1):
            named = _named(progress, f"{part.name}, {run.name} ({n} of {len(networks)})")
            path = folder / run.name / f"{part.name.replace(' ', '-')}.safetensors"
            found = _measure(run, path, part, plan.way, studied[run].weights, named)
            found |= _means(found)
            measured[network, seed] = found | measured[network, seed]  # the same damage is among the wrong labels
    for found in measured.values():
        found |= _overall(found)
    ends = plan.parts[0], plan.parts[-1]
    study = NoiseStudy(
        data=data,
        way=plan.way,
        shot=SHOT,
        rounds=tuple(usual_rounds(part.images, plan.way) for part in ends),
        seed=SEED,
        characters=tuple(part.images.way for part in ends),
        images=tuple(len(part.images) for part in ends),
        networks=tuple(studied.values()),
        scores=tuple(scores_of(measured)),
        differences=tuple(differences_of(measured)),
        left_out=plan.left_out,
        machine=machine(),
    )
    write_json(folder / "noise.json", study.model_dump(mode="json"))
    return study


def _studied(network: str, seed: int, run: Path) -> StudiedNetwork:
    training = RunFolder(run).read_metrics().training
    assert training is not None, "the run has ended"
    return StudiedNetwork(
        run=network,
        seed=seed,
        episodes=training.episodes,
        weights=weights_digest(weights_file(str(run))),
        seconds=training.seconds,
        commits=training.commits,
    )


def _measure(
    run: Path, path: Path, part: Part, way: int, digest: str, progress: Progress
) -> dict[Condition, Accuracies]:
    """Read a part of the study, or measure and write it."""
    settings = {
        "weights": digest,
        "images": part.images.fingerprint(),
        "way": way,
        "shot": SHOT,
        "rounds": usual_rounds(part.images, way),
        "seed": SEED,
        "conditions": [condition.model_dump() for condition in part.conditions],
        "amounts": {c.corruption: CORRUPTIONS[c.corruption].amounts for c in part.conditions if c.corruption},
    }
    text = json.dumps(settings, sort_keys=True)
    kept = _read(path, text)
    if kept is None:
        found = noise_accuracies(
            load_network(run),
            part.images,
            part.conditions,
            way=way,
            shot=SHOT,
            seed=SEED,
            rules=STUDIED,
            progress=progress,
        )
        array = np.array([list(each.values()) for each in found], dtype=np.float32)  # (conditions, rules, C)
        kept = list(found[0]), array
        write_arrays(path, {"accuracy": array}, {"settings": text, "rules": json.dumps(kept[0])})
    rules, accuracy = kept
    return {c: dict(zip(rules, each, strict=True)) for c, each in zip(part.conditions, accuracy, strict=True)}


def _read(path: Path, settings: str) -> tuple[list[Rule], np.ndarray] | None:
    """Return what was measured with these settings, or None. A damaged file is measured again, with a warning."""
    if not path.exists():
        return None
    try:
        file = read_arrays(path, "part of the study")
        if file.metadata["settings"] != settings:
            return None
        return json.loads(file.metadata["rules"]), file.arrays["accuracy"]
    except (InputError, LookupError, ValueError) as error:
        warnings.warn(f"{path} is measured again ({error})", stacklevel=4)
        return None


def _means(found: dict[Condition, Accuracies]) -> dict[Condition, Accuracies]:
    """Return the mean over the severities of each corruption."""
    means = {}
    for on in ({"corrupted": CORRUPTED}, {"queries": True}):
        each: dict[str, list[Accuracies]] = {}
        for name in CORRUPTIONS:
            conditions = [Condition(corruption=name, severity=n, **on) for n in SEVERITIES]
            each[name] = [found[condition] for condition in conditions if condition in found]
        for name, several in each.items():
            if len(several) == len(SEVERITIES):
                mean = {rule: np.mean([accuracies[rule] for accuracies in several], axis=0) for rule in several[0]}
                means[Condition(corruption=name, **on)] = mean
    return means


def _overall(found: dict[Condition, Accuracies]) -> dict[Condition, Accuracies]:
    """Return the mean over all corruptions, of supports and of queries."""
    overall = {}
    for on in ({"corrupted": CORRUPTED}, {"queries": True}):
        means = [found[c] for name in CORRUPTIONS if (c := Condition(corruption=name, **on)) in found]
        if means:
            mean = {rule: np.mean([accuracies[rule] for accuracies in means], axis=0) for rule in means[0]}
            overall[Condition(corruption="all", **on)] = mean
    return overall


def _named(progress: Progress, name: str) -> Progress:
    return lambda what, done, total: progress(f"{name}: {what}", done, total)
