"""How long the parts take that a user waits for: `python benchmarks/core.py` on an otherwise idle machine.

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

import torch

from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import PARTS, decode_verified, find
from gaussproto.data.strokes import strokes
from gaussproto.evaluation.protocol import embed_all, evaluate
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.presets import preset
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.run_folder import machine
from gaussproto.training.train import train


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
            split = load_data(DataConfig(data="omniglot"))
    else:
        print("Omniglot is not here: the rest is measured on strokes", file=sys.stderr)
        split = load_data(DataConfig(data="strokes"))

    keep_freed_memory()
    for name in ("fast-small-radius", "fast-big-radius"):
        config = preset(name)
        network = GaussianPrototypicalNetwork(config.network).eval().to(memory_format=torch.channels_last)
        images = split.test if "small" in name else split.test.select(range(400))
        one_pass = seconds(lambda network=network, images=images: embed_all(network, images.images))
        whole = seconds(lambda network=network, images=images: evaluate(network, images))
        found[f"protocol {name}"] = {
            "images": len(images),
            "one embedding pass": one_pass,
            "k = 1 to 19, 5- and 20-way, 10 rounds": whole,
            "ratio": round(whole / one_pass, 2),
        }
        with tempfile.TemporaryDirectory() as folder:
            log = []
            short = config.override(episodes=60 if "small" in name else 12, checkpoint_every=100)
            train(short, split.train, Path(folder) / "run", on_log=log.append)
            steps = (log[-1].seconds - log[0].seconds) / (log[-1].episode - log[0].episode)
            found[f"episode {name}"] = round(steps, 3)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
