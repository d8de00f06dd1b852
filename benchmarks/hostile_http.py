"""Malformed and hostile requests: what comes before the body."""

from __future__ import annotations

import json
import socket

from benchmarks.target import API, CLOSED, WAIT, Target, as_text


def not_http(t: Target) -> int:
    return t.send(t.noise() + b"\r\n\r\n")


def unknown_method(t: Target) -> int:
    return t.ask(t.rng.choice(["PUT", "TRACE", "PROPFIND", "BREW"]), f"{API}/galleries")


def no_host(t: Target) -> int:
    return t.send(f"GET {API}/galleries HTTP/1.1\r\nConnection: close\r\n\r\n".encode())


def two_hosts(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries", headers="Host: evil.example\r\n")


def rebound_host(t: Target) -> int:
    host = t.rng.choice(
        ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "a@b", "[::1"]
    )
    return t.ask("GET", f"{API}/galleries", host=host)


def foreign_origin(t: Target) -> int:
    origin = t.rng.choice(
        ["http://evil.example", "null", f"http://127.0.0.1:{t.server.port + 1}", "file://", "http://["]
    )
    return t.ask("POST", f"{API}/galleries", b'{"name": "x"}', headers=f"Origin: {origin}\r\n")


def cross_site(t: Target) -> int:
    path = f"{API}/galleries/{t.gallery}"
    return t.ask(t.rng.choice(["GET", "DELETE"]), path, headers="Sec-Fetch-Site: cross-site\r\n")


def path_out_of_the_folder(t: Target) -> int:
    up = t.rng.choice(["../", "%2e%2e/", "..%2f", "%2e%2e%2f", "..\\", "..%5c", "....//", "%252e%252e/"])
    return t.ask("GET", f"/{up * t.rng.randint(1, 9)}{t.rng.choice(['etc/passwd', 'api.py', 'store.py', 'docs.html'])}")


def control_characters_in_path(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries/a{t.rng.choice(['%00', '%0d%0a', '%1b', '%7f'])}b")


def path_that_is_not_utf8(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries/%{t.rng.randint(128, 255):x}%ff")


def endless_headers(t: Target) -> int:
    return t.ask(
        "GET", f"{API}/health", headers="".join(f"X-{i}: {'a' * 90}\r\n" for i in range(t.rng.randint(400, 2000)))
    )


def one_long_header(t: Target) -> int:
    return t.ask("GET", f"{API}/health", headers=f"X: {'a' * t.rng.randint(33_000, 300_000)}\r\n")


def long_path(t: Target) -> int:
    return t.ask("GET", f"{API}/galleries/{'a' * t.rng.randint(40, 30_000)}")


def declared_too_large(t: Target) -> int:
    size = t.rng.choice([64_001, 10**9, 10**30])
    return t.send(
        f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\nConnection: close\r\n\r\n".encode()
        + b"x" * 64_002
    )


def chunked_too_large(t: Target) -> int:
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    return t.send(
        f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        + 4 * chunk
        + b"0\r\n\r\n"
    )


def wrong_length(t: Target) -> int:
    length = t.rng.choice(["-1", "a", "1, 2", "0x10", "1\r\nContent-Length: 2", "1\r\nTransfer-Encoding: chunked"])
    return t.send(f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{{}}".encode())


def ids_that_are_not_ids(t: Target) -> int:
    bad = t.rng.choice(["'%20OR%201=1--", "a';DROP%20TABLE", "%3Cb%3E", "..", "A" * 33, "%F0%9F%98%80", "nothere"])
    path = t.rng.choice([f"/galleries/{bad}", f"/galleries/{t.gallery}/examples/{bad}"])
    return t.ask("DELETE", f"{API}{path}")


def bad_queries(t: Target) -> int:
    query = t.rng.choice(["top=-1", "top=1e9", "top=99999999999999999999", "nearest=a", "weights=x", "plane=maybe"])
    return t.classify(json.dumps({"images": [as_text(t.png)]}).encode(), query=f"?{query}")


def bad_sizes(t: Target) -> int:
    query = t.rng.choice(["size=0", "size=1000000", "size=-5", "size=a", "view=raw", "size=1&size=x"])
    return t.ask("GET", f"{API}/galleries/{t.gallery}/examples/{t.example}/image?{query}")


def body_that_stops(t: Target) -> int:
    with socket.create_connection(("127.0.0.1", t.server.port), timeout=WAIT) as connection:
        connection.sendall(
            f"POST {API}/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            'Content-Length: 1000\r\n\r\n{"name": "never"'.encode()
        )
    return CLOSED
