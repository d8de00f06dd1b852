"""Downloads from a real server that misbehaves as real ones do."""

import hashlib
import itertools
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pooch
import pytest

from gaussproto.data.download import CHUNK, download
from gaussproto.data.omniglot import BACKGROUND, find_or_fetch
from gaussproto.errors import InputError

CONTENT = np.random.default_rng(0).bytes(700_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


def names(folder):
    """Return the names of the files in a folder, without the lock of the download."""
    return [file.name for file in folder.iterdir() if file.suffix != ".lock"]


class Server(ThreadingHTTPServer):
    content = CONTENT
    breaks_after = None  # bytes of each answer, then the connection closes
    understands_range = True
    errors = 0  # answers of 408, 429 or 503 before it works

    def __init__(self):
        self.starts = []  # of the ranges that were asked for
        self.requests = 0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.requests += 1
        if self.path == "/missing":
            return self.send_error(404)
        if self.server.errors:
            self.server.errors -= 1
            return self.send_error((503, 429, 408)[self.server.errors % 3])
        part = self.server.understands_range and re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(part[1]) if part else 0
        self.server.starts.append(start)
        if start >= len(self.server.content):
            return self.send_error(416)
        rest = self.server.content[start:]
        self.send_response(206 if part else 200)
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


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds that pooch would have waited between attempts."""
    seconds = []
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=seconds.append))
    return seconds


def test_whole_file_with_progress(server, tmp_path):
    seen = []
    path = download(f"{server.url}/x", tmp_path / "new" / "x.zip", MD5, lambda *now: seen.append(now))
    assert path.read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == ("downloading x.zip", len(CONTENT), len(CONTENT))
    assert names(path.parent) == ["x.zip"]


def test_a_broken_connection_is_resumed_where_it_broke(server, tmp_path):
    server.breaks_after = 200_000
    seen = []
    path = download(f"{server.url}/x", tmp_path / "x.zip", MD5, lambda *now: seen.append(now))
    assert path.read_bytes() == CONTENT
    assert server.starts[0] == 0
    assert len(server.starts) == 4
    for before, after in itertools.pairwise(server.starts):
        assert before + 200_000 - CHUNK < after <= before + 200_000
    assert seen == sorted(seen)
    assert {total for _, _, total in seen} == {len(CONTENT)}


def test_the_next_call_resumes_too(server, tmp_path):
    server.breaks_after = 100_000
    with pytest.raises(InputError, match=r"cannot download .* closed 5\d\d,\d\d\d bytes before the end"):
        download(f"{server.url}/x", tmp_path / "x.zip", MD5, retries=1)
    assert names(tmp_path) == ["x.zip.part"]
    arrived = (tmp_path / "x.zip.part").stat().st_size
    assert 200_000 - 2 * CHUNK < arrived <= 200_000
    server.breaks_after = None
    download(f"{server.url}/x", tmp_path / "x.zip", MD5)
    assert (tmp_path / "x.zip").read_bytes() == CONTENT
    assert server.starts[-1] == arrived
    assert names(tmp_path) == ["x.zip"]


def test_a_server_that_cannot_resume(server, tmp_path):
    server.understands_range = False
    (tmp_path / "x.zip.part").write_bytes(CONTENT[:1000])
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5).read_bytes() == CONTENT


def test_a_wrong_beginning_is_thrown_away(server, tmp_path):
    (tmp_path / "x.zip.part").write_bytes(b"something else")
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5).read_bytes() == CONTENT
    (tmp_path / "y.zip.part").write_bytes(CONTENT + b"more")
    assert download(f"{server.url}/x", tmp_path / "y.zip", MD5).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again_after_waiting(server, tmp_path, waits, capfd):
    server.errors = 3
    level = pooch.get_logger().level
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5).read_bytes() == CONTENT
    assert len(waits) == 3
    assert 0 < waits[0] < waits[1] < waits[2]
    assert capfd.readouterr() == ("", "")  # only our own progress is printed
    assert pooch.get_logger().level == level


def test_a_server_that_stays_busy(server, tmp_path):
    server.errors = 99
    with pytest.raises(InputError, match=r"the server answered (408|429|503) .*try again later"):
        download(f"{server.url}/x", tmp_path / "x.zip", MD5, retries=2)
    assert server.requests == 3
    assert names(tmp_path) == []


def test_other_content_is_refused(server, tmp_path):
    server.content = b"an error page"
    with pytest.raises(InputError, match=f"does not have the checksum {MD5}"):
        download(f"{server.url}/x", tmp_path / "x.zip", MD5, retries=1)
    assert server.starts == [0, 0]
    assert names(tmp_path) == []


def test_a_file_that_does_not_exist_is_not_asked_for_twice(server, tmp_path, waits):
    with pytest.raises(InputError, match=r"the server answered 404 .*put x\.zip into a folder .*--data-root"):
        download(f"{server.url}/missing", tmp_path / "x.zip", MD5, retries=99)
    assert server.requests == 1
    assert waits == []


def test_no_server(tmp_path):
    with pytest.raises(InputError, match=r"cannot download http://127\.0\.0\.1:9/x \(Connection refused\): try"):
        download("http://127.0.0.1:9/x", tmp_path / "x.zip", MD5, retries=1)


def test_a_file_with_the_right_checksum_is_not_downloaded(server, tmp_path):
    (tmp_path / "x.zip").write_bytes(CONTENT)
    assert download("http://127.0.0.1:9/x", tmp_path / "x.zip", MD5).read_bytes() == CONTENT
    (tmp_path / "x.zip").write_bytes(CONTENT[:1000])
    assert download(f"{server.url}/x", tmp_path / "x.zip", MD5).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot write to .*file/omniglot \(Not a directory\): set GAUSSPROTO_CACHE"):
        download("http://127.0.0.1:9/x", tmp_path / "file" / "omniglot" / "x.zip", MD5)


def test_omniglot_comes_from_the_server_only_if_it_is_nowhere(server, tmp_path, monkeypatch):
    monkeypatch.delenv("GAUSSPROTO_DATA", raising=False)
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path))
    part = type(BACKGROUND)(BACKGROUND.name, BACKGROUND.alphabets, MD5, BACKGROUND.digest)
    path = find_or_fetch(part, url=server.url)
    assert path.read_bytes() == CONTENT
    assert find_or_fetch(part, url=server.url) == path
    assert server.starts == [0]


def test_several_that_download_at_once_all_get_the_file_and_ask_once(server, tmp_path):
    paths = []

    def fetch():
        paths.append(download(f"{server.url}/x", tmp_path / "x.zip", MD5))

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_bytes() == CONTENT for path in paths] == [True] * 4
    assert server.requests == 1
