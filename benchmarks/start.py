"""How long data and start-up take: `python benchmarks/start.py` on an otherwise idle machine.

Prints one JSON object; every time is the median of the repetitions, in seconds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import PARTS, decode_verified, find
from gaussproto.data.strokes import strokes
from gaussproto.training.run_folder import machine


def seconds(work, repetitions=3):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(statistics.median(times), 3)


def main():
    found = {"machine": machine(), "strokes": seconds(strokes)}
    command = [str(Path(sys.executable).with_name("gaussproto")), "--help"]
    found["help"] = seconds(lambda: subprocess.run(command, check=True, capture_output=True), 9)

    sources = {part: find(part) for part in PARTS.values()}
    if all(sources.values()):
        found["decode omniglot"] = seconds(
            lambda: [decode_verified(part, path, 28) for part, path in sources.items()], 3
        )
        with tempfile.TemporaryDirectory() as cache:
            os.environ["GAUSSPROTO_CACHE"] = cache
            config = DataConfig(data="omniglot", rotations=False)
            load_data(config)
            found["load omniglot from the cache"] = seconds(lambda: load_data(config), 9)
    else:
        print("Omniglot is not here: it is left out", file=sys.stderr)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
