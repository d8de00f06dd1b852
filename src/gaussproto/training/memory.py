"""Keep freed memory for the next step instead of giving it back to the system."""

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # of glibc's malloc.h
LARGE = 1 << 30  # bytes


@cache
def keep_freed_memory() -> bool:
    """Tell glibc not to return large blocks: the page faults of getting them again take a third of a training step.

    It holds for the whole process: `train` and the command call it, other programs may. Returns whether it was done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is None:
        return False
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, LARGE), mallopt(M_TOP_PAD, LARGE // 16)])
