"""Downloads from a real server that misbehaves as real ones do."""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from gaussproto.data.download import download
from gaussproto.data.omniglot import BACKGROUND, find_or_fetch
from gaussproto.errors import InputError

CONTENT = np.random.default_rng(0).bytes(700_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    content = CONTENT
    breaks_after = None  # bytes of each answer, then the connection closes
    understands_range = True
    errors = 0  # answers of 408, 429 or 503 before it works

    def __init__(self):
        self.starts = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        if self.path == "/missing":
            return self.send_error(404)
        if self.server.errors:
            self.server.errors -= 1
            return self.send_error((503, 429, 408)[self.server.errors % 3])
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.server.understands_range else 0
        self.server.starts.append(start)
        if start >= len(self.server.content):
            return self.send_error(416)
        rest = self.server.content[start:]
        self.send_response(206 if asked and self.server.understands_range else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: self.server.breaks_after])
        return None

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_whole_file_with_progress(server, tmp_path):
    seen = []
    path = download(f"{server.url}/x", tmp_path / "new" / "x.zip", MD5, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [file.name for file in path.parent.iterdir()] == ["x.zip"]


def test_a_broken_connection_goes_on_where_it_broke(server, tmp_path):
    server.breaks_after = 200_000
    path = download(f"{server.url}/x", tmp_path / "x.zip", MD5, wait=0)
    assert path.read_bytes() == CONTENT
    assert server.starts == [0, 200_000, 400_000, 600_000]


def test_the_next_call_goes_on_too(server, tmp_path):
    server.breaks_after = 100_000
    with pytest.raises(InputError, match=r"could not download .* closed after"):
        download(f"{server.url}/x", tmp_path / "x.zip", MD5, retries=2, wait=0)
    assert not (tmp_path / "x.zip").exists()
    server.breaks_after = None
    download(f"{server.url}/x", tmp_path / "x.zip", MD5, wait=0)
    assert (tmp_path / "x.zip").read_bytes() == CONTENT
    assert server.starts[-1] == 200_000


def test_a_server_that_cannot_resume(server, tmp_path):
    server.understands_range = False
    (tmp_path / "x.zip.part").write_bytes(CONTENT[:1000])
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5, wait=0).read_bytes() == CONTENT


def test_a_wrong_beginning_is_thrown_away(server, tmp_path):
    (tmp_path / "x.zip.part").write_bytes(b"something else")
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5, wait=0).read_bytes() == CONTENT
    (tmp_path / "y.zip.part").write_bytes(CONTENT + b"more")
    assert download(f"{server.url}/x", tmp_path / "y.zip", MD5, wait=0).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.errors = 3
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5, wait=0).read_bytes() == CONTENT


def test_another_content_is_refused(server, tmp_path):
    server.content = b"an error page"
    with pytest.raises(InputError, match="its checksum is"):
        download(f"{server.url}/x", tmp_path / "x.zip", MD5, retries=2, wait=0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_not_asked_for_twice(server, tmp_path):
    with pytest.raises(InputError, match=r"404 .*--data-root"):
        download(f"{server.url}/missing", tmp_path / "x.zip", MD5, retries=99, wait=9)


def test_what_is_here_is_not_fetched(tmp_path):
    (tmp_path / "x.zip").write_bytes(CONTENT)
    assert download("http://127.0.0.1:9/x", tmp_path / "x.zip", MD5).read_bytes() == CONTENT


def test_omniglot_comes_from_the_server_only_if_it_is_nowhere(server, tmp_path, monkeypatch):
    monkeypatch.delenv("GAUSSPROTO_DATA", raising=False)
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path))
    part = type(BACKGROUND)(BACKGROUND.name, BACKGROUND.alphabets, MD5, BACKGROUND.digest)
    path = find_or_fetch(part, url=server.url)
    assert path.read_bytes() == CONTENT
    assert find_or_fetch(part, url=server.url) == path
    assert server.starts == [0]
