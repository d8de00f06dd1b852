"""The origin of a result: machine, command, commit and version."""

import functools
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gaussproto.errors import visible


class Machine(BaseModel):
    """The hardware and the versions that a result depends on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    processor: str
    threads: int
    system: str
    python: str
    torch: str


def version() -> str:
    return metadata.version("gaussproto")


def machine() -> Machine:
    import torch

    return Machine(
        processor=_processor(),
        threads=torch.get_num_threads(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
    )


def command() -> str:
    return visible(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))


@functools.cache
def commit() -> str | None:
    """Return the commit of this checkout, with `-dirty` if files differ from it, or None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=10, check=True)
    try:
        run([*git, "ls-files", "--error-unmatch", __file__])  # fails if gaussproto is installed in another checkout
        return run([*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
