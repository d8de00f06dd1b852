"""Images, gallery files, zips and ready sets over the API."""

import base64
import io
import re
import zipfile
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

import gaussproto as gp
from benchmarks.target import files
from gaussproto import GaussianPrototypeClassifier
from gaussproto.data.omniglot import EVALUATION, find, published_files
from gaussproto.files import folder_name
from gaussproto.serving.gallery_files import download_headers
from gaussproto.serving.samples import list_samples, load_sample


def opened(content):
    return Image.open(io.BytesIO(content))


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


@pytest.mark.parametrize("name", ["Road signs", "標識", 'a"b\\c/d;e', "50%", "..", "x\r\ny: z"])
def test_a_download_is_named_like_its_gallery(name):
    header = download_headers(name, ".gallery")["content-disposition"]
    assert re.fullmatch(r"attachment; filename=\"[^\"\\%/]+\.gallery\"; filename\*=UTF-8''[\w.%~-]+", header, re.ASCII)
    assert unquote(header.partition("UTF-8''")[2]) == f"{folder_name(name)}.gallery"


def test_downloads_of_a_gallery(client, gallery):
    client.patch(gallery, json={"name": "Fußgänger"})
    for path, ending in (("file", "gallery"), ("examples.zip", "zip")):
        header = client.get(f"{gallery}/{path}").headers["content-disposition"]
        assert header.endswith(f"filename*=UTF-8''Fu%C3%9Fg%C3%A4nger.{ending}")


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


def test_omniglot_is_a_ready_set_where_it_is(omniglot_root, monkeypatch):
    monkeypatch.setenv("GAUSSPROTO_DATA", str(omniglot_root))
    found = next(each for each in list_samples() if each.name == "Angelic")
    loaded = load_sample(found.id, 5, 5)
    assert [len(loaded.examples), len(loaded.queries), found.classes] == [25, 5, 20]
    published = published_files(EVALUATION, find(EVALUATION))
    for i, name in ((0, "character01/0965_01.png"), (24, "character20/0984_05.png")):
        assert loaded.examples[i].content == published[f"images_evaluation/Angelic/{name}"]
    right = GaussianPrototypeClassifier("drawings-small").fit(
        [opened(each.content) for each in loaded.examples], [each.class_name for each in loaded.examples]
    )
    answers = right.predict([opened(base64.b64decode(each.image)) for each in loaded.queries])
    assert sum(answers == [each.class_name for each in loaded.queries]) >= 4
