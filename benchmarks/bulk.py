"""Measure `gaussproto embed`: its rate against reading and the encoder alone, and its memory, on many small PNGs.

All sides of a round run one after the other on the same files, so a busy machine slows all of them. The bound is the
rate at which reading and the encoder would finish if they shared the cores without any loss. Processor times are of one
image; other programs hardly change them.

    python -m benchmarks.bulk --images 20000 --rounds 3
    python -m benchmarks.bulk --images 100000 --rounds 1
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median

import numpy as np
from PIL import Image

from benchmarks.command import parser, run
from gaussproto.bulk.local import read_here, read_in_processes
from gaussproto.bulk.read import chunk_size
from gaussproto.bulk.sources import chunks_of, list_sources
from gaussproto.cli import console
from gaussproto.data.strokes import strokes
from gaussproto.training.memory import keep_freed_memory

SIDE, A_FOLDER, FEW = 105, 1000, 1000


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=20_000, help="PNGs of 105 x 105 pixels (default: 20,000)")
    options.add_argument("--rounds", type=int, default=3, help="of which medians are shown (default: 3)")
    options.add_argument("--encoder", default="drawings-small", help="default: drawings-small")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that read (default: all cores)")
    options.add_argument("--folder", type=Path, help="keep the PNGs here for the next time (default: a temporary one)")
    options.add_argument("--memory-only", action="store_true", help="only the command, for a large number of PNGs")
    chosen = options.parse_args()
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # as the command does
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary)) / str(chosen.images)
        few = (chosen.folder or Path(temporary)) / str(FEW)
        for place in (folder, few):
            draw(place)
        rounds = [_round(folder, Path(temporary) / "out", chosen) for _ in range(chosen.rounds)]
        least = _command(few, Path(temporary) / "few", chosen)
    each = {name: median(one[name] for one in rounds) for name in rounds[0]}
    rows = [[name, f"{value:,.0f}"] for name, value in each.items()]
    rows.append([f"peak memory with {FEW:,} PNGs, MB", f"{least['peak memory, MB']:,.0f}"])
    rows.append(["times the memory", f"{each['peak memory, MB'] / least['peak memory, MB']:.2f}"])
    if not chosen.memory_only:
        shares = {
            "share of the slower one alone": "slower alone",
            "share of the bound of both on the same cores": "both on the same cores",
        }
        for name, bound in shares.items():
            shared = [one["the command"] / one[bound] for one in rounds]
            rows.append([name, f"{median(shared):.2f} ({min(shared):.2f} to {max(shared):.2f})"])
    title = f"{chosen.images:,} PNGs, {chosen.encoder}, {chosen.processes} processes"
    console.print_table(title, ["", "images/s"], rows, right=1)


def draw(folder: Path) -> None:
    """Write drawings of invented characters, shifted so that no two files are alike."""
    N = int(folder.name)
    if folder.exists():
        return
    drawings = _drawings()
    for i in range(N):
        if i % A_FOLDER == 0:
            place = folder / f"{i // A_FOLDER:03}"
            place.mkdir(parents=True)
        shift = i // len(drawings)
        page = np.roll(drawings[i % len(drawings)], (shift % 11 - 5, shift // 11 % 11 - 5), axis=(0, 1))
        page[0, 0] = shift // 121 % 256  # the corner is a speck, which the preparation drops
        Image.fromarray(page).save(place / f"{i:06}.png")


@functools.cache
def _drawings() -> np.ndarray:
    return np.asarray(255 - strokes(alphabets=2, drawings=4, size=SIDE, seed=1).images[:, 0].numpy())


def _round(folder: Path, out: Path, chosen) -> dict[str, float]:
    if chosen.memory_only:
        return _command(folder, out, chosen)
    from gaussproto.classifier.encoders.find import find_encoder

    encoder = find_encoder(chosen.encoder)
    images = list_sources(folder)
    chunks = list(chunks_of(images, chunk_size(encoder.look)))
    kept = [each.pixels for each in read_here(chunks[:8], encoder.look)]
    for pixels in kept:
        encoder.embed(pixels)
    start, used = time.perf_counter(), _cpu()  # with the start of the processes, as below
    done = sum(len(each.paths) for each in read_in_processes(chunks, encoder.look, chosen.processes))
    read_rate, read_cpu = done / (time.perf_counter() - start), (_cpu() - used) / done
    start, used, done = time.perf_counter(), _cpu(), 0
    while done < min(len(images), 20_000):
        for pixels in kept:
            encoder.embed(pixels)
            done += len(pixels)
    embed_rate, embed_cpu = done / (time.perf_counter() - start), (_cpu() - used) / done
    alone = {
        "reading alone": read_rate,
        "the encoder alone": embed_rate,
        "slower alone": min(read_rate, embed_rate),
        "both on the same cores": 1 / (1 / read_rate + 1 / embed_rate),
        "reading alone, processor time, us": 1e6 * read_cpu,
        "the encoder alone, processor time, us": 1e6 * embed_cpu,
    }
    return alone | _command(folder, out, chosen)


def _command(folder: Path, out: Path, chosen) -> dict[str, float]:
    """Run the command. Its peak memory is the largest sum over its processes, seen ten times a second."""
    shutil.rmtree(out, ignore_errors=True)
    arguments = ["embed", str(folder), "--out", str(out), "--encoder", chosen.encoder]
    arguments += ["--processes", str(chosen.processes), "--json"]
    code = "import sys; from gaussproto.cli import main; sys.argv[0] = 'gaussproto'; main()"
    start, used = time.perf_counter(), _cpu()
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, _memory(process.pid))
        time.sleep(0.1)
    seconds = time.perf_counter() - start
    assert process.stdout is not None
    result = json.loads(process.stdout.read())
    assert result["images"] == int(folder.name), result
    return {
        "the command, with its imports": result["new"] / seconds,
        "the command": result["new"] / result["seconds"],
        "the command, processor time with imports, us": 1e6 * (_cpu() - used) / result["new"],
        "peak memory, MB": peak / 1e6,
    }


def _cpu() -> float:
    """Return the processor time in seconds of this process and of its children that have ended."""
    return sum(each.ru_utime + each.ru_stime for each in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def _memory(pid: int) -> float:
    """Return the memory of a process and its children in bytes; pages that they share count once."""
    total = 0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *children):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    except (OSError, StopIteration):
        return 0.0
    return total


if __name__ == "__main__":
    run(main)
