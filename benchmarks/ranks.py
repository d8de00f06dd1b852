"""Compare training on several processes with one process that has as many threads, in images per second.

Each side is the command `gaussproto train`, as a user starts it. The sides take turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.command import parser, run
from benchmarks.timer import speedup
from gaussproto.presets import preset
from gaussproto.runs.log import read_log

WARM_UP = 2  # lines of the log, of ten episodes each, that are not timed


def images_per_second(options: list[str], ranks: int, threads: int) -> float:
    """Train in a folder of its own and return the pace after the first lines of the log."""
    start = [sys.executable, "-m"]
    if ranks > 1:
        start += ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"]
    with TemporaryDirectory() as folder:
        command = [*start, "gaussproto", "train", *options, "--threads", str(threads), "--out", f"{folder}/run"]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        lines, _ = read_log(Path(folder, "run", "log.jsonl"))
        episode = preset(f"{folder}/run").episode
    (_, first), (_, last) = lines[WARM_UP - 1], lines[-1]
    return episode.way * episode.drawings * (last.episode - first.episode) / (last.seconds - first.seconds)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("presets", nargs="*", default=["demo"], metavar="PRESET", help="default: demo")
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--episodes", type=int, default=160)
    chosen = options.parse_args()
    for name in chosen.presets:
        training = [name, "--episodes", str(chosen.episodes), "--checkpoint-every", "100000"]
        sides = {
            f"1 process, {chosen.ranks} threads": partial(images_per_second, training, 1, chosen.ranks),
            f"{chosen.ranks} processes": partial(images_per_second, training, chosen.ranks, 1),
        }
        paces: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(chosen.rounds):
            for side, measure in sides.items():
                paces[side].append(measure())
                alone = next(iter(paces.values()))
                ratio = speedup(alone[: len(paces[side])], paces[side])
                found = f"{median(paces[side]):,.0f} images per second"
                of_first = f"{ratio.median:.2f} of the first ({ratio.low:.2f} to {ratio.high:.2f})"
                print(f"{name}, round {len(paces[side])}, {side}: {found}, {of_first}", flush=True)


if __name__ == "__main__":
    run(main)
