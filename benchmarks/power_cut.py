"""Cut the power while gaussproto trains or enrols, and check that nothing acknowledged is lost. Run as root on Linux.

    python -m benchmarks.power_cut [--cuts 20]

Each program works on an ext4 image that only gets what the program syncs. At the cut, the program is stopped between
two system calls. A copy of the image is mounted, which replays the journal, and the program must continue there.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.command import parser, run
from gaussproto.arrays import digest_of_arrays, read_arrays
from gaussproto.classifier.gallery import read_gallery
from gaussproto.cli import console, enroll
from gaussproto.cli import main as gaussproto
from gaussproto.errors import InputError
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.weights import open_weights

EPISODES, EVERY = 200, 10  # of the training, and between its checkpoints
TRAIN = f"--episodes {EPISODES} --checkpoint-every {EVERY} --filters 4,4,4 --embedding-dim 4 --way 5 --no-rotations"
SYNCED_ONLY = "loop,commit=300,noauto_da_alloc"  # ext4 does not sync by itself after a rename
PROCESSES = multiprocessing.get_context("forkserver")


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--cuts", type=int, default=20, help="cuts of each scenario (default: 20)")
    cuts = options.parse_args().cuts
    if not (shutil.which("mkfs.ext4") and os.geteuid() == 0 and Path("/dev/loop-control").exists()):
        raise InputError("power cuts need Linux, mkfs.ext4, root and loop devices: run this where they are available")
    PROCESSES.set_forkserver_preload(["gaussproto.training.train", "gaussproto.classifier.load", "torch._dynamo"])
    rows = []
    with tempfile.TemporaryDirectory(prefix="power-cut-") as folder, console.progress_bars() as bars:
        place = Path(folder)
        os.environ |= {"GAUSSPROTO_CACHE": f"{place}/cache", "OMP_NUM_THREADS": "1"}
        finish(place, train, place / "run")  # never cut, to compare with
        for name, cue, spread, check, *program in scenarios(place):
            problems = []
            for done in range(cuts):
                problems += [problem] if (problem := cut(place, cue, spread, check, program)) else []
                bars(name, done + 1, cuts)
            rows.append([name, *map(str, (cuts, cuts - len(problems), len(problems))), "; ".join({*problems})])
    console.print_table("power cuts", ["scenario", "cuts", "kept", "lost", "reasons"], rows, right=1)
    return int(any(row[-1] for row in rows))


def scenarios(place: Path) -> list[tuple[Any, ...]]:
    """Return for each: its name, a cue, the longest time from the cue to the cut (seconds), a check and the program."""
    live, gallery, last_line = RunFolder(place / "disk/run"), place / "disk/my.gallery", f'"episode":{EPISODES},'
    training, enrolling = (check_run, train, live.path), (check_gallery, enrol, gallery, place / "images", range(999))
    return [
        ("training, any moment", live.path.exists, 2.0, *training),
        ("training, as it starts", live.path.exists, 0.1, *training),
        ("training, as it ends", lambda: live.last.exists() and last_line in live.log_file.read_text(), 0.1, *training),
        ("training, after its end", lambda: False, 0.0, *training),
        ("enrolling", gallery.exists, 3.0, *enrolling),
    ]


def cut(place: Path, cue: Callable[[], bool], spread: float, check: Callable[..., str], program: list[Any]) -> str:
    """Run a program on a new image and cut the power after the cue or its end. Return what is wrong."""
    image, copy = place / "disk.img", place / "copy.img"
    image.write_bytes(bytes(32 << 20))
    run_tool("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
    with mounted(image, place / "disk", SYNCED_ONLY):
        child = PROCESSES.Process(target=with_output, args=(place / "output", *program))
        child.start()
        try:
            while child.is_alive() and not cue():
                time.sleep(0.001)
            time.sleep(random.uniform(0, spread))
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                while child.is_alive() and ") T" not in Path(f"/proc/{child.pid}/stat").read_text():
                    os.kill(child.pid, signal.SIGSTOP)  # takes effect after a system call
            shutil.copyfile(image, copy)
            with mounted(copy, place / "copy", "loop"):
                return check(place, (place / "output").read_text(), child.exitcode)
        except (InputError, OSError) as error:
            return str(error)
        finally:
            child.kill()
            child.join()


def check_run(place: Path, output: str, code: int | None) -> str:
    live, copy, uncut = (RunFolder(place / name / "run") for name in ("disk", "copy", ""))
    before, after = (open_weights(one.last).position.episode if one.last.exists() else 0 for one in (live, copy))
    if after < before - EVERY or (code is not None and not (code == 0 and copy.ended)):
        return f"of {before} saved episodes {after} were left; exit code {code}, summary {copy.ended}"
    finish(place, train, copy.path, *["--resume"] * copy.config.exists())
    resumed, wanted = (digest_of_arrays("", read_arrays(one.last, "checkpoint").arrays) for one in (copy, uncut))
    if resumed != wanted:
        return "the weights differ from those of a run that was not cut"
    whole = [record.episode for record in copy.read_log()] == list(range(EVERY, EPISODES + 1, EVERY))
    return "" if whole and copy.ended else "the log has a gap, or metrics.json has no summary"


def check_gallery(place: Path, output: str, code: int | None) -> str:
    gallery, acknowledged = place / "copy/my.gallery", output.count("acknowledged")
    labels = read_gallery(gallery)[2] if gallery.exists() else []
    finish(place, enrol, gallery, place / "images", [999])  # the gallery must still accept examples
    missing = {f"class {number}" for number in range(acknowledged)} - {*labels}
    return f"{len(missing)} of {acknowledged} enrolments were lost (exit code {code})" if missing or code else ""


def train(folder: Path, *more: str) -> None:
    sys.argv = ["gaussproto", "train", "demo", *TRAIN.split(), "--out", str(folder), *more]
    gaussproto()


def enrol(gallery: Path, images: Path, numbers: range | list[int]) -> None:
    for number in numbers:
        for name in (f"class {number}", "shared"):  # a gallery needs two classes
            (images / str(number) / name).mkdir(parents=True, exist_ok=True)
            Image.effect_noise((28, 28), 64).save(images / str(number) / name / "image.png")
        enroll(gallery, images / str(number))
        print("acknowledged", flush=True)


def with_output(path: Path, function: Callable[..., None], *arguments: Any) -> None:
    os.dup2(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 1)
    os.dup2(1, 2)
    function(*arguments)


def finish(place: Path, *program: Any) -> None:
    """Run a program to its end. Raise InputError if it fails or warns."""
    child = PROCESSES.Process(target=with_output, args=(place / "output", *program))
    child.start()
    child.join()
    output = " ".join((place / "output").read_text().split())
    if child.exitcode != 0 or "warning" in output:
        raise InputError(f"the program did not continue after the cut (code {child.exitcode}): {output}")


@contextmanager
def mounted(image: Path, folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    run_tool("mount", "-o", options, image, folder)
    try:
        yield
    finally:
        run_tool("umount", "--lazy", folder)


def run_tool(*command: str | Path) -> None:
    if (result := subprocess.run(command, capture_output=True, text=True)).returncode:
        raise InputError(f"{command[0]} failed ({result.stderr.strip()}): check that this machine can mount images")


if __name__ == "__main__":
    run(main)
