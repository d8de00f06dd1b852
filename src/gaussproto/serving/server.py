"""Run the server: listen, print the address, serve, and finish what was accepted before it stops."""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import sys
import warnings
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from ipaddress import ip_address
from threading import Thread
from typing import Any
from urllib.parse import quote

import uvicorn

from gaussproto.errors import InputError
from gaussproto.serving.api import create_app
from gaussproto.serving.protocol import PatientProtocol
from gaussproto.serving.safety import Access
from gaussproto.serving.store import Store
from gaussproto.serving.worker import ROOM, Worker

BACKLOG = 256  # connections that wait to be accepted
CONNECTIONS = 1_000
IDLE = 15  # seconds after which an unused connection is closed
FINISH = 60  # seconds for which a stopping server finishes requests


class _Server(uvicorn.Server):
    """A server that tells when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self.listening = listening

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.listening()


def serve(
    host: str, port: int, store: str | None, token: str | None, hosts: Sequence[str], open_page: bool | None,
    say: Callable[[str], None], room: int = ROOM,
) -> None:  # fmt: skip
    """Serve until a signal stops the server."""
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise InputError("--token must be letters, digits and signs without spaces: choose another one")
    with closing(_listen(host, port)) as listener, closing(Store(store)) as opened:
        exposed = bool(hosts) or not ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback
        made = secrets.token_urlsafe(24) if exposed and token is None else None
        names = {name.lower() for name in (*hosts, host, socket.gethostname() if exposed else "") if name}
        address = _address(host, listener.getsockname()[1])
        say(f"the store is {opened.place} (galleries: {len(opened.list_galleries())})")

        def listening() -> None:
            once = " with its token, which is not shown again" if made else ""
            say(f"the studio is at {address}{_fragment(made)} (press Ctrl+C to stop){once}")
            if _has_display() if open_page is None else open_page:
                page = address + _fragment(token or made)
                Thread(target=webbrowser.open, args=(page,), daemon=True).start()  # some browsers block

        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # clients would fill the log
        warnings.simplefilter("ignore")
        app = create_app(opened, Worker(room), Access(token or made, frozenset(names)))
        config = uvicorn.Config(
            app, http=PatientProtocol, ws="none", lifespan="on", log_level="error", access_log=False,
            server_header=False, backlog=BACKLOG, limit_concurrency=CONNECTIONS, timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=FINISH, proxy_headers=False,
        )  # fmt: skip
        _Server(config, listening).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    listener = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # asyncio sends small answers at once only if the protocol is named; otherwise they wait 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name != "nt":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen on {host}:{port} ({reason}): choose another --host or --port") from None
    return listener


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/"


def _fragment(token: str | None) -> str:
    return f"#token={quote(token, safe='')}" if token else ""


def _has_display() -> bool:
    """Return whether there is a screen to open a browser on."""
    if sys.platform in ("win32", "darwin"):
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
