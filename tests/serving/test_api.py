"""The API over real HTTP against a running server."""

import httpx
import pytest

import gaussproto as gp
from benchmarks.target import as_text, files

pytestmark = pytest.mark.filterwarnings("ignore:the examples are too few")


def test_health_ready_and_metrics(client):
    assert client.get("/health").json() == {"status": "ok", "version": gp.__version__}
    assert client.get("/ready").json() == {"status": "ready"}
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'gaussproto_requests_total{route="/api/v1/health",method="GET",status="200"}' in answer.text


def test_encoders_are_named(client):
    found = client.get("/encoders").json()
    assert [each["name"] for each in found if each["default"]] == ["drawings-small"]
    assert all(each["about"] for each in found)


def test_a_gallery_is_created_changed_and_deleted(client):
    made = client.post("/galleries", json={"name": "  <b>Ünïcode</b> "})
    assert made.status_code == 201
    whole = made.json()
    assert (whole["name"], whole["encoder"], whole["reject"], whole["classes"]) == (
        "<b>Ünïcode</b>", "drawings-small", 0.05, [],
    )  # fmt: skip
    path = f"/galleries/{whole['id']}"
    assert client.get(path).json() == whole
    changed = client.patch(path, json={"name": "new", "reject": None}).json()
    assert (changed["name"], changed["reject"], changed["version"]) == ("new", None, 2)
    assert client.patch(path, json={"reject": 0.1}).json()["name"] == "new"
    assert whole["id"] in {each["id"] for each in client.get("/galleries").json()}
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404


def test_classes(client):
    path = f"/galleries/{client.post('/galleries', json={'name': 'x'}).json()['id']}"
    one, two = (client.post(f"{path}/classes", json={"name": name}).json()["id"] for name in ("one", "two"))
    assert client.post(f"{path}/classes", json={"name": " one "}).status_code == 409
    assert client.patch(f"{path}/classes/{two}", json={"name": "one"}).status_code == 409
    assert client.patch(f"{path}/classes/{two}", json={"name": "zwei"}).json() == {"id": two, "name": "zwei"}
    assert [each["name"] for each in client.get(path).json()["classes"]] == ["one", "zwei"]
    assert client.delete(f"{path}/classes/{one}").status_code == 204
    assert client.delete(f"{path}/classes/{one}").status_code == 404
    assert [each["name"] for each in client.get(path).json()["classes"]] == ["zwei"]


def test_examples_in_both_forms(client, drawings):
    path = f"/galleries/{client.post('/galleries', json={'name': 'x'}).json()['id']}"
    added = client.post(f"{path}/examples", data={"class": "a"}, files=files(*drawings[0][:2]))
    assert added.status_code == 201
    assert [each["name"] for each in added.json()["examples"]] == ["0.png", "1.png"]
    content = {"class": "b", "image": f"data:image/png;base64,{as_text(drawings[1][0])}", "name": "mine", "damage": 0.5}
    (example,) = client.post(f"{path}/examples", json={"examples": [content]}).json()["examples"]
    assert (example["name"], example["damage"], example["has_image"], example["weight"]) == ("mine", 0.5, True, 1.0)
    whole = client.get(path).json()
    assert whole["version"] == 3
    assert [(each["name"], len(each["examples"])) for each in whole["classes"]] == [("a", 2), ("b", 1)]


def test_one_unreadable_file_stores_nothing(client, gallery, drawings):
    before = client.get(gallery).json()
    answer = client.post(f"{gallery}/examples", data={"class": "new"}, files=files(drawings[0][0], b"no image"))
    assert answer.status_code == 422
    assert "1.png is not a readable image" in answer.json()["error"]
    assert client.get(gallery).json() == before


def test_examples_move_change_and_go(client, gallery):
    whole = client.get(gallery).json()
    (a, b, _), example = whole["classes"], whole["classes"][0]["examples"][0]
    path = f"{gallery}/examples/{example['id']}"
    moved = client.patch(path, json={"class": b["id"], "name": "moved"}).json()
    assert (moved["class"], moved["name"]) == (b["id"], "moved")
    assert [len(each["examples"]) for each in client.get(gallery).json()["classes"]] == [2, 4, 3]
    assert client.patch(path, json={"class": "0123456789ab"}).status_code == 404
    assert client.delete(path).status_code == 204
    assert client.delete(path).status_code == 404
    assert client.delete(f"{gallery}/classes/{a['id']}").status_code == 204
    assert [each["name"] for each in client.get(gallery).json()["classes"]] == ["b", "c"]


def test_damage_lowers_the_weight_and_none_restores_it(client, gallery):
    example = client.get(gallery).json()["classes"][0]["examples"][0]
    path = f"{gallery}/examples/{example['id']}"
    images = {0.0: client.get(f"{path}/image").content}
    weights = [example["weight"]]
    for damage in (0.25, 0.5, 0.75):
        changed = client.patch(path, json={"damage": damage}).json()
        assert changed["damage"] == damage
        weights.append(changed["weight"])
        images[damage] = client.get(f"{path}/image").content
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] < weights[0] / 2
    assert len(set(images.values())) == 4
    restored = client.patch(path, json={"damage": 0}).json()
    assert restored["weight"] == pytest.approx(example["weight"], rel=1e-5)
    assert client.get(f"{path}/image").content == images[0.0]


def test_a_gallery_that_did_not_change_is_not_sent_again(client, gallery):
    first = client.get(gallery)
    again = client.get(gallery, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get(gallery, params={"weights": "uniform"}, headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200
    client.patch(gallery, json={"name": "new"})
    assert client.get(gallery, headers={"if-none-match": first.headers["etag"]}).status_code == 200


def test_errors_are_sentences(client):
    for answer in (
        client.get("/galleries/nothing"),
        client.get("/nothing"),
        client.put("/galleries"),
        client.post("/galleries", json={"name": ""}),
        client.post("/galleries", json={"name": "x", "encoder": "drawing-small"}),
    ):
        assert list(answer.json()) == ["error"]
        assert 400 <= answer.status_code < 500
    assert "did you mean 'drawings-small'?" in answer.json()["error"]


def test_a_wrong_method_is_told_the_right_ones(client, gallery):
    for path, allowed in ((f"{gallery}/samples", "POST"), (gallery, "DELETE, GET, PATCH")):
        for method in ("OPTIONS", "HEAD", "PUT"):
            answer = client.request(method, path)
            assert (answer.status_code, answer.headers.get_list("allow")) == (405, [allowed])
    assert client.get("/embed").status_code == 405


def test_the_pages_load_nothing_from_elsewhere(server):
    for path in ("/", "/docs"):
        answer = httpx.get(f"{server.url}{path}")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "camera=(self)" in answer.headers["permissions-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        if path == "/":
            tag = {"if-none-match": answer.headers["etag"]}
            assert answer.headers["cache-control"] == "no-cache"
            assert httpx.get(f"{server.url}{path}", headers=tag).status_code == 304
        for elsewhere in ('src="http', 'href="http', "<script>", "<style>", "style="):
            assert elsewhere not in answer.text
    assert httpx.get(f"{server.url}/docs.css").headers["content-type"].startswith("text/css")
