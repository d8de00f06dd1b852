"""Counts of requests and of the model's work, as Prometheus reads them."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaussproto.serving.worker import Worker

TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counts requests by route, method and status."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.below: Counter[float] = Counter()
        self.seconds, self.count = 0.0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = time.perf_counter(), 0

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counting)
        except Exception:
            status = status or 500
            raise
        finally:
            self._count(scope, status, time.perf_counter() - started)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        if status:  # otherwise the client has gone before it got an answer
            route = getattr(scope.get("route"), "path", "other")  # a template, so that there are few
            self.requests[route, scope["method"], status] += 1
            self.seconds += seconds
            self.count += 1
            for bound in SECONDS:
                self.below[bound] += seconds <= bound

    def text(self, worker: Worker) -> str:
        """Return all counts."""
        lines = ["# TYPE gaussproto_requests_total counter"]
        for (route, method, status), count in sorted(self.requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            lines.append(f"gaussproto_requests_total{{{labels}}} {count}")
        lines.append("# TYPE gaussproto_request_seconds histogram")
        lines += [f'gaussproto_request_seconds_bucket{{le="{bound}"}} {self.below[bound]}' for bound in SECONDS]
        lines.append(f'gaussproto_request_seconds_bucket{{le="+Inf"}} {self.count}')
        lines += [
            f"gaussproto_request_seconds_sum {self.seconds:.6f}",
            f"gaussproto_request_seconds_count {self.count}",
        ]
        for name, kind, value in (
            ("images_embedded_total", "counter", worker.images),
            ("batches_total", "counter", worker.batches),
            ("requests_waiting", "gauge", worker.waiting),
            ("requests_waiting_limit", "gauge", worker.room),
            ("resident_memory_bytes", "gauge", resident_memory()),
        ):
            lines += [f"# TYPE gaussproto_{name} {kind}", f"gaussproto_{name} {value}"]
        return "\n".join(lines) + "\n"


def resident_memory() -> int:
    """Return the memory of this process in bytes, or 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
