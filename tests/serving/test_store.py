"""What is acknowledged stays, whatever happens to the server, and several servers share one store."""

import signal
import sqlite3
import threading
import time
from contextlib import suppress

import httpx
import pytest

from benchmarks.kills import Kills, check_integrity
from benchmarks.served import Server, running
from benchmarks.target import as_text, files

ROUNDS = 1  # benchmarks.serving kills 50 times


@pytest.fixture(scope="module")
def pair(new_store):
    """Two servers on one store."""
    shared = new_store()
    with running(shared, ready=False) as one, running(shared) as two:
        one.wait()
        yield one, two, shared


def new_path(server, name="shared"):
    return f"/galleries/{server.client.post('/galleries', json={'name': name}).json()['id']}"


def test_acknowledged_examples_survive_kill_9(store):
    kills = Kills(store)
    try:
        for _ in range(ROUNDS):
            assert kills.round() == []
    finally:
        kills.stop()
    assert kills.acknowledged


def test_a_second_server_sees_the_writes_of_the_first_within_a_second(pair, drawings):
    one, two, _ = pair
    path = new_path(one)
    for c, name in enumerate("ab"):
        one.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
    assert two.client.post(f"{path}/classify", files=files(drawings[0][4])).json()["answers"][0]["answer"] == "a"
    for c, name in ((2, "c"), (3, "d")):
        added = one.client.post(f"{path}/examples", data={"class": name}, files=files(drawings[c][0])).json()
        end = time.monotonic() + 1
        while two.client.get(path).json()["version"] < added["version"]:
            assert time.monotonic() < end
            time.sleep(0.01)
        answer = two.client.post(f"{path}/classify", files=files(drawings[c][4]), params={"top": 10}).json()
        assert {each["name"] for each in answer["answers"][0]["classes"]} >= {name}
    two.client.delete(path)
    time.sleep(0.5)
    assert one.client.get(path).status_code == 404


def test_two_servers_write_at_once_and_lose_nothing(pair, drawings):
    one, two, shared = pair
    path = new_path(one)

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
    assert check_integrity(shared) == []


def test_a_server_that_starts_later_finds_everything(pair, drawings):
    one, _, shared = pair
    path = new_path(one, "kept")
    for c, name in enumerate("ab"):
        one.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
    whole = one.client.get(path).json()
    image = f"{path}/examples/{whole['classes'][0]['examples'][0]['id']}/image"
    with running(shared) as later:
        for asked in (path, f"{path}/plane", image):
            assert later.client.get(asked).content == one.client.get(asked).content


def test_a_deleted_gallery_comes_back_as_it_was(pair, drawings):
    one, two, _ = pair
    path = new_path(one, "mine")
    for c, name in enumerate("ab"):
        one.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
    before = one.client.get(path).json()
    assert one.client.post(f"{path}/restore").status_code == 404  # it is not deleted
    assert one.client.delete(path).status_code == 204
    for refused in (one.client.get(path), one.client.delete(path), one.client.patch(path, json={"name": "x"})):
        assert refused.status_code == 404
    assert path.rpartition("/")[2] not in {each["id"] for each in one.client.get("/galleries").json()}
    after = two.client.post(f"{path}/restore").json()
    assert after["version"] > before["version"]
    assert {**after, "version": 0, "changed": ""} == {**before, "version": 0, "changed": ""}
    assert one.client.post(f"{path}/classify", files=files(drawings[0][4])).json()["answers"][0]["answer"] == "a"
    assert one.client.delete(path, params={"forever": True}).status_code == 204
    assert one.client.post(f"{path}/restore").status_code == 404


def test_examples_are_embedded_again_if_the_weights_changed(server, drawings):
    """Changed weights show as another digest in the store."""
    path = new_path(server, "old")
    for c, name in enumerate("ab"):
        server.client.post(f"{path}/examples", data={"class": name}, files=files(*drawings[c][:2]))
    whole = server.client.get(path).json()
    content = server.client.get(f"{path}/file").content
    opened = f"/galleries/{server.client.post('/galleries/open', files={'file': ('x', content)}).json()['id']}"
    with sqlite3.connect(server.store) as connection:
        for gallery in (each.rpartition("/")[2] for each in (path, opened)):
            old = "UPDATE gaussproto_examples SET digest = 'old', x = zeroblob(256) WHERE gallery = ?"
            connection.execute(old, (gallery,))
            connection.execute("UPDATE gaussproto_galleries SET version = version + 1 WHERE id = ?", (gallery,))
    connection.close()
    time.sleep(0.3)
    again = server.client.get(path).json()
    assert again["version"] == whole["version"] + 2
    for before, after in zip(whole["classes"], again["classes"], strict=True):
        weights = [[e["weight"] for e in each["examples"]] for each in (before, after)]
        assert weights[0] == pytest.approx(weights[1], rel=1e-4)
    assert server.client.post(f"{path}/classify", files=files(drawings[1][4])).json()["answers"][0]["answer"] == "b"
    answer = server.client.post(f"{opened}/classify", files=files(drawings[1][4]))
    assert answer.status_code == 409
    error = "a gallery needs two classes with examples to classify (found 0; 4 examples without an image were made with"
    assert answer.json()["error"] == f"{error} other weights): add examples"


def test_a_stopping_server_finishes_what_it_accepted_and_leaves_one_file(tmp_path, drawings):
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
    assert [each.name for each in tmp_path.iterdir()] == ["s.sqlite"]  # one whole file
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM gaussproto_examples").fetchone() == (100 * stored,)
    connection.close()


def test_the_server_answers_while_the_network_is_loaded(tmp_path):
    with running(tmp_path / "s.sqlite", ready=False) as server:
        answered, samples = 0, []
        url = f"{server.url}/api/v1/samples"
        thread = threading.Thread(target=lambda: samples.append(httpx.get(url, timeout=60, trust_env=False)))
        thread.start()
        while thread.is_alive():
            assert server.client.get("/health").status_code == 200
            answered += 1
        assert samples[0].status_code == 200
        assert answered > 10  # hundreds on an idle machine, and a few if loading blocks the server


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
