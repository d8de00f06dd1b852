"""Time loading the data and starting the command, on an idle machine. Prints one JSON object, medians in seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.command import parser, run
from benchmarks.results import StartResult
from benchmarks.timer import median_time
from gaussproto.cli import console
from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import PARTS, decode_verified, find
from gaussproto.data.strokes import strokes
from gaussproto.provenance import machine


def main() -> None:
    options = parser(__doc__)
    options.add_data_root()
    data_root = options.parse_args().data_root
    help_command = [str(Path(sys.executable).with_name("gaussproto")), "--help"]
    result = StartResult(
        machine=machine(),
        draw_strokes=median_time(strokes, repetitions=3),
        show_help=median_time(lambda: subprocess.run(help_command, check=True, capture_output=True), repetitions=9),
    )
    sources = {part: find(part, data_root) for part in PARTS.values()}
    if all(sources.values()):
        result = result.model_copy(update=_time_omniglot(sources, data_root))
    else:
        console.say("Omniglot was not found and is skipped: run `gaussproto data omniglot` to download it")
    console.print_json(result.model_dump(mode="json"))


def _time_omniglot(sources, data_root: Path | None) -> dict[str, float]:
    decode = median_time(lambda: [decode_verified(part, path, 28) for part, path in sources.items()], repetitions=3)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GAUSSPROTO_CACHE"] = cache
        config = DataConfig(data="omniglot", rotations=False)
        load = median_time(lambda: load_data(config, data_root), repetitions=9, warm_up=1)
    return {"decode_omniglot": decode, "load_cached_omniglot": load}


if __name__ == "__main__":
    run(main)
