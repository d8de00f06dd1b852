"""Read images in worker processes, while this process runs the network."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

from gaussproto.bulk.read import Prepared, read_chunk
from gaussproto.bulk.sources import Chunk
from gaussproto.data.look import Look
from gaussproto.errors import InputError

AHEAD = 2  # chunks for each process that are read before they are needed


def read_here(chunks: Iterable[Chunk], look: Look) -> Iterator[Prepared]:
    return (read_chunk(chunk, look) for chunk in chunks)


def read_in_processes(chunks: Iterable[Chunk], look: Look, processes: int) -> Iterator[Prepared]:
    """Yield the chunks in order. Processes, because preparing a drawing holds Python's lock most of the time."""
    from joblib.externals.loky import ProcessPoolExecutor  # its processes do not import the user's program
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = ProcessPoolExecutor(processes, initializer=_begin, initargs=(os.getpid(),))
    waiting: deque[tuple[Chunk, object]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(read_chunk, chunk, look)))
            if len(waiting) > AHEAD * processes:
                yield _result(waiting)
        while waiting:
            yield _result(waiting)
    except BrokenProcessPool:
        raise InputError(
            f"a process that reads images was killed near {waiting[0][0].paths[0] if waiting else 'the end'}, perhaps "
            "for lack of memory: start the same command again, with fewer --processes if that repeats"
        ) from None
    finally:
        pool.shutdown(kill_workers=True)


def _result(waiting: deque[tuple[Chunk, object]]) -> Prepared:
    prepared: Prepared = waiting[0][1].result()  # type: ignore[attr-defined]
    waiting.popleft()
    return prepared


def _begin(parent: int) -> None:
    """Prepare a worker: it leaves Ctrl-C to its parent and ends when the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
