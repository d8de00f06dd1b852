"""HTTP/1.1 as uvicorn speaks it, with limits on slow and endless headers and on clients that do not read."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gaussproto.serving.safety import HEADERS, LARGEST_HEAD, failure, say_busy

PATIENCE = 10.0  # seconds that the headers of a request may take
UNREAD = 60.0  # seconds for which a client may leave an answer unread


class PatientProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._head: int | None = None  # bytes of headers that are not complete
        self._most, self.limit_concurrency = self.limit_concurrency, None  # uvicorn would answer in plain text

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._head = None
        app = self.app
        if self._most is not None and max(len(self.connections), len(self.tasks)) >= self._most:
            self.app = say_busy
        super().on_headers_complete()
        self.app = app

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self._deadline is None and self.timeout_keep_alive_task is None:
            self._await_head()  # blank lines before a request end the time for which uvicorn keeps a connection
        if self._head is not None:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431, f"the headers of a request must have at most {LARGEST_HEAD:,} bytes: send fewer")

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a valid HTTP request: check the client")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer such a request like any other, without filling the log."""

    def _await_head(self) -> None:
        self._head = 0
        self._deadline = self.loop.call_later(PATIENCE, self._too_slow)

    def _too_slow(self) -> None:
        self._refuse(408, "the headers of the request came too slowly: send it again")

    def _refuse(self, status: int, sentence: str) -> None:
        if self.transport.is_closing():
            return
        body = failure(sentence)
        lines = [b"%s: %s\r\n" % header for header in (*HEADERS, (b"content-type", b"application/json"))]
        end = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(b"".join([STATUS_LINE[status], *lines, end, body]))
        self.transport.close()
