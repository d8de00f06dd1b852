"""Lake's one-shot challenge on Omniglot: find or download its 400 questions, verify them, and decode them."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gaussproto.config import DataConfig
from gaussproto.data.ink import prepare_or_resize
from gaussproto.data.omniglot import URL, Part, find_or_fetch, read_files
from gaussproto.data.picture import open_image, resize
from gaussproto.errors import InputError
from gaussproto.progress import Progress, silent

RUNS, WAY = 20, 20
LABELS = "class_labels.txt"
ALL_RUNS = Part(
    name="all_runs",
    alphabets="",
    md5="e8996daecdf12afeeb4a53a179f06b19",
    digest="8805149f773c6b979271e40db86c9b5f343b80446f6b7104ddda6e2579366cf4",
)


class Challenge(NamedTuple):
    """The questions of R = 20 runs. Each run has one example of each of C = 20 characters of an alphabet.

    Attributes:
        examples: (R, C, 1, H, W), uint8, with bright ink.
        questions: (R, C, 1, H, W), uint8: other people's drawings of the same characters, in another order.
        answers: (R, C) the index of the right example for each question.
    """

    examples: Tensor
    questions: Tensor
    answers: Tensor


def load_challenge(config: DataConfig, data_root: Path | str | None = None, progress: Progress = silent) -> Challenge:
    """Load the challenge as the images of a run look: `image_size` and `prepare` come from its configuration."""
    if config.channels != 1:
        raise InputError(
            f"Lake's challenge has grey images, but the network takes {config.channels} channels: use another"
        )
    root = Path(data_root) if data_root else None
    source = find_or_fetch(ALL_RUNS, root, progress, f"{URL}/one-shot-classification")
    files = {name.removeprefix(f"{ALL_RUNS.name}/"): content for name, content in _read(source).items()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + (files[name] if name.endswith(LABELS) else _bits(name, files[name])))
    if digest.hexdigest() != ALL_RUNS.digest:
        raise InputError(
            f"the files in {source} are not those of Lake's challenge (expected the digest {ALL_RUNS.digest[:12]}, "
            f"found {digest.hexdigest()[:12]}): remove them and download them again"
        )
    runs = range(1, RUNS + 1)
    numbers = range(1, WAY + 1)
    examples, questions = (
        torch.from_numpy(
            np.stack([_seen(files[f"run{run:02d}/{name}{i:02d}.png"], config) for run in runs for i in numbers])
        ).view(RUNS, WAY, 1, config.image_size, config.image_size)
        for name in ("training/class", "test/item")
    )
    answers = torch.tensor([_answers(files[f"run{run:02d}/{LABELS}"].decode()) for run in runs])
    return Challenge(examples, questions, answers)


def _read(source: Path) -> dict[str, bytes]:
    return read_files(ALL_RUNS, source, (".png", LABELS))


def _bits(name: str, content: bytes) -> bytes:
    return open_image(content, name).convert("1", dither=Image.Dither.NONE).tobytes()


def _seen(content: bytes, config: DataConfig) -> np.ndarray:
    """Return a drawing as the network sees it: (H, W), uint8, with bright ink."""
    image = open_image(content, "a drawing of the challenge")
    if config.prepare == "ink":
        return prepare_or_resize(np.asarray(image.convert("L")), config.image_size)[0]
    return np.asarray(255 - resize(image, config.image_size))


def _answers(labels: str) -> list[int]:
    """Return the index of the right example for each question of a run, in the order of the questions.

    >>> _answers("run01/test/item01.png run01/training/class08.png\\nrun01/test/item02.png run01/training/class02.png")
    [7, 1]
    """
    pairs = sorted(line.split() for line in labels.splitlines())
    return [int(example[-6:-4]) - 1 for _, example in pairs]
