"""What is acknowledged stays, whatever happens to the server, and several servers share one store."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import suppress

import httpx
import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from benchmarks.hostile import as_text
from benchmarks.kills import Kills, check_integrity
from benchmarks.served import Server, running
from gaussproto.serving import schema
from gaussproto.serving.schema import metadata
from gaussproto.serving.store import Store

ROUNDS = 3


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "s.sqlite")
    url = request.getfixturevalue("postgres")
    from sqlalchemy import create_engine

    name = f"db{os.urandom(4).hex()}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return url.replace("/postgres?", f"/{name}?")


def files(*contents):
    return [("files", (f"{i}.png", content)) for i, content in enumerate(contents)]


def test_acknowledged_examples_survive_kill_9(store):
    kills = Kills(store)
    try:
        for _ in range(ROUNDS):
            assert kills.round() == []
    finally:
        kills.stop()
    assert kills.acknowledged


def test_a_second_server_sees_the_writes_of_the_first_within_a_second(store, drawings):
    with running(store) as one, running(store) as two:
        path = f"/galleries/{one.client.post('/galleries', json={'name': 'shared'}).json()['id']}"
        for c, name in enumerate("ab"):
            one.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
        assert two.client.post(f"{path}/classify", files=files(drawings[0][4])).json()["answers"][0]["answer"] == "a"
        for c, name in ((2, "c"), (3, "d")):
            version = one.client.post(f"{path}/examples", data={"class": name}, files=files(drawings[c][0])).json()[
                "version"
            ]
            end = time.monotonic() + 1
            while two.client.get(path).json()["version"] < version:
                assert time.monotonic() < end
                time.sleep(0.01)
            answer = two.client.post(f"{path}/classify", files=files(drawings[c][4]), params={"top": 10}).json()
            assert {each["name"] for each in answer["answers"][0]["classes"]} >= {name}
        two.client.delete(path)
        time.sleep(0.5)
        assert one.client.get(path).status_code == 404


def test_two_servers_write_at_once_and_lose_nothing(store, drawings):
    with running(store) as one, running(store) as two:
        path = f"/galleries/{one.client.post('/galleries', json={'name': 'shared'}).json()['id']}"

        def write(server, class_name):
            for i in range(10):
                example = {"class": class_name, "image": as_text(drawings[0][0]), "name": f"{class_name}{i}"}
                assert server.client.post(f"{path}/examples", json={"examples": [example]}).status_code == 201

        threads = [threading.Thread(target=write, args=(server, f"{i}")) for i, server in enumerate((one, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(0.3)
        whole = one.client.get(path).json()
        assert whole["version"] == 21
        assert sorted(len(each["examples"]) for each in whole["classes"]) == [10, 10]
    assert check_integrity(store) == []


def test_everything_is_there_after_a_restart(store, drawings):
    with running(store) as server:
        path = f"/galleries/{server.client.post('/galleries', json={'name': 'kept'}).json()['id']}"
        for c, name in enumerate("ab"):
            server.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
        whole, plane = server.client.get(path).json(), server.client.get(f"{path}/plane").json()
        example = whole["classes"][0]["examples"][0]["id"]
        image = server.client.get(f"{path}/examples/{example}/image").content
    with running(store) as server:
        assert server.client.get(path).json() == whole
        assert server.client.get(f"{path}/plane").json() == plane
        assert server.client.get(f"{path}/examples/{example}/image").content == image


def test_sqlite_writes_are_durable(tmp_path):
    store = Store(str(tmp_path / "s.sqlite"))
    with store._writer.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
    store.close()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}  # FULL


def described(engine):
    """The tables as the database describes them."""
    found = inspect(engine)
    return {
        name: (
            [(each["name"], str(each["type"]).split()[0], each["nullable"]) for each in found.get_columns(name)],
            sorted((each["constrained_columns"], str(each["options"])) for each in found.get_foreign_keys(name)),
            sorted(str(each["name"]) for each in found.get_indexes(name)),
            found.get_pk_constraint(name)["constrained_columns"],
            [each["column_names"] for each in found.get_unique_constraints(name)],
        )
        for name in metadata.tables
    }


def test_the_steps_of_the_store_lead_to_its_tables(store):
    made = Store(store)
    steps = described(made._engine)
    metadata.drop_all(made._engine)
    metadata.create_all(made._engine)
    tables = described(made._engine)
    made.close()
    assert steps == tables


def test_an_older_store_is_brought_up_to_date(store, monkeypatch):
    made = Store(store)
    gallery = made.create_gallery("kept", "drawings-small", {}, 0.05)
    made.close()

    def add_column(connection):
        connection.execute(text("ALTER TABLE gaussproto_galleries ADD COLUMN note TEXT DEFAULT 'none'"))

    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add_column])
    for _ in range(2):  # the second time, there is nothing to do
        newer = Store(store)
        with newer._reader.begin() as connection:
            assert connection.execute(text("SELECT version FROM gaussproto_store")).all() == [(2,)]
            rows = connection.execute(text("SELECT id, name, note FROM gaussproto_galleries")).all()
        newer.close()
        assert rows == [(gallery, "kept", "none")]


def test_errors_of_the_database_do_not_show_what_is_stored(tmp_path):
    store = Store(str(tmp_path / "s.sqlite"))
    with store._writer.connect() as connection, pytest.raises(DBAPIError) as error:
        connection.execute(text("SELECT nothing FROM gaussproto_galleries WHERE name = :name"), {"name": "secret"})
    store.close()
    assert "secret" not in str(error.value)


def test_examples_are_embedded_again_if_the_weights_changed(tmp_path, drawings):
    """Changed weights show as another digest in the store."""
    file = tmp_path / "s.sqlite"
    with running(file) as server:
        path = f"/galleries/{server.client.post('/galleries', json={'name': 'old'}).json()['id']}"
        for c, name in enumerate("ab"):
            server.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
        whole = server.client.get(path).json()
        content = server.client.get(f"{path}/file").content
        opened = f"/galleries/{server.client.post('/galleries/open', files={'file': ('x', content)}).json()['id']}"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE gaussproto_examples SET digest = 'old', x = zeroblob(256)")
    connection.close()
    with running(file) as server:
        again = server.client.get(path).json()
        assert again["version"] == whole["version"] + 1
        for before, after in zip(whole["classes"], again["classes"], strict=True):
            weights = [[e["weight"] for e in each["examples"]] for each in (before, after)]
            assert weights[0] == pytest.approx(weights[1], rel=1e-4)
        assert server.client.post(f"{path}/classify", files=files(drawings[1][4])).json()["answers"][0]["answer"] == "b"
        answer = server.client.post(f"{opened}/classify", files=files(drawings[1][4]))
        assert answer.status_code == 409
        assert "4 examples without an image were made with other weights" in answer.json()["error"]


def test_a_stopping_server_finishes_what_it_accepted(tmp_path, drawings):
    server = Server(tmp_path / "s.sqlite")
    path = f"/galleries/{server.client.post('/galleries', json={'name': 'x'}).json()['id']}"
    url, body = (
        f"{server.url}/api/v1{path}/examples",
        {"examples": [{"class": "a", "image": as_text(drawings[0][0])}] * 100},
    )
    answers = []

    def add():
        with suppress(httpx.TransportError):  # it came too late to be accepted
            answers.append(httpx.post(url, json=body, timeout=60, trust_env=False).status_code)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 30
    while "requests_waiting 0\n" in server.client.get("/metrics").text and time.monotonic() < end:
        time.sleep(0.005)
    server.stop(signal.SIGTERM)
    for thread in threads:
        thread.join()
    stored = answers.count(201)
    assert stored >= 1
    with running(tmp_path / "s.sqlite") as server:
        assert server.client.get("/galleries").json()[0]["examples"] == 100 * stored


def test_a_stopped_server_leaves_one_whole_file(tmp_path):
    file = tmp_path / "s.sqlite"
    server = Server(file)
    server.client.post("/galleries", json={"name": "kept"})
    server.stop(signal.SIGTERM)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name FROM gaussproto_galleries").fetchall() == [("kept",)]
    connection.close()


def test_the_server_answers_while_the_network_is_loaded(tmp_path):
    with running(tmp_path / "s.sqlite", ready=False) as server:
        seconds, delays = [], []

        def ask():
            started = time.monotonic()
            assert httpx.get(f"{server.url}/api/v1/samples", timeout=60, trust_env=False).status_code == 200
            seconds.append(time.monotonic() - started)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            started = time.monotonic()
            assert server.client.get("/health").status_code == 200
            delays.append(time.monotonic() - started)
        assert max(delays) < seconds[0] / 4, (max(delays), seconds)


def test_a_full_queue_is_told_to_come_back(tmp_path, drawings):
    with running(tmp_path / "s.sqlite", "--queue", "1") as server:
        path = f"/galleries/{server.client.post('/galleries', json={'name': 'x'}).json()['id']}"
        url, body = f"{server.url}/api/v1/embed", {"images": [as_text(drawings[0][0])] * 100}
        answers = []

        def embed():
            answers.append(httpx.post(url, json=body, timeout=60, trust_env=False))

        threads = [threading.Thread(target=embed) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {answer.status_code for answer in answers} == {200, 503}
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert "busy" in refused.json()["error"]
        assert server.client.get(path).status_code == 200
        assert server.client.post("/embed", json={"images": [as_text(drawings[0][0])]}).status_code == 200


def test_a_client_sees_its_own_writes_while_others_read(server, drawings):
    path = f"/galleries/{server.client.post('/galleries', json={'name': 'x'}).json()['id']}"
    stop = threading.Event()

    def read():
        with httpx.Client(base_url=server.client.base_url, trust_env=False) as client:
            while not stop.is_set():
                assert client.get(path).status_code == 200

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for i in range(40):
            example = {"class": f"{i % 3}", "image": as_text(drawings[0][0])}
            added = server.client.post(f"{path}/examples", json={"examples": [example]}).json()
            assert (added["version"], len(added["examples"])) == (i + 2, 1)
            assert server.client.get(path).json()["version"] == i + 2
    finally:
        stop.set()
        for thread in threads:
            thread.join()
