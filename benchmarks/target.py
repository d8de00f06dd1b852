"""A server that gets requests byte by byte, and the parts that requests are made of."""

from __future__ import annotations

import base64
import io
import json
import random
import socket
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import isfunction
from types import ModuleType
from typing import Any

from PIL import Image

from benchmarks.served import Server

API = "/api/v1"
BOUNDARY = "a-boundary"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
CLOSED = 0  # the server closed the connection without an answer
WAIT = 30.0  # seconds for an answer


@dataclass
class Target:
    """A server with a gallery of a few examples, and random numbers to vary the requests."""

    server: Server
    gallery: str
    example: str
    other_class: str  # of another gallery
    png: bytes
    file: bytes  # a gallery file
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    def send(self, request: bytes) -> int:
        """Send bytes and return the status of the answer."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=WAIT) as connection:
            try:
                connection.sendall(request)
                answer = b""
                while b"\r\n" not in answer and (part := connection.recv(4096)):
                    answer += part
            except ConnectionError:
                return CLOSED
        return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else CLOSED

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json", headers: str = "",
        host: str | None = None,
    ) -> int:  # fmt: skip
        name = f"Host: {host or f'127.0.0.1:{self.server.port}'}\r\n"
        lines = f"{name}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}"
        return self.send(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)

    def json(self, method: str, path: str, content: Any) -> int:
        return self.ask(method, f"{API}{path}", json.dumps(content).encode())

    def classify(self, body: bytes, kind: str = "application/json", query: str = "") -> int:
        return self.ask("POST", f"{API}/galleries/{self.gallery}/classify{query}", body, kind)

    def add(self, *examples: Any) -> int:
        return self.json("POST", f"/galleries/{self.gallery}/examples", {"examples": list(examples)})

    def noise(self, least: int = 1, most: int = 300) -> bytes:
        return self.rng.randbytes(self.rng.randint(least, most))


def png_of(width: int, height: int, colour: int = 0) -> bytes:
    """Return a PNG file of one colour, which is tiny however many pixels it has."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    packer = zlib.compressobj(9)
    line = bytes(1 + (min(width, 100_000) + 7) // 8)
    rows = b"".join(packer.compress(line) for _ in range(min(height, 3000))) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def as_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def part(field: str, name: str | None, content: bytes) -> bytes:
    filename = "" if name is None else f'; filename="{name}"'
    return (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"{filename}\r\n\r\n'.encode() + content + b"\r\n"
    )


END = f"--{BOUNDARY}--\r\n".encode()


def files(*contents: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    """Return images as httpx sends them."""
    return [("files", (f"{i}.png", content)) for i, content in enumerate(contents)]


def make_target(server: Server) -> Target:
    """Fill two galleries of a server."""
    client = server.client
    gallery, other = (client.post("/galleries", json={"name": name}).json()["id"] for name in ("one", "two"))
    for each in (gallery, other):
        client.post(f"/galleries/{each}/samples", json={"id": "invented-1", "classes": 2, "shots": 2})
    example = client.get(f"/galleries/{gallery}").json()["classes"][0]["examples"][0]["id"]
    picture = io.BytesIO()
    Image.effect_noise((40, 40), 90).save(picture, "PNG")
    file = client.get(f"/galleries/{gallery}/file").content
    other_class = client.get(f"/galleries/{other}").json()["classes"][0]["id"]
    return Target(server, gallery, example, other_class, picture.getvalue(), file)


def content_of(server: Server) -> list[Any]:
    """Return everything in the store, as the API shows it."""
    listed = server.client.get("/galleries").json()
    return [server.client.get(f"/galleries/{each['id']}").json() for each in listed]


Kind = Callable[[Target], int]  # sends a request and returns the status of the answer


def kinds_of(module: ModuleType) -> dict[str, Kind]:
    """Return the kinds of requests of a module: its functions, by name."""
    made = [each for each in vars(module).values() if isfunction(each) and each.__module__ == module.__name__]
    return {each.__name__.replace("_", " "): each for each in made}
