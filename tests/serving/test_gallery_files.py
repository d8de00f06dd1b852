"""Gallery files that a client has changed."""

import json

import numpy as np
import pytest

from gaussproto import GaussianPrototypeClassifier
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.gallery import METADATA
from gaussproto.data.labels import to_json
from gaussproto.serving.gallery_files import read_file
from gaussproto.serving.rows import ConflictError


def changed_gallery(tmp_path, settings=None, arrays=None):
    """A gallery file with a right checksum whose content a client has changed."""
    images = np.eye(28, dtype=np.uint8)[None].repeat(2, axis=0) * 255
    clf = GaussianPrototypeClassifier("drawings-small").fit(images, ["a", "b"])
    clf.save(tmp_path / "good.gallery")
    file = read_arrays(tmp_path / "good.gallery", "gallery")
    content = json.loads(file.metadata[METADATA]) | (settings or {})
    write_arrays(tmp_path / "bad.gallery", file.arrays | (arrays or {}), {METADATA: json.dumps(content)})
    return {"file": ("bad.gallery", (tmp_path / "bad.gallery").read_bytes())}


def test_a_gallery_file_cannot_make_the_server_import_a_module(client, tmp_path, monkeypatch):
    marker = tmp_path / "imported"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)  # here an import would work
    file = changed_gallery(tmp_path, {"distance": "evil:Distance"})
    with pytest.raises(ConflictError, match="a user's distance"):
        read_file(file["file"][1], "bad.gallery")
    assert not marker.exists()
    before = client.get("/galleries").json()
    answer = client.post("/galleries/open", files=file)
    assert answer.status_code == 409
    assert "a user's distance" in answer.json()["error"]
    assert client.get("/galleries").json() == before


def test_a_gallery_file_with_names_that_would_merge_is_refused(client, tmp_path):
    arrays = {"classes": np.frombuffer(to_json([1, "1"]).encode(), np.uint8)}
    answer = client.post("/galleries/open", files=changed_gallery(tmp_path, arrays=arrays))
    assert answer.status_code == 409
    assert "equal as texts" in answer.json()["error"]


def test_a_gallery_file_with_other_embeddings_is_refused(client, tmp_path):
    arrays = {"embeddings": np.ones((2, 3), np.float32), "prototypes": np.ones((2, 3), np.float32)}
    answer = client.post("/galleries/open", files=changed_gallery(tmp_path, arrays=arrays))
    assert answer.status_code == 409
    assert "makes other embeddings" in answer.json()["error"]
    answer = client.post("/galleries/open", files=changed_gallery(tmp_path, {"source": "/etc/passwd.safetensors"}))
    assert answer.status_code == 409
    assert "weights that this server does not have" in answer.json()["error"]


def test_a_gallery_file_of_several_views_is_refused(client, tmp_path):
    """A server embeds each image once, so its answers would not fit the examples."""
    answer = client.post("/galleries/open", files=changed_gallery(tmp_path, {"views": 5}))
    assert answer.status_code == 409
    assert "made with 5 views, which a server does not use: create it again" in answer.json()["error"]
