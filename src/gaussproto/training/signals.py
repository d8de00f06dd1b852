"""Requests to stop a run: Ctrl-C or SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_signals() -> Iterator[list[signal.Signals]]:
    """Yield a list that collects requests to stop (SIGINT, SIGTERM). A second SIGINT raises KeyboardInterrupt.

    torchrun runs each process in a session of its own, so Ctrl-C reaches only torchrun, which passes it on once.
    """
    asked: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may handle signals
        return

    def ask(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(signal.Signals(number))

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
