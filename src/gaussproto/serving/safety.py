"""What every request must pass before the API sees it: Host, Origin, token, and the size and pace of its body."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/api/v1"
OPEN = (f"{API}/health", f"{API}/ready", f"{API}/openapi.json")  # without a token
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
WITH_FILES = re.compile(rf"{API}/(galleries/[^/]+/(examples|classify)|galleries/open|embed)/?$")
SMALL_BODY, LARGE_BODY = 64_000, 64_000_000  # bytes, of requests without and with files
ALL_BODIES = 256_000_000  # bytes in memory, of all requests together
LARGEST_HEAD = 32_000  # bytes of all headers
PATIENCE, PACE = 10.0, 16_000  # seconds that a body or a pause in it may take, and a second more for this many bytes
UNREAD, PAUSE = 5.0, 0.5  # seconds for which a refused body is still read, in all and if nothing comes
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")  # in a path

HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; "
     b"img-src 'self' blob: data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
     b"manifest-src 'self'"),
    (b"permissions-policy", b"camera=(self), microphone=(), geolocation=(), payment=(), usb=()"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]  # fmt: skip


@dataclass(frozen=True)
class Access:
    """Who may use the server.

    Args:
        token: the secret that requests must carry, or None.
        hosts: names of the server besides `localhost` and addresses.
    """

    token: str | None = None
    hosts: frozenset[str] = field(default_factory=frozenset)

    def knows_host(self, host: str) -> bool:
        """Return whether a Host header names this server.

        A page of an attacker can give its own name the address of this machine, but it cannot send an address or
        `localhost` as Host.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name == "localhost" or name in self.hosts or _is_address(name)

    def knows_token(self, authorization: str) -> bool:
        """Compare the token in constant time."""
        if self.token is None:
            return True
        kind, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(errors="replace"), self.token.encode())
        return kind.lower() == "bearer" and same


class RefusedError(Exception):
    """A request that does not reach the API."""

    def __init__(self, status: int, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        self.status, self.sentence, self.headers = status, sentence, headers


class Guard:
    """The outermost part of the application.

    Args:
        app: the application inside.
        access: who may use it.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self.buffered = 0  # bytes of all bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None
        send_safely = _with_headers(send)
        try:
            self._check(scope)
        except RefusedError as refused:
            await _read_rest(receive)
            return await _refuse(send_safely, refused)
        if scope["method"] in ("GET", "HEAD") and not _has_body(scope):
            return await self.app(scope, receive, send_safely)
        return await self._with_body(scope, receive, send_safely)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, within its limits, before the application starts."""
        parts: list[bytes] = []
        size = 0
        try:
            try:
                await self._read(scope, receive, parts)
            except RefusedError as refused:
                if refused.status != 408:
                    await _read_rest(receive)
                return await _refuse(send, refused)
            except ConnectionError:
                return None
            finally:
                size = sum(map(len, parts))
            whole = [b"".join(parts)]
            parts.clear()  # the body is only held once

            async def replay() -> Message:
                return {"type": "http.request", "body": whole.pop()} if whole else await receive()

            return await self.app(scope, replay, send)
        finally:
            self.buffered -= size

    async def _read(self, scope: Scope, receive: Receive, parts: list[bytes]) -> None:
        most = LARGE_BODY if WITH_FILES.match(scope["path"]) else SMALL_BODY
        too_large = RefusedError(413, f"the body of this request must have at most {most:,} bytes: send less at once")
        declared = _header(scope, b"content-length")
        if declared and declared.isdigit() and int(declared[:20]) > most:
            raise too_large
        loop = asyncio.get_running_loop()
        started, received = loop.time(), 0
        while True:
            try:
                async with asyncio.timeout_at(min(loop.time(), started + received / PACE) + PATIENCE):
                    message = await receive()
            except TimeoutError:
                raise RefusedError(408, "the body of the request came too slowly: send it again") from None
            if message["type"] == "http.disconnect":
                raise ConnectionError
            part = message.get("body", b"")
            parts.append(part)
            received += len(part)
            self.buffered += len(part)
            if received > most:
                raise too_large
            if self.buffered > ALL_BODIES:
                raise _busy()
            if not message.get("more_body"):
                return

    def _check(self, scope: Scope) -> None:
        """Raise RefusedError if the request comes from a place that it must not come from."""
        headers = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > LARGEST_HEAD:
            raise RefusedError(431, f"the headers of a request must have at most {LARGEST_HEAD:,} bytes: send fewer")
        hosts = [value for name, value in headers if name == b"host"]
        host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
        if not self.access.knows_host(host):
            remedy = "start the server with --allow-host and its name"
            raise RefusedError(421, f"this server does not answer to the host {host[:100]!r}: {remedy}")
        writes, is_api = scope["method"] not in SAFE_METHODS, scope["path"].startswith("/api/")
        origin = _header(scope, b"origin")
        if origin is not None and (writes or is_api) and not _same_origin(origin, host):
            raise RefusedError(403, "other sites may not use this server: open its own page")
        if (writes or is_api) and _header(scope, b"sec-fetch-site") == "cross-site":
            raise RefusedError(403, "other sites may not use this server: open its own page")
        if FORBIDDEN.search(scope["path"]):
            raise RefusedError(400, "the path of the request contains characters that no path here has: check it")
        if is_api and scope["path"] not in OPEN and not self.access.knows_token(_header(scope, b"authorization") or ""):
            remedy = "send the token of the server as `Authorization: Bearer TOKEN`"
            raise RefusedError(401, f"the token is missing or wrong: {remedy}", (b"www-authenticate", b"Bearer"))


def failure(sentence: str) -> bytes:
    """Return an error as the body of a response."""
    return json.dumps({"error": sentence}).encode()


async def say_busy(_: Scope, __: Receive, send: Send) -> None:
    """Answer instead of the application if there are too many connections."""
    await _refuse(_with_headers(send), _busy())


def _busy() -> RefusedError:
    return RefusedError(503, "the server is busy: try again in a moment", (b"retry-after", b"1"))


def _with_headers(send: Send) -> Send:
    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return send_safely


async def _refuse(send: Send, refused: RefusedError) -> None:
    body = failure(refused.sentence)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close"), (b"cache-control", b"no-store"), *refused.headers]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _read_rest(receive: Receive) -> None:
    """Read what the client still sends: a connection that is closed before loses the answer."""
    loop = asyncio.get_running_loop()
    end = loop.time() + UNREAD
    while (now := loop.time()) < end:
        try:
            async with asyncio.timeout_at(min(end, now + PAUSE)):
                message = await receive()
        except TimeoutError:
            return
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return


def _header(scope: Scope, name: bytes) -> str | None:
    found: Iterable[bytes] = (value for key, value in scope["headers"] if key == name)
    return next((value.decode("latin-1") for value in found), None)


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
