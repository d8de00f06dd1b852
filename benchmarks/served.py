"""Start a real server, or a real PostgreSQL, for tests and benchmarks."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx

from gaussproto.errors import InputError

ADDRESS = re.compile(r"the studio is at (http://\S+?)/(?:#token=(\S+))? ")
START = 60.0  # seconds
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
POSTGRES = "/usr/lib/postgresql"  # where Debian puts its versions
NOBODY = ("postgres", "nobody")  # users that may run PostgreSQL, which refuses to run as root


class Server:
    """A running `gaussproto serve`.

    Args:
        store: file or URL of the store.
        options: further options of the command.
        ready: whether to wait until the server can classify.
    """

    def __init__(self, store: Path | str, *options: str, ready: bool = True) -> None:
        command = [sys.executable, "-m", "gaussproto", "serve", "--port", "0", "--no-open", "--store", str(store)]
        self.store = store
        self.log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (closed with the server)
        self.started = time.perf_counter()
        self.process = subprocess.Popen([*command, *options], stderr=self.log, stdin=subprocess.DEVNULL)
        self.url, printed = self._address()
        self.token = options[options.index("--token") + 1] if "--token" in options else printed
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        self.client = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60, trust_env=False)
        if ready:
            self.wait()

    def wait(self) -> None:
        """Wait until the server can classify."""
        while self.client.get("/ready").status_code != 200:
            self._check_time()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def said(self) -> str:
        """Return what the server printed."""
        self.log.seek(0)
        return self.log.read()

    def memory(self) -> int:
        """Return the resident memory of the server in bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.client.close()
        self.process.send_signal(how)
        code = self.process.wait(timeout=90)
        self.log.close()
        return code

    def _address(self) -> tuple[str, str | None]:
        while (found := ADDRESS.search(self.said())) is None:
            self._check_time()
        return found[1], unquote(found[2]) if found[2] else None

    def _check_time(self) -> None:
        if self.process.poll() is not None or time.perf_counter() - self.started > START:
            raise InputError(f"the server did not start: {self.said()[-500:]}")
        time.sleep(0.02)


@contextmanager
def running(store: Path | str, *options: str, **named: Any) -> Iterator[Server]:
    """Run a server and stop it at the end, unless it was stopped."""
    server = Server(store, *options, **named)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def postgres_folder() -> Path | None:
    """Return the folder with the programs of the newest PostgreSQL, or None."""
    folders = sorted(Path(POSTGRES).glob("*/bin"), key=lambda path: path.parent.name)
    return next((path for path in reversed(folders) if (path / "initdb").exists()), None)


@contextmanager
def running_postgres() -> Iterator[str]:
    """Run a new PostgreSQL without a network port, and yield its URL."""
    programs = postgres_folder()
    if programs is None:
        raise InputError("PostgreSQL is not installed: run scripts/debian.sh")
    user = _other_user() if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the path of a socket must be short
    if user is not None:
        shutil.chown(folder, user)
    initdb = [programs / "initdb", "-D", folder / "data", "-U", "gaussproto", "--auth=trust", "--no-instructions"]
    subprocess.run(initdb, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/tmp")
    command = [programs / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, user=user, stdout=log, stderr=log, cwd="/tmp")
    try:
        for _ in range(600):
            if "ready to accept connections" in (folder / "log").read_text():
                break
            time.sleep(0.05)
        yield f"postgresql+psycopg://gaussproto@/postgres?host={folder}"
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nobody needs the data
        process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in NOBODY if name in names)
