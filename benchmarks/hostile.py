"""Malformed and hostile requests of many kinds. Each must get a clear 4xx and change nothing in the store."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import hostile_bodies, hostile_http
from benchmarks.target import CLOSED, Kind, kinds_of

KINDS: dict[str, Kind] = kinds_of(hostile_http) | kinds_of(hostile_bodies)


def is_refusal(name: str, status: int) -> bool:
    """Return whether a status is a right answer to a kind of request."""
    return status == CLOSED if name == "body that stops" else 400 <= status < 500


def requests(count: int) -> Iterator[tuple[str, Kind]]:
    """Yield kinds of requests, in turn."""
    for i in range(count):
        yield list(KINDS.items())[i % len(KINDS)]
