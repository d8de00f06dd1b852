"""Make a run's last weights a part of the package: half precision where that costs nothing, a card, a digest.

python scripts/bundle.py runs/NAME omniglot-small --twin runs/TWIN

The twin was trained by the same recipe, though perhaps not as long, with some alphabets held out (--holdout): how far an
image is from its own class can be learned there, and not on classes that a network was trained on. A longer training
moves everything apart; by how much is seen on the invented alphabets, which neither has seen.
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from tempfile import mkdtemp

import torch
from safetensors.torch import save_file

from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.evaluation.calibrate import calibrate, calibrate_weights, measure_confidence
from gaussproto.evaluation.protocol import evaluate
from gaussproto.evaluation.robustness import damage_study
from gaussproto.files import write_json, write_then_rename
from gaussproto.formulas.confidence import Calibration
from gaussproto.pretrained import FOLDER
from gaussproto.runs.checkpoint import Checkpoint, Position, load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import ConfidenceScore, DamageStudy, Evaluation, Metrics
from gaussproto.runs.weights import write_calibration

LARGEST = 8_000_000  # bytes
MOST_LOST = 2e-4  # accuracy
SHOTS = (1, 2, 3, 5, 10)
RATE = 0.05  # of known images rejected, at which the distances of the two are compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--twin", type=Path, required=True)
    given = parser.parse_args()
    run, twin = RunFolder(given.run), RunFolder(given.twin)
    whole = load_checkpoint(run.last)
    other = load_checkpoint(twin.last)
    check_twin(whole, other)
    images = load_data(whole.config.data).test
    exact = evaluate(whole.network(), images, shots=SHOTS)

    path = Path(mkdtemp()) / f"{given.name}.safetensors"  # the package gets it when all is well
    save(whole, given.name, path, torch.float16)
    scores = evaluate(load_checkpoint(path).network(), images, shots=SHOTS)
    differ = [a.accuracy - b.accuracy for a, b in zip(exact.scores, scores.scores, strict=True)]
    lost, farthest = max(0.0, *differ), max(map(abs, differ))
    precision = (
        f"Half precision: no score on clean images is more than {100 * farthest:.3f} points from single precision's."
    )
    if lost > MOST_LOST:
        precision = f"Single precision; half would cost {100 * lost:.3f} points of accuracy."
        save(whole, given.name, path, torch.float32)
        scores = exact
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")
    study = damage_study(load_checkpoint(path).network(), images)
    stretch = farther(whole, other)
    calibration = stretched(calibrate_weights(twin.last)[0], stretch)
    measured = measure_confidence(load_checkpoint(path).network().eval(), images, calibration)
    write_calibration(path, calibration)
    text = card(given.name, whole, run.read_metrics(), scores, study, path.stat().st_size, precision)
    text = text.replace("## Training", f"{confidence(calibration, measured, other, stretch)}\n## Training", 1)
    with write_then_rename(FOLDER / f"{given.name}.md") as temporary:
        temporary.write_text(text)
    with write_then_rename(FOLDER / path.name) as temporary:
        shutil.copyfile(path, temporary)
    digests = json.loads((FOLDER / "digests.json").read_text())
    digests[given.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_json(FOLDER / "digests.json", dict(sorted(digests.items())))
    print(text)


def check_twin(checkpoint: Checkpoint, twin: Checkpoint) -> None:
    """Stop if the two were not trained by one recipe, or the twin saw all alphabets, or the other did not."""
    mine, other = (
        one.config.model_dump(include={"network", "episode"})
        | one.config.training.model_dump(exclude={"init", "init_digest", "snapshots", "stages"})
        | {"damage": [(stage.damage, stage.transform) for stage in one.config.training.stages]}
        for one in (checkpoint, twin)
    )
    if checkpoint.config.data.holdout:
        raise SystemExit(f"{checkpoint.path} held alphabets out of its training: what is bundled has seen all of them")
    differ = [name for name in mine if mine[name] != other[name]]
    if differ or not twin.config.data.holdout:
        raise SystemExit(f"{twin.path} is no twin: " + (f"other {', '.join(differ)}" if differ else "no --holdout"))


def farther(whole: Checkpoint, twin: Checkpoint) -> float:
    """How many times as far from its own class an image of the invented alphabets is with the one as with the other."""
    invented = load_data(DataConfig(data="strokes")).test
    far, near = (calibrate(one.network().eval(), invented, held_out=True).threshold(RATE) for one in (whole, twin))
    return far / near


def stretched(calibration: Calibration, stretch: float) -> Calibration:
    """With its thresholds moved out; the temperature stays, since both were trained at 1."""
    thresholds = tuple(stretch * threshold for threshold in calibration.thresholds)
    return calibration.model_copy(update={"thresholds": thresholds})


def save(checkpoint: Checkpoint, name: str, path: Path, dtype: torch.dtype) -> None:
    """Weights only; the batch norms stay in single precision, they are small."""
    tensors = {
        key: value.to(dtype) if value.dim() == 4 else value for key, value in checkpoint.network().state_dict().items()
    }
    config = checkpoint.config.model_copy(update={"name": name})
    position = Position(transform=checkpoint.position.transform, episode=checkpoint.position.episode)
    metadata = {"config": config.model_dump_json(), "position": json.dumps(vars(position))}
    with write_then_rename(path) as temporary:
        save_file({key: value.contiguous() for key, value in tensors.items()}, temporary, metadata=metadata)


def card(
    name: str,
    checkpoint: Checkpoint,
    metrics: Metrics,
    scores: Evaluation,
    study: DamageStudy,
    size: int,
    precision: str,
) -> str:
    config, training = checkpoint.config, metrics.training
    threads = training.threads or (metrics.machine.threads,)
    network, episode = config.network, config.episode
    damage = ", ".join(f"{100 * f:g} % to {n} x {n}" for stage in config.training.stages for n, f in stage.damage)
    rows = "\n".join(
        f"| {shot} | " + " | ".join(scores.score(way, shot).text() for way in (5, 20)) + " |" for shot in SHOTS
    )
    bad = " | ".join(f"{100 * accuracy:.2f}" for accuracy in study.accuracy)
    return f"""# {name}

A {network.encoder} encoder with D = {network.embedding_dim} and one precision an image, which weighs the supports of a
class ({network.weighting}, {network.transform}). {training.parameters:,} weights, {size / 1e6:.1f} MB.

## Accuracy on the 20 test alphabets of Omniglot (2,636 classes, rotations among them)
In %, running statistics (each image by itself), ± 95 % interval over characters.

| shot | 5-way | 20-way |
|---|---|---|
{rows}

20-way 5-shot with some of the five supports of every class down-sampled to {study.size} x {study.size} pixels:

| damaged | 0 | 1 | 2 | 3 | 4 | 5 |
|---|---|---|---|---|---|---|
| accuracy | {bad} |

The mean precision is {study.precision_clean:.2f} on clean and {study.precision_damaged:.2f} on such images; a clean one has
the higher precision in {100 * study.clean_is_higher:.1f} % of pairs.

## Training
{training.episodes:,} episodes of {episode.way} classes and {episode.drawings} images of each, from the 30 background
alphabets of Omniglot with rotations{" and their mirror images" if episode.mirror else ""} as classes; {episode.shot} to {episode.max_shot or episode.shot} supports, drawn again for each of
{episode.splits} splits of an episode; damage: {damage or "none"}; distortions of strength {config.training.distort:g}; Adam, {config.training.schedule} from
{config.training.learning_rate:g}; seed {training.seed}{f"; starting from {training.init}" if training.init else ""}. {training.seconds / 60:.0f} minutes on
{" or ".join(map(str, threads))} thread{"s" if threads != (1,) else ""} of {metrics.machine.processor}. Its settings were chosen on alphabets held out of training.
`{training.command}`, commit {", ".join(map(str, training.commits))}.
{precision}

## Limits
Light strokes on a dark ground, 28 x 28 pixels, one symbol to an image. It has seen handwritten characters only: photographs,
colour and texture are foreign to it. The precision knows blur; it was not shown other defects.

## Licence
MIT, as the package. Omniglot is by Lake, Salakhutdinov and Tenenbaum (MIT licence); none of its images is in this file.
"""


def confidence(calibration: Calibration, measured: list[ConfidenceScore], twin: Checkpoint, stretch: float) -> str:
    rows = "\n".join(
        f"| {one.way}-way {one.shot}-shot | {one.ece_before:.4f} | {one.ece_after:.4f} | {one.auroc:.4f} "
        f"| {100 * one.known_rejected:.1f} | {100 * one.unknown_rejected:.1f} |"
        for one in measured
    )
    return f"""## Confidence
The temperature, {calibration.temperature:.3f} times the scale of distances, and the thresholds of distance were fitted on {calibration.classes:,} classes of alphabets of the
training set, with a network trained by the same recipe ({twin.position.episode:,} episodes) without those alphabets; the thresholds are {stretch:.2f} times those of
that network, because images of invented alphabets, which neither has seen, are that many times as far from their class (that a twin's thresholds may need this was noticed on the test alphabets; the factor is not from there). On the test alphabets: expected calibration
error (15 bins) at temperature 1 and calibrated; AUROC of the smallest distance, known against unknown classes;
images rejected as unknown, in %, when {100 * measured[0].rate:g} % of known images may be. One temperature serves every
number of examples: where the first error is the smaller, the network was calibrated well enough without it.

| | error at 1 | calibrated | AUROC | known rejected | unknown rejected |
|---|---|---|---|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
