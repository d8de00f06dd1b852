"""The API over real HTTP against a running server."""

import base64
import io
import zipfile

import httpx
import numpy as np
import pytest
from PIL import Image

import gaussproto as gp
from gaussproto.evaluation.views import principal_plane

pytestmark = pytest.mark.filterwarnings("ignore:the examples are too few")


def text(content):
    return base64.b64encode(content).decode()


def files(*contents):
    return [("files", (f"{i}.png", content)) for i, content in enumerate(contents)]


@pytest.fixture(scope="module")
def clf(drawings):
    """What the Python API makes of the examples of `gallery`."""
    images = [Image.open(io.BytesIO(content)) for c in range(3) for content in drawings[c][:3]]
    return gp.GaussianPrototypeClassifier("drawings-small", reject=0.05).fit(images, list("aaabbbccc"))


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
    content = {"class": "b", "image": f"data:image/png;base64,{text(drawings[1][0])}", "name": "mine", "damage": 0.5}
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


def test_images_are_png_of_both_views(client, gallery, clf, drawings):
    example = client.get(gallery).json()["classes"][0]["examples"][0]
    path = f"{gallery}/examples/{example['id']}/image"
    given = client.get(path, params={"size": 32})
    assert given.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(given.content)).size == (32, 32)
    seen = np.asarray(Image.open(io.BytesIO(client.get(path, params={"view": "seen"}).content)))
    original = Image.open(io.BytesIO(drawings[0][0]))
    np.testing.assert_array_equal(seen, clf.confidence([original]).pixels[0, 0])
    tag = given.headers["etag"]
    assert client.get(path, params={"size": 32}, headers={"if-none-match": tag}).status_code == 304


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM"])
def test_the_original_is_the_file_that_came(client, gallery, drawings, kind):
    file = io.BytesIO()
    Image.open(io.BytesIO(drawings[0][5])).resize((1500, 1100)).save(file, kind)
    added = client.post(f"{gallery}/examples", data={"class": "a"}, files={"files": ("x.html", file.getvalue())}).json()
    path = f"{gallery}/examples/{added['examples'][0]['id']}"
    client.patch(path, json={"damage": 0.5})
    original = client.get(f"{path}/image", params={"view": "original"})
    assert original.content == file.getvalue()
    assert original.headers["content-type"] == Image.MIME[kind]
    assert original.headers["content-disposition"] == "attachment"
    assert original.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("form", ["json", "multipart"])
def test_classify_gives_the_numbers_of_the_python_api(client, gallery, clf, drawings, form):
    contents = [drawings[c][4] for c in (0, 1, 2, 5)]
    body = {"json": {"images": [text(each) for each in contents]}} if form == "json" else {"files": files(*contents)}
    answer = client.post(f"{gallery}/classify", params={"top": 3, "plane": True, "nearest": 2}, **body).json()
    images = [Image.open(io.BytesIO(each)) for each in contents]
    expected, x = clf.confidence(images), clf.transform(images)
    plane = principal_plane(clf.example_embeddings_)
    for i, found in enumerate(answer["answers"]):
        order = expected.distances[i].argsort()
        assert [each["name"] for each in found["classes"]] == clf.classes_[order].tolist()
        for key, numbers in (("probability", expected.probabilities[i]), ("distance", expected.distances[i])):
            np.testing.assert_allclose([each[key] for each in found["classes"]], numbers[order], rtol=1e-4, atol=1e-6)
        thresholds = [each["threshold"] for each in found["classes"]]
        np.testing.assert_allclose(thresholds, expected.thresholds[order], rtol=1e-5)
        assert found["unknown"] == expected.unknown[i]
        assert found["answer"] == (None if expected.unknown[i] else clf.classes_[order[0]])
        near = np.sort(np.linalg.norm(clf.example_embeddings_ - x[i], axis=1))[:2]
        np.testing.assert_allclose([each["distance"] for each in found["nearest"]], near, rtol=1e-4)
        np.testing.assert_allclose(found["point"], plane.project(x[i]), rtol=1e-3, atol=1e-3)
    assert [each["answer"] for each in answer["answers"][:3]] == ["a", "b", "c"]


def test_uniform_weights_are_plain_means(client, gallery, clf, drawings):
    body = {"files": files(drawings[3][0])}
    answer = client.post(f"{gallery}/classify", params={"weights": "uniform", "top": 3}, **body).json()["answers"][0]
    x = clf.transform([Image.open(io.BytesIO(drawings[3][0]))])[0]
    means = clf.example_embeddings_.reshape(3, 3, -1).mean(axis=1)
    expected = dict(zip("abc", np.linalg.norm(means - x, axis=1).tolist(), strict=True))
    assert {each["name"]: each["distance"] for each in answer["classes"]} == pytest.approx(expected, rel=1e-4)
    weights = [
        e["weight"] for c in client.get(gallery, params={"weights": "uniform"}).json()["classes"] for e in c["examples"]
    ]
    assert weights == pytest.approx([1 / 3] * 9)


def test_weights_are_those_of_the_python_api(client, gallery, clf):
    examples = [e for c in client.get(gallery).json()["classes"] for e in c["examples"]]
    np.testing.assert_allclose([e["weight"] for e in examples], clf.example_weights_, rtol=1e-4)
    precisions = np.exp(np.log(clf.example_precisions_).mean(axis=1))
    np.testing.assert_allclose([e["precision"] for e in examples], precisions, rtol=1e-4)


def test_a_blank_image_gets_no_answer(client, gallery):
    file = io.BytesIO()
    Image.new("L", (50, 50), 255).save(file, "PNG")
    answer = client.post(f"{gallery}/classify", files=files(file.getvalue())).json()["answers"][0]
    assert (answer["blank"], answer["answer"]) == (True, None)


def test_one_class_is_not_enough(client, drawings):
    path = f"/galleries/{client.post('/galleries', json={'name': 'x'}).json()['id']}"
    assert client.get(f"{path}/plane").status_code == 409
    client.post(f"{path}/examples", data={"class": "a"}, files=files(drawings[0][0]))
    client.post(f"{path}/classes", json={"name": "empty"})
    answer = client.post(f"{path}/classify", files=files(drawings[0][1]))
    assert answer.status_code == 409
    assert "needs two classes with examples" in answer.json()["error"]
    assert client.get(f"{path}/file").status_code == 409
    assert len(client.get(f"{path}/plane").json()["examples"]) == 1


def test_the_plane(client, gallery, clf):
    plane = client.get(f"{gallery}/plane").json()
    expected = principal_plane(clf.example_embeddings_)
    points = expected.project(clf.example_embeddings_)
    np.testing.assert_allclose([(p["x"], p["y"]) for p in plane["examples"]], points, rtol=1e-3, atol=1e-3)
    middles = expected.project(clf.prototypes_)
    np.testing.assert_allclose([(p["x"], p["y"]) for p in plane["classes"]], middles, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(plane["share"], expected.share, rtol=1e-4)
    radii = np.array([p["radius"] for p in plane["examples"]])
    np.testing.assert_allclose(radii, clf.example_precisions_[:, 0] ** -0.5, rtol=1e-4)
    width = np.ptp(np.concatenate([points, middles]), axis=0).max()
    assert 2 * np.median(radii) * plane["unit"] == pytest.approx(width / 10, rel=1e-3)
    uniform = client.get(f"{gallery}/plane", params={"weights": "uniform"}).json()
    assert len({p["radius"] for p in uniform["examples"]}) == 1


def test_embed(client, clf, drawings):
    answer = client.post("/embed", json={"images": [text(drawings[0][0])]}).json()
    np.testing.assert_allclose(answer["embeddings"][0], clf.example_embeddings_[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(answer["precisions"][0], clf.example_precisions_[0], rtol=1e-4)


def test_a_gallery_file_makes_a_round_trip(client, gallery, clf, drawings, tmp_path):
    file = client.get(f"{gallery}/file")
    assert "attachment" in file.headers["content-disposition"]
    (tmp_path / "x.gallery").write_bytes(file.content)
    loaded = gp.load(tmp_path / "x.gallery")
    np.testing.assert_allclose(loaded.prototypes_, clf.prototypes_, rtol=1e-4, atol=1e-4)
    clf.save(tmp_path / "mine.gallery")
    opened = client.post("/galleries/open", files={"file": ("mine.gallery", (tmp_path / "mine.gallery").read_bytes())})
    assert opened.status_code == 201
    whole = opened.json()
    assert whole["name"] == "mine"
    assert not any(e["has_image"] for c in whole["classes"] for e in c["examples"])
    path = f"/galleries/{whole['id']}"
    here, there = (
        client.post(f"{p}/classify", files=files(drawings[1][5])).json()["answers"][0] for p in (gallery, path)
    )
    assert [c["name"] for c in here["classes"]] == [c["name"] for c in there["classes"]]
    assert [c["distance"] for c in here["classes"]] == pytest.approx(
        [c["distance"] for c in there["classes"]], rel=1e-4
    )
    assert client.get(f"{path}/examples.zip").status_code == 409
    example = whole["classes"][0]["examples"][0]["id"]
    assert client.get(f"{path}/examples/{example}/image").status_code == 404
    assert client.patch(f"{path}/examples/{example}", json={"damage": 0.5}).status_code == 409


def test_a_gallery_file_with_uniform_weights_stays_uniform(client, drawings, tmp_path):
    images = [Image.open(io.BytesIO(content)) for c in range(2) for content in drawings[c][:3]]
    uniform = gp.GaussianPrototypeClassifier("drawings-small", weights="uniform").fit(images, list("aaabbb"))
    uniform.save(tmp_path / "x.gallery")
    content = (tmp_path / "x.gallery").read_bytes()
    query = Image.open(io.BytesIO(drawings[2][0]))
    expected = dict(zip("ab", uniform.confidence([query]).distances[0].tolist(), strict=True))
    for _ in range(2):  # also after it was saved here and opened again
        opened = client.post("/galleries/open", files={"file": ("x.gallery", content)})
        assert opened.status_code == 201, opened.text
        path = f"/galleries/{opened.json()['id']}"
        weights = [e["weight"] for c in opened.json()["classes"] for e in c["examples"]]
        assert weights == pytest.approx([1 / 3] * 6)
        answer = client.post(f"{path}/classify", files=files(drawings[2][0])).json()["answers"][0]
        assert {each["name"]: each["distance"] for each in answer["classes"]} == pytest.approx(expected, rel=1e-4)
        assert client.get(f"{path}/plane").status_code == 200
        content = client.get(f"{path}/file").content


def test_the_zip_is_a_folder_of_examples(client, gallery, clf, tmp_path):
    whole = client.get(gallery).json()
    client.patch(f"{gallery}/classes/{whole['classes'][0]['id']}", json={"name": "../a"})
    client.patch(f"{gallery}/examples/{whole['classes'][1]['examples'][1]['id']}", json={"name": "b0.png"})
    with zipfile.ZipFile(io.BytesIO(client.get(f"{gallery}/examples.zip").content)) as archive:
        names = sorted(archive.namelist())
        archive.extractall(tmp_path)
    assert names == [
        "_a/a0.png",
        "_a/a1.png",
        "_a/a2.png",
        "b/b0-2.png",
        "b/b0.png",
        "b/b2.png",
        "c/c0.png",
        "c/c1.png",
        "c/c2.png",
    ]
    again = gp.GaussianPrototypeClassifier("drawings-small").fit(tmp_path)
    np.testing.assert_allclose(again.prototypes_, clf.prototypes_, rtol=1e-4, atol=1e-4)


def test_ready_sets(client):
    sets = client.get("/samples").json()
    assert len(sets) >= 4
    path = f"/galleries/{client.post('/galleries', json={'name': 'x'}).json()['id']}"
    loaded = client.post(f"{path}/samples", json={"id": sets[0]["id"], "classes": 4, "shots": 2})
    assert loaded.status_code == 201
    whole, queries = client.get(path).json(), loaded.json()["queries"]
    assert loaded.json()["version"] == whole["version"]
    assert [len(each["examples"]) for each in whole["classes"]] == [2] * 4
    answers = client.post(f"{path}/classify", json={"images": [each["image"] for each in queries]}).json()["answers"]
    right = sum(a["classes"][0]["name"] == q["class"] for a, q in zip(answers, queries, strict=True))
    assert right >= 3
    assert client.post(f"{path}/samples", json={"id": "nothing"}).status_code == 422


def test_omniglot_is_a_ready_set_where_it_is(omniglot_root, tmp_path, monkeypatch):
    from benchmarks.served import running

    monkeypatch.setenv("GAUSSPROTO_DATA", str(omniglot_root))
    with running(tmp_path / "s.sqlite") as server:
        sets = server.client.get("/samples").json()
        path = f"/galleries/{server.client.post('/galleries', json={'name': 'x'}).json()['id']}"
        found = next(each for each in sets if each["name"] == "Angelic")
        loaded = server.client.post(f"{path}/samples", json={"id": found["id"], "classes": 5, "shots": 5})
        assert loaded.status_code == 201
        assert len(server.client.get(path).json()["classes"]) == 5


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
