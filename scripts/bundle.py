"""Bundle a run's last weights with the package: in half precision if accuracy allows, with a card and a checksum.

python scripts/bundle.py runs/drawings-small drawings-small --twin runs/drawings-small-twin
python scripts/bundle.py --again drawings-small

The twin is trained by the same recipe, perhaps for fewer episodes, with some alphabets held out (--holdout). Confidence is
calibrated on those alphabets, because images of training classes are closer to their class than images of new ones.
Longer training increases distances; the invented alphabets, which neither network has seen, show by how much.
--again keeps the weights and their thresholds, and measures the accuracy and the confidence in the card again, for
example after a change of the preparation.
"""

import argparse
import json
import shutil
from pathlib import Path
from tempfile import mkdtemp

import torch

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.config import DataConfig, NetworkConfig
from gaussproto.data.load import load_data
from gaussproto.evaluation.calibrate import calibrate, calibrate_weights, measure_confidence
from gaussproto.evaluation.protocol import evaluate
from gaussproto.evaluation.robustness import damage_study
from gaussproto.files import read_json, write_json, write_then_rename
from gaussproto.formulas.confidence import Calibration
from gaussproto.pretrained import FOLDER, bundled_names
from gaussproto.runs.checkpoint import Checkpoint, load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import ConfidenceScore, DamageStudy, Evaluation, Metrics
from gaussproto.runs.weights import Position, open_weights, weights_file, write_calibration
from gaussproto.setting_types import FILTERS

LARGEST = 8_000_000  # bytes
MOST_LOST = 2e-4  # accuracy that half precision may cost
SHOTS = (1, 2, 3, 5, 10)
RATE = 0.05  # share of known images rejected, at which the thresholds of the two networks are compared

CONFIDENCE_COLUMNS = "| | error at 1 | calibrated | AUROC | known rejected | unknown rejected |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--twin", type=Path)
    parser.add_argument("--again", choices=bundled_names())
    given = parser.parse_args()
    if given.again:
        measure_again(given.again)
    elif given.run and given.name and given.twin:
        bundle(RunFolder(given.run), given.name, RunFolder(given.twin))
    else:
        parser.error("give a run, a name and --twin, or --again")


def bundle(run: RunFolder, name: str, twin: RunFolder) -> None:
    """Write the last weights of a run into the package, calibrated by a twin, with a card."""
    whole = load_checkpoint(run.last)
    other = load_checkpoint(twin.last)
    check_twin(whole, other)
    images = load_data(whole.config.data.for_evaluation()).test
    exact = evaluate(whole.network(), images, shots=SHOTS)

    path = Path(mkdtemp()) / f"{name}.safetensors"  # copied into the package at the end, if nothing failed
    save(whole, name, path, torch.float16)
    scores = evaluate(load_checkpoint(path).network(), images, shots=SHOTS)
    differ = [a.accuracy - b.accuracy for a, b in zip(exact.scores, scores.scores, strict=True)]
    lost, farthest = max(0.0, *differ), max(map(abs, differ))
    precision = (
        "The weights are stored in half precision, which changes no score on clean images by more than "
        f"{100 * farthest:.3f} points."
    )
    if lost > MOST_LOST:
        precision = (
            "The weights are stored in single precision, because half precision would cost "
            f"{100 * lost:.3f} points of accuracy."
        )
        save(whole, name, path, torch.float32)
        scores = exact
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")
    study = damage_study(load_checkpoint(path).network(), images)
    stretch, sharpened = farther(whole, other)
    calibration = stretched(calibrate_weights(twin.last)[0], stretch, sharpened)
    measured = measure_confidence(load_checkpoint(path).network().eval(), images, calibration)
    write_calibration(path, calibration)
    text = card(name, whole, run.read_metrics(), scores, study, path.stat().st_size, precision)
    text = text.replace("## Training", f"{confidence(calibration, measured, other, stretch)}\n## Training", 1)
    with write_then_rename(FOLDER / f"{name}.md") as temporary:
        temporary.write_text(text)
    with write_then_rename(FOLDER / path.name) as temporary:
        shutil.copyfile(path, temporary)
    checksums = read_json(FOLDER / "checksums.json")
    checksums[name] = read_arrays(path, "weights file").checksum
    write_json(FOLDER / "checksums.json", dict(sorted(checksums.items())))
    print(text)


def measure_again(name: str) -> None:
    """Replace the measured parts of the card of bundled weights, but not the conditions of `benchmarks.drawings`."""
    path, page = weights_file(name), FOLDER / f"{name}.md"
    checkpoint = load_checkpoint(path)
    images = load_data(checkpoint.config.data.for_evaluation()).test
    calibration = open_weights(path).calibration
    if calibration is None:
        raise SystemExit(f"{path} has no calibration: bundle the run again")
    network = checkpoint.network().eval()
    text = page.read_text()
    for first, last, new in (
        (
            "## Accuracy\n",
            "## Drawings that differ",
            accuracy(evaluate(network, images, shots=SHOTS), damage_study(network, images)),
        ),
        (CONFIDENCE_COLUMNS, "\n## Training", confidence_table(measure_confidence(network, images, calibration))),
    ):
        before, rest = text.split(first, 1)
        text = before + new + rest[rest.index(last) :]
    with write_then_rename(page) as temporary:
        temporary.write_text(text)
    print(text)


def check_twin(checkpoint: Checkpoint, twin: Checkpoint) -> None:
    """Exit unless both runs used the same recipe, the twin held out alphabets, and the run to bundle held out none."""
    mine, other = (
        one.config.model_dump(include={"network", "episode"})
        | one.config.training.model_dump(exclude={"init", "init_digest", "snapshots", "stages"})
        | {"damage": [(stage.damage, stage.transform) for stage in one.config.training.stages]}
        for one in (checkpoint, twin)
    )
    if checkpoint.config.data.holdout:
        raise SystemExit(f"{checkpoint.path} held alphabets out of training: bundle a run that saw all of them")
    differ = [name for name in mine if mine[name] != other[name]]
    if differ or not twin.config.data.holdout:
        raise SystemExit(
            f"{twin.path} is not a twin: " + (f"different {', '.join(differ)}" if differ else "no --holdout")
        )


def farther(whole: Checkpoint, twin: Checkpoint) -> tuple[float, float]:
    """Return how many times farther images of the invented alphabets are from their own class than with the twin.

    Also return how many times as high the precision is that 5 % of these images fall short of.
    """
    invented = load_data(DataConfig(data="strokes", prepare=whole.config.data.prepare)).test
    far, near = (calibrate(one.network().eval(), invented, held_out=True) for one in (whole, twin))
    precision = far.low_precision / near.low_precision if far.low_precision and near.low_precision else 1.0
    return far.threshold(RATE) / near.threshold(RATE), precision


def stretched(calibration: Calibration, stretch: float, sharpened: float = 1.0) -> Calibration:
    """Multiply the thresholds and the low precision. The temperature stays, because both networks were trained at 1."""
    thresholds = tuple(stretch * threshold for threshold in calibration.thresholds)
    low = None if calibration.low_precision is None else sharpened * calibration.low_precision
    return calibration.model_copy(update={"thresholds": thresholds, "low_precision": low})


def save(checkpoint: Checkpoint, name: str, path: Path, dtype: torch.dtype) -> None:
    """Write only the weights: convolutions as `dtype`, and batch norms, which are small, in single precision."""
    tensors = {
        key: value.to(dtype) if value.dim() == 4 else value for key, value in checkpoint.network().state_dict().items()
    }
    config = checkpoint.config.model_copy(update={"name": name})
    position = Position(transform=checkpoint.position.transform, episode=checkpoint.position.episode)
    metadata = {"config": config.model_dump_json(), "position": json.dumps(vars(position))}
    write_arrays(path, {key: value.contiguous() for key, value in tensors.items()}, metadata)


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
    damage = ", ".join(
        f"{100 * f:g} % to {n} x {n} pixels" for stage in config.training.stages for n, f in stage.damage
    )
    share = 100 * episode.within_alphabet
    near = f"\n- Neighbours: {share:g} % of the episodes have the classes of few alphabets." if share else ""
    before = "".join(map(earlier_training, earlier(checkpoint)))
    return f"""# {name}

These weights recognise drawings, signs and handwritten symbols from a few examples of each, also small, bold or
photographed ones. Load them with
`gp.GaussianPrototypeClassifier("{name}")`. {encoder_text(network)} maps each image to an embedding of D = {network.embedding_dim}
numbers{f", a part for each of {network.grid} x {network.grid} areas of the image," * (network.grid > 1)} and to one precision. The precision weighs the supports (examples) of a class (weighting `{network.weighting}`, transform `{network.transform}`). The file
holds {training.parameters:,} weights in {size / 1e6:.1f} MB.

{accuracy(scores, study)}## Drawings that differ from Omniglot's
The table shows the 20-way accuracy in % when the queries are changed in the ways in which people's own drawings differ.
The supports are drawings as they are (every fourth test character, 600 random episodes).
[Drawings and photos](../../../docs/drawings.md#how-well-it-works) describes the conditions.

<!-- measured -->
Not measured yet: run `python -m benchmarks.drawings --weights {name} --publish`.
<!-- end -->

## Training
The network was trained for {lengths(checkpoint)} episodes of {episode.way} classes with {episode.drawings} images each, from Omniglot's 30 training alphabets.
Rotations{" and their mirror images" if episode.mirror else ""} are separate classes. Each episode was split {episode.splits} times into supports ({episode.shot} to {episode.max_shot or episode.shot} of each class) and queries.

- Preparation: `{config.data.prepare}`. {config.data.variants} variants of each drawing, with other pens, slants, views, light, blur, noise, cuts
  and few pixels, replace {100 * episode.varied:.0f} % of the images.{near}
- Down-sampled images besides: {damage or "none"}.
- Distortions: strength {config.training.distort:g}.
- Optimiser: Adam, learning rate {config.training.learning_rate:g} ({config.training.schedule} schedule), seed {training.seed}.
{before}- Time: {training.seconds / 60:.0f} minutes on {" or ".join(map(str, threads))} thread{"s" if threads != (1,) else ""} of {metrics.machine.processor}.
- The settings were chosen on alphabets held out of training.
- Command: `{training.command}`, commit {", ".join(map(str, training.commits))}.

{precision}

## Limits
The network expects one drawing in each image, prepared to 28 x 28 pixels (`prepare="ink"`), which the classifier and the
commands do. It was trained only on handwritten characters: for photographs of things use the encoder `photo`. Colours and
texture are lost. Of a solid shape under uneven light only the edges may remain.

## Licence
The weights have the MIT licence, like the package. Omniglot is by Lake, Salakhutdinov and Tenenbaum (MIT licence). The
weights contain none of its images.
"""


def encoder_text(network: NetworkConfig) -> str:
    filters = ", ".join(map(str, network.filters or FILTERS[network.encoder]))
    extra = sum(network.residual)
    deeper = f", and {extra} residual convolution{'s' * (extra > 1)}" * (extra > 0)
    return f"The {network.encoder} encoder (blocks of {filters} filters, a last block{deeper})"


def accuracy(scores: Evaluation, study: DamageStudy) -> str:
    rows = "\n".join(
        f"| {shot} | " + " | ".join(scores.score(way, shot).text() for way in (5, 20)) + " |" for shot in SHOTS
    )
    bad = " | ".join(f"{100 * accuracy:.2f}" for accuracy in study.accuracy)
    return f"""## Accuracy
The table shows the accuracy in % on Omniglot's 20 test alphabets, which have 2,636 classes, counting rotations. ± is the
95 % interval over characters. Batch norm uses running statistics, so each image is classified independently (inductive).
Shot is the number of supports of each class. Way is the number of classes.

| shot | 5-way | 20-way |
|---|---|---|
{rows}

The next table shows the 20-way 5-shot accuracy when some of the five supports of every class are damaged, that is,
down-sampled to {study.size} x {study.size} pixels and enlarged again:

| damaged | 0 | 1 | 2 | 3 | 4 | 5 |
|---|---|---|---|---|---|---|
| accuracy | {bad} |

The mean precision is {study.precision_clean:.2f} on clean images and {study.precision_damaged:.2f} on damaged ones. A clean image has
the higher precision in {100 * study.clean_is_higher:.1f} % of pairs of a clean and a damaged image.

"""


def earlier(checkpoint: Checkpoint) -> list[Checkpoint]:
    """Return the weights that a training started from, then those that they started from, and so on."""
    init = checkpoint.config.training.init
    if init is None:
        return []
    before = load_checkpoint(weights_file(init))
    return [before, *earlier(before)]


def earlier_training(checkpoint: Checkpoint) -> str:
    """Return a line of the card about a training that was trained further."""
    config, position = checkpoint.config, checkpoint.position
    planned = config.training.episodes
    stopped = f" of {planned:,}, stopped there" if position.episode < planned else ""
    near = f", {100 * config.episode.within_alphabet:g} % of them within few alphabets" * (
        config.episode.within_alphabet > 0
    )
    return (
        f"- Before: {position.episode:,} episodes{stopped}{near}, with {100 * config.episode.varied:g} % variants at learning rate\n"
        f"  {config.training.learning_rate:g}, in {position.seconds / 60:.0f} minutes (`{position.command}`).\n"
    )


def lengths(checkpoint: Checkpoint) -> str:
    """Return the number of episodes of a training and of those that it started from, the first first."""
    return " and ".join(f"{one.position.episode:,}" for one in [checkpoint, *earlier(checkpoint)][::-1])


def confidence(calibration: Calibration, measured: list[ConfidenceScore], twin: Checkpoint, stretch: float) -> str:
    moved = f"""
The thresholds are {stretch:.2f} times those of the twin. We measured this factor on invented alphabets, which neither network has
seen. Compared with the twin, images of these alphabets are {stretch:.2f} times as far from their class. The test alphabets showed
that a factor may be needed, but they did not set its size.
"""
    return f"""## Confidence
The temperature of the probabilities is {calibration.temperature:.3f}{" times the scale of the distances" if calibration.scaled else ""}. The temperature and the thresholds for
rejecting unknown images were fitted on {calibration.classes:,} classes of training alphabets. They were fitted with a twin network, which was
trained by the same recipe ({lengths(twin)} episodes) without these alphabets.
{moved if f"{stretch:.2f}" != "1.00" else ""}
The table shows measurements on the test alphabets:

- *error at 1* and *calibrated*: the expected calibration error (15 bins), at temperature 1 and at the fitted temperature.
  The same temperature is used for any number of examples. Where the error at 1 is smaller, the network needed no
  calibration.
- *AUROC*: how well the distance to the nearest class distinguishes known from unknown classes (1 is perfect).
- *known rejected* and *unknown rejected*: the percentages of images rejected as unknown. The threshold should reject
  {100 * measured[0].rate:g} % of the known images.

{confidence_table(measured)}"""


def confidence_table(measured: list[ConfidenceScore]) -> str:
    rows = "\n".join(
        f"| {one.way}-way {one.shot}-shot | {one.ece_before:.4f} | {one.ece_after:.4f} | {one.auroc:.4f} "
        f"| {100 * one.known_rejected:.1f} | {100 * one.unknown_rejected:.1f} |"
        for one in measured
    )
    return f"{CONFIDENCE_COLUMNS}|---|---|---|---|---|---|\n{rows}\n"


if __name__ == "__main__":
    main()
