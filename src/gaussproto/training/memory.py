"""How memory is allocated: freed memory is kept for the next training step, and large blocks have large pages."""

import ctypes
import os
import sys
from functools import cache

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # from glibc's malloc.h
LARGE = 1 << 30  # bytes


@cache
def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory instead of returning it to the system.

    Otherwise the page faults of getting the memory back take a third of a training step. The setting applies to the
    whole process. `train` and the command line call this function; call it once in a program with its own training or
    evaluation loop.

    Returns:
        True if the setting was made, and False where it does not exist (any system without glibc).

    Examples:
        >>> import gaussproto as gp
        >>> kept = gp.keep_freed_memory()  # at the start of the program
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is None:
        return False
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, LARGE), mallopt(M_TOP_PAD, LARGE // 16)])


def use_large_pages() -> None:
    """Let torch allocate large pages, if it has not allocated anything yet.

    Blocks of many sizes then fall less into pieces: the memory of a long embedding is halved.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
