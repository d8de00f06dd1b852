"""Hostile, slow and foreign clients get a clear refusal and change nothing."""

import asyncio
import io
import socket
import sqlite3
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress

import httpx
import pytest
import uvicorn
from PIL import Image

from benchmarks import hostile
from benchmarks.served import running
from benchmarks.target import content_of, make_target
from gaussproto.serving import protocol, safety
from gaussproto.serving.protocol import PatientProtocol
from gaussproto.serving.safety import Access, Guard
from gaussproto.serving.store import Store


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server without the galleries of other tests: everything in its store is compared."""
    with running(tmp_path_factory.mktemp("store") / "studio.sqlite") as server:
        yield server


@pytest.fixture(scope="module")
def target(server):
    return make_target(server)


@pytest.mark.parametrize("name", hostile.KINDS)
def test_hostile_requests_are_refused_and_change_nothing(target, name):
    before = content_of(target.server)
    statuses = {hostile.KINDS[name](target) for _ in range(5)}
    assert all(hostile.is_refusal(name, status) for status in statuses), statuses
    assert content_of(target.server) == before
    assert "Traceback" not in target.server.said()


def test_there_are_many_kinds():
    assert len(hostile.KINDS) >= 20


@contextmanager
def listening(app, **options):
    """Run an application in a thread with our protocol, and yield its port."""
    config = uvicorn.Config(app, http=PatientProtocol, ws="none", lifespan="off", port=0, log_level="error", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def answer_to(port, pieces, pause):
    """What the server says to a client that sends pieces with pauses, and after how many seconds."""
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=40) as connection:
        stop = threading.Event()

        def send():
            for piece in pieces:
                try:
                    connection.sendall(piece)
                except OSError:
                    return
                if stop.wait(pause):
                    return

        sender = threading.Thread(target=send)
        sender.start()
        answer = b""
        with suppress(ConnectionResetError):  # the server has closed, and this client went on sending
            while more := connection.recv(4096):
                answer += more
        seconds = time.monotonic() - started
        stop.set()
        sender.join()
    return answer, seconds


def test_slow_clients_are_cut_off_while_others_are_served(monkeypatch):
    """With the limits of the server, ten times shorter."""
    for module in (protocol, safety):
        monkeypatch.setattr(module, "PATIENCE", module.PATIENCE / 10)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    head = b"POST /api/v1/galleries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    large = b"POST /api/v1/embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answered = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    slow = {
        "blank lines after an answer": [answered, *([b"\r\n"] * 600)],
        "headers": [head, *(b"X-%d: a\r\n" % i for i in range(600))],
        "body": [head + b"Content-Length: 600\r\n\r\n", *(b" " for _ in range(600))],
        "nothing": [b""],
        "rest of a large body": [large + b"Content-Length: 50000000\r\n\r\n", bytes(20_000), *([b""] * 600)],
    }
    answers = {}
    with listening(Guard(app, Access())) as port, httpx.Client(trust_env=False) as client:

        def wait(name):
            answers[name] = answer_to(port, slow[name], 0.05)

        threads = [threading.Thread(target=wait, args=(name,)) for name in slow]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert client.get(f"http://127.0.0.1:{port}/api/v1/health").status_code == 200
            time.sleep(0.05)
    for name, (answer, seconds) in answers.items():
        assert answer[answer.rfind(b"HTTP/1.1 ") :].startswith(b"HTTP/1.1 408 "), name
        assert b'{"error": ' in answer
        assert 0.5 < seconds < 25, name


def test_too_many_connections_are_told_to_come_back():
    async def app(scope, receive, send):
        raise AssertionError("no request may come this far")

    with listening(app, limit_concurrency=1) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "busy" in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_own_page_may_write(server):
    for origin in (
        f"http://127.0.0.1:{server.port}",
        f"http://127.0.0.1:{server.port}".upper().replace("HTTP", "http"),
    ):
        headers = {"origin": origin, "sec-fetch-site": "same-origin"}
        assert server.client.post("/galleries", json={"name": "x"}, headers=headers).status_code == 201
    for host in ("localhost", f"localhost:{server.port}", "[::1]:80"):
        assert server.client.get("/health", headers={"host": host}).status_code == 200


def test_a_token_guards_everything_but_the_page(guarded):
    before = guarded.client.get("/galleries").json()
    anyone = httpx.Client(base_url=f"{guarded.url}/api/v1", trust_env=False)
    assert guarded.token not in guarded.said()
    for path in ("/health", "/ready", "/openapi.json"):
        assert anyone.get(path).status_code == 200
    for wrong in (
        {},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {guarded.token}x"},
        {"authorization": guarded.token},
    ):
        for path in ("/galleries", "/metrics", "/encoders", "/nothing"):
            answer = anyone.get(path, headers=wrong)
            assert (answer.status_code, list(answer.json())) == (401, ["error"])
            assert answer.headers["www-authenticate"] == "Bearer"
        assert anyone.post("/galleries", json={"name": "x"}, headers=wrong).status_code == 401
    assert guarded.client.get("/galleries").json() == before
    assert guarded.client.get("/health", headers={"host": "studio.example"}).status_code == 200
    assert guarded.client.get("/health", headers={"host": "other.example"}).status_code == 421
    assert httpx.get(f"{guarded.url}/").status_code == 200
    assert httpx.get(f"{guarded.url}/docs").status_code == 200
    counted = guarded.client.get("/metrics").text
    for status in (401, 421):
        assert f'gaussproto_requests_total{{route="other",method="GET",status="{status}"}}' in counted


def test_other_addresses_need_a_token_which_is_printed_once(tmp_path):
    with running(tmp_path / "s.sqlite", "--host", "0.0.0.0", ready=False) as server:
        assert len(server.token) >= 24
        said = server.said()
        assert said.count(server.token) == 1
        assert "which is not shown again" in said
        assert f"the store is {tmp_path / 's.sqlite'} (galleries: 0)" in said
        url = f"http://127.0.0.1:{server.port}/api/v1/galleries"
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, headers={"authorization": f"Bearer {server.token}"}).status_code == 200


def test_large_images_are_decoded_one_at_a_time(tmp_path):
    file = io.BytesIO()
    Image.new("RGBA", (5000, 5000), "white").save(file, "PNG", compress_level=1)
    large = [("files", ("large.png", file.getvalue()))]
    with running(tmp_path / "s.sqlite") as server:
        assert server.client.post("/embed", files=large).status_code == 200
        before, largest, codes = server.memory(), 0, []
        threads = [
            threading.Thread(target=lambda: codes.append(server.client.post("/embed", files=large * 2).status_code))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            largest = max(largest, server.memory())
            time.sleep(0.01)
        assert codes == [200] * 2
        assert largest - before < 200_000_000, (before, largest)  # another thread would add 400 MB
        answer = server.client.post("/embed", files=large * 5)
        assert answer.status_code == 422
        assert "at most 100,000,000 pixels together (found 125,000,000)" in answer.json()["error"]


def test_the_server_answers_to_the_name_that_it_prints(tmp_path):
    with running(tmp_path / "s.sqlite", "--host", "127.1", ready=False) as server:
        assert server.url.startswith("http://127.1:")
        assert server.client.get("/health").status_code == 200


def test_a_body_is_held_once():
    part, count = 100_000, 300
    held = []

    async def app(scope, receive, send):
        body = (await receive())["body"]
        assert len(body) == part * count
        held.append(tracemalloc.get_traced_memory()[0])

    async def receive():
        left.pop()
        return {"type": "http.request", "body": bytes(part), "more_body": bool(left)}

    left = list(range(count))
    scope = {"type": "http", "method": "POST", "path": "/api/v1/embed", "headers": [(b"host", b"localhost")]}
    guard = Guard(app, Access())
    tracemalloc.start()
    try:
        asyncio.run(guard(scope, receive, None))
    finally:
        tracemalloc.stop()
    assert held[0] < 1.5 * part * count
    assert guard.buffered == 0


def test_names_are_text_never_html(client):
    name = "<img src=x onerror=alert(1)>\"'&"
    whole = client.post("/galleries", json={"name": name})
    assert whole.json()["name"] == name
    assert whole.headers["content-type"] == "application/json"
    assert whole.headers["x-content-type-options"] == "nosniff"


def test_a_file_name_is_never_a_path(client, gallery, drawings):
    for given, shown in (
        ("../../etc/x.png", "x.png"),
        ("C:\\a\\b.png", "b.png"),
        ("a\x7fb.png", "image 1"),
        ("é.png", "é.png"),
    ):
        files = [("files", (given, drawings[0][5]))]
        example = client.post(f"{gallery}/examples", data={"class": "a"}, files=files).json()["examples"][0]
        assert example["name"] == shown


def test_a_newer_store_is_refused_in_one_sentence(tmp_path, gaussproto):
    file = tmp_path / "s.sqlite"
    Store(str(file)).close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE gaussproto_store SET version = 99")
    connection.close()
    code, _, err = gaussproto("serve", "--port", 0, "--no-open", "--store", file)
    assert code == 2
    assert "has version 99, but this gaussproto reads versions up to 2: install a newer gaussproto" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--store", "mysql://x/y"], "--store must be SQLite or PostgreSQL"),
        (["--store", "sqlite://"], "a store in memory would be lost"),
        (["--store", "postgresql+psycopg://nobody@127.0.0.1:1/x"], "cannot open the store"),
        (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7:0"),
    ],
)
def test_mistakes_of_the_user_are_sentences(gaussproto, tmp_path, options, sentence):
    code, _, err = gaussproto("serve", "--port", 0, "--no-open", "--store", tmp_path / "s.sqlite", *options)
    assert code == 2
    assert sentence in err
