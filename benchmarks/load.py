"""Clients that classify over keep-alive connections as fast as the server answers, and how long each answer took."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np


@dataclass(frozen=True)
class Load:
    """What some clients saw."""

    seconds: float  # from the first request to the last answer
    times: np.ndarray  # of each answer, in seconds
    errors: int  # answers that are not 200

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        """Return the time in milliseconds within which this percentage of the answers came."""
        return float(np.percentile(self.times, share)) * 1000


def drive(url: str, path: str, content_type: str, bodies: list[bytes], clients: int, requests: int) -> Load:
    """Send requests from several clients in this process. The clients take turns with the bodies."""
    return asyncio.run(_drive(url, path, content_type, bodies, clients, requests))


async def _drive(url: str, path: str, content_type: str, bodies: list[bytes], clients: int, requests: int) -> Load:
    place = urlsplit(url)
    heads = [
        f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
        for body in bodies
    ]
    times, errors, number = [], 0, iter(range(requests))

    async def client() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for i in number:
            started = time.perf_counter()
            writer.write(heads[i % len(heads)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - started)
            errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return Load(time.perf_counter() - started, np.array(times), errors)
