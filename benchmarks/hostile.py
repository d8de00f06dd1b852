"""Malformed and hostile requests of many kinds. Each must get a clear 4xx and change nothing in the store."""

from __future__ import annotations

import base64
import io
import json
import random
import socket
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.served import Server
from gaussproto.arrays import read_arrays, write_arrays

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


Kind = Callable[[Target], int]
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    KINDS[make.__name__.replace("_", " ")] = make
    return make


def is_refusal(name: str, status: int) -> bool:
    """Return whether a status is a right answer to a kind of request."""
    return status == CLOSED if name == "body that stops" else 400 <= status < 500


def requests(count: int) -> Iterator[tuple[str, Kind]]:
    """Yield kinds of requests, in turn."""
    for i in range(count):
        yield list(KINDS.items())[i % len(KINDS)]


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


@kind
def not_http(t: Target) -> int:
    return t.send(t.noise() + b"\r\n\r\n")


@kind
def unknown_method(t: Target) -> int:
    return t.ask(t.rng.choice(["PUT", "TRACE", "PROPFIND", "BREW"]), f"{API}/galleries")


@kind
def no_host(t: Target) -> int:
    return t.send(f"GET {API}/galleries HTTP/1.1\r\nConnection: close\r\n\r\n".encode())


@kind
def two_hosts(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries", headers="Host: evil.example\r\n")


@kind
def rebound_host(t: Target) -> int:
    host = t.rng.choice(
        ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "a@b", "[::1"]
    )
    return t.ask("GET", f"{API}/galleries", host=host)


@kind
def foreign_origin(t: Target) -> int:
    origin = t.rng.choice(
        ["http://evil.example", "null", f"http://127.0.0.1:{t.server.port + 1}", "file://", "http://["]
    )
    return t.ask("POST", f"{API}/galleries", b'{"name": "x"}', headers=f"Origin: {origin}\r\n")


@kind
def cross_site(t: Target) -> int:
    path = f"{API}/galleries/{t.gallery}"
    return t.ask(t.rng.choice(["GET", "DELETE"]), path, headers="Sec-Fetch-Site: cross-site\r\n")


@kind
def path_out_of_the_folder(t: Target) -> int:
    up = t.rng.choice(["../", "%2e%2e/", "..%2f", "%2e%2e%2f", "..\\", "..%5c", "....//", "%252e%252e/"])
    return t.ask("GET", f"/{up * t.rng.randint(1, 9)}{t.rng.choice(['etc/passwd', 'api.py', 'store.py', 'docs.html'])}")


@kind
def control_characters_in_path(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries/a{t.rng.choice(['%00', '%0d%0a', '%1b', '%7f'])}b")


@kind
def path_that_is_not_utf8(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries/%{t.rng.randint(128, 255):x}%ff")


@kind
def endless_headers(t: Target) -> int:
    return t.ask(
        "GET", f"{API}/health", headers="".join(f"X-{i}: {'a' * 90}\r\n" for i in range(t.rng.randint(400, 2000)))
    )


@kind
def one_long_header(t: Target) -> int:
    return t.ask("GET", f"{API}/health", headers=f"X: {'a' * t.rng.randint(33_000, 300_000)}\r\n")


@kind
def long_path(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries/{'a' * t.rng.randint(40, 30_000)}")


@kind
def declared_too_large(t: Target) -> int:
    size = t.rng.choice([64_001, 10**9, 10**30])
    return t.send(
        f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\nConnection: close\r\n\r\n".encode()
        + b"x" * 64_002
    )


@kind
def chunked_too_large(t: Target) -> int:
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    return t.send(
        f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        + 4 * chunk
        + b"0\r\n\r\n"
    )


@kind
def wrong_length(t: Target) -> int:
    length = t.rng.choice(["-1", "a", "1, 2", "0x10", "1\r\nContent-Length: 2", "1\r\nTransfer-Encoding: chunked"])
    return t.send(f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{{}}".encode())


@kind
def invalid_json(t: Target) -> int:
    body = t.rng.choice([b"{", b"", b"{'name': 1}", b"\xff\xfe", b'{"name": "a"', b"null", b"[]", b"1", t.noise()])
    return t.rng.choice([lambda: t.ask("POST", f"{API}/galleries", body), lambda: t.classify(body)])()


@kind
def deep_json(t: Target) -> int:
    depth = t.rng.choice([500, 5_000, 30_000])
    body = t.rng.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    if len(body) > 60_000 or t.rng.random() < 0.5:
        return t.classify(body)
    return t.ask("POST", f"{API}/galleries", body)


@kind
def numbers_out_of_range(t: Target) -> int:
    number = t.rng.choice(["NaN", "Infinity", "1e999", "-1", "9" * 5000, "0.6", "true", '"0.05"', "[]"])
    return t.ask("POST", f"{API}/galleries", f'{{"name": "a", "reject": {number}}}'.encode())


@kind
def wrong_types(t: Target) -> int:
    value = t.rng.choice([1, None, [], {}, True, ["a"], 1.5])
    return t.json("POST", f"/galleries/{t.gallery}/classes", {"name": value})


@kind
def unknown_fields(t: Target) -> int:
    return t.json("PATCH", f"/galleries/{t.gallery}", {t.rng.choice(["id", "version", "__class__", "encoder"]): "x"})


@kind
def bad_names(t: Target) -> int:
    name = t.rng.choice(["", "   ", "a" * 101, "a" * 60_000, "a\x00b", "a\x1bb", "\u202eab", "a\u2028b", "\ud800"])
    return t.json("POST", f"/galleries/{t.gallery}/classes", {"name": name})


@kind
def wrong_content_type(t: Target) -> int:
    other = t.rng.choice(
        ["text/plain", "application/xml", "", "application/x-www-form-urlencoded", "image/png", "\x80"]
    )
    if t.rng.random() < 0.5:
        return t.classify(t.png, other)
    return t.ask("POST", f"{API}/galleries", b'{"name": "x"}', other)


@kind
def broken_multipart(t: Target) -> int:
    whole = part("files", "a.png", t.png) + END
    body, content_type = t.rng.choice(
        [
            (whole, "multipart/form-data"),
            (whole, "multipart/form-data; boundary=other"),
            (whole[: t.rng.randint(1, 60)], FORM),
            (t.noise(), FORM),
            (END, FORM),
            (b"", FORM),
            (f"--{BOUNDARY}\r\n\r\nabc\r\n".encode() + END, FORM),
            (f"--{BOUNDARY}\r\n{'X: y' * 9000}\r\n\r\nabc\r\n".encode() + END, FORM),
            (part("files", None, t.png) + END, FORM),
            (part("other", "a.png", t.png) + END, FORM),
            (part("files", "a.png", t.png) + part("extra", None, b"1") + END, FORM),
        ]
    )
    return t.classify(body, content_type)


@kind
def too_many_files(t: Target) -> int:
    return t.classify(part("files", "a.png", t.png) * t.rng.randint(101, 300) + END, FORM)


@kind
def too_many_images(t: Target) -> int:
    return t.classify(json.dumps({"images": t.rng.choice([[], [as_text(t.png)] * 101])}).encode())


@kind
def not_an_image(t: Target) -> int:
    content = t.rng.choice(
        [
            t.noise(),
            t.png[: t.rng.randint(1, len(t.png) - 20)],
            b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
            b"\x80\x04\x95cposix\nsystem\n(S'true'\ntR.",
            b"GIF89a" + t.noise(),
            b"II*\x00" + t.noise(8, 60),
            b"",
        ]
    )
    if t.rng.random() < 0.5:
        return t.add({"class": "new", "image": as_text(content)})
    return t.classify(part("files", "a.png", content) + END, FORM)


@kind
def decompression_bomb(t: Target) -> int:
    side = t.rng.choice([(20_001, 10), (19_000, 19_000), (100_000, 100_000), (2**31 - 1, 2**31 - 1)])
    return t.add({"class": "new", "image": as_text(png_of(*side))})


@kind
def damaged_image(t: Target) -> int:
    content = bytearray(t.png)
    for _ in range(t.rng.randint(5, 40)):
        content[t.rng.randrange(30, 45)] = t.rng.randrange(256)
    return t.add({"class": "new", "image": as_text(bytes(content[:-20]))})


@kind
def invalid_base64(t: Target) -> int:
    image = t.rng.choice(["!!!!", "abc", "data:image/png;base64,é", "data:,", "\u2028", 5, None])
    return t.classify(json.dumps({"images": [image]}).encode())


@kind
def one_bad_among_good(t: Target) -> int:
    examples = [{"class": "new", "image": as_text(t.png)} for _ in range(3)]
    examples[t.rng.randrange(3)]["image"] = as_text(b"no image")
    return t.add(*examples)


@kind
def damage_out_of_range(t: Target) -> int:
    damage = t.rng.choice([-0.1, 1.1, 1e300, "a", None, [], float("nan"), float("inf")])
    return t.json("PATCH", f"/galleries/{t.gallery}/examples/{t.example}", {"damage": damage})


@kind
def encoder_that_is_a_path(t: Target) -> int:
    name = t.rng.choice(
        ["../../etc/passwd", "/etc/passwd", "my.safetensors", "identity", "auto", "os:system", "x" * 99, ""]
    )
    if t.rng.random() < 0.5:
        return t.json("POST", "/galleries", {"name": "x", "encoder": name})
    return t.ask("POST", f"{API}/embed?encoder={name}", json.dumps({"images": [as_text(t.png)]}).encode())


@kind
def gallery_file_of_a_path(t: Target) -> int:
    content = t.file.replace(b"drawings-small", t.rng.choice([b"/etc//shadow\x20\x20", b"../../../../ab"]))
    return t.ask("POST", f"{API}/galleries/open", part("file", "x.gallery", content) + END, FORM)


@kind
def damaged_gallery_file(t: Target) -> int:
    content = bytearray(t.file)
    for _ in range(t.rng.randint(1, 30)):
        content[t.rng.randrange(len(content))] ^= t.rng.randint(1, 255)
    damaged = t.rng.choice([bytes(content), t.file[: t.rng.randrange(len(t.file))], t.noise(), b""])
    return t.ask("POST", f"{API}/galleries/open", part("file", "x.gallery", damaged) + END, FORM)


@kind
def gallery_file_with_extreme_numbers(t: Target) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gallery"
        path.write_bytes(t.file)
        file = read_arrays(path, "gallery")
        name = t.rng.choice(["embeddings", "example_precisions"])
        extreme = np.full(
            file.arrays[name].shape, t.rng.choice([1e300, 1e38] if name == "embeddings" else [1e300, 1e-42])
        )
        write_arrays(path, file.arrays | {name: extreme}, file.metadata)
        content = path.read_bytes()
    return t.ask("POST", f"{API}/galleries/open", part("file", "x.gallery", content) + END, FORM)


@kind
def ids_that_are_not_ids(t: Target) -> int:
    bad = t.rng.choice(["'%20OR%201=1--", "a';DROP%20TABLE", "%3Cb%3E", "..", "A" * 33, "%F0%9F%98%80", "nothere"])
    path = t.rng.choice([f"/galleries/{bad}", f"/galleries/{t.gallery}/examples/{bad}"])
    return t.ask("DELETE", f"{API}{path}")


@kind
def bad_queries(t: Target) -> int:
    query = t.rng.choice(["top=-1", "top=1e9", "top=99999999999999999999", "nearest=a", "weights=x", "plane=maybe"])
    return t.classify(json.dumps({"images": [as_text(t.png)]}).encode(), query=f"?{query}")


@kind
def bad_sizes(t: Target) -> int:
    query = t.rng.choice(["size=0", "size=1000000", "size=-5", "size=a", "view=raw", "size=1&size=x"])
    return t.ask("GET", f"{API}/galleries/{t.gallery}/examples/{t.example}/image?{query}")


@kind
def class_of_another_gallery(t: Target) -> int:
    return t.json("PATCH", f"/galleries/{t.gallery}/examples/{t.example}", {"class": t.other_class})


@kind
def body_that_stops(t: Target) -> int:
    with socket.create_connection(("127.0.0.1", t.server.port), timeout=WAIT) as connection:
        connection.sendall(
            f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            'Content-Length: 1000\r\n\r\n{"name": "never"'.encode()
        )
    return CLOSED


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
