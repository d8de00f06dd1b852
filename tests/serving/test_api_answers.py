"""What the API answers about images: the numbers of the Python API."""

import io

import numpy as np
import pytest
from PIL import Image

from benchmarks.target import as_text, files
from gaussproto.evaluation.views import principal_plane

pytestmark = pytest.mark.filterwarnings("ignore:the examples are too few")


@pytest.mark.parametrize("form", ["json", "multipart"])
def test_classify_gives_the_numbers_of_the_python_api(client, gallery, clf, drawings, form):
    contents = [drawings[c][4] for c in (0, 1, 2, 5)]
    body = {"json": {"images": [as_text(each) for each in contents]}} if form == "json" else {"files": files(*contents)}
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
        np.testing.assert_allclose(thresholds, expected.thresholds[order] / expected.enlarged[i], rtol=1e-4)
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
    assert client.get(f"{path}/plane").json()["examples"] == []  # it may become empty while a page reads it
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
    assert 2 * np.median(radii) * plane["unit"] == pytest.approx(0.15 * width, rel=1e-3)  # nine examples
    uniform = client.get(f"{gallery}/plane", params={"weights": "uniform"}).json()
    assert len({p["radius"] for p in uniform["examples"]}) == 1


def test_embed(client, clf, drawings):
    answer = client.post("/embed", json={"images": [as_text(drawings[0][0])]}).json()
    np.testing.assert_allclose(answer["embeddings"][0], clf.example_embeddings_[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(answer["precisions"][0], clf.example_precisions_[0], rtol=1e-4)
