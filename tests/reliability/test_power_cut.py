"""Cut the power for real: on a file system in an image file, which needs root and loop devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def can_mount(folder: Path) -> bool:
    image, place = folder / "disk.img", folder / "disk"
    image.write_bytes(bytes(1 << 20))
    place.mkdir()
    try:
        subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, place], check=True, capture_output=True)
        subprocess.run(["umount", place], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def test_nothing_acknowledged_is_lost(tmp_path):
    if os.getuid() != 0 or not can_mount(tmp_path):
        pytest.skip("needs root, mkfs.ext4 and loop devices")
    command = [sys.executable, "-m", "benchmarks.power_cut", "--cuts", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("training,") == 4
