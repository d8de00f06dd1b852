import io

import numpy as np
import pytest
from PIL import Image

from benchmarks.served import postgres_folder, running, running_postgres
from gaussproto.data.strokes import strokes


@pytest.fixture(scope="session")
def drawings():
    """PNG files (character, drawing) of an invented alphabet, dark on white."""
    images = strokes(alphabets=1, drawings=8, size=64, seed=5)
    pixels = images.images.numpy().reshape(len(images.classes), 8, 64, 64)
    return [[png(255 - drawing) for drawing in character] for character in pixels[:6]]


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("store") / "studio.sqlite") as server:
        yield server


@pytest.fixture
def client(server):
    return server.client


@pytest.fixture(scope="session")
def postgres():
    if postgres_folder() is None:
        pytest.skip("needs PostgreSQL: run scripts/debian.sh")
    with running_postgres() as url:
        yield url


@pytest.fixture
def gallery(client, drawings):
    """Three classes of three examples: the path of a new gallery."""
    path = f"/galleries/{client.post('/galleries', json={'name': 'three'}).json()['id']}"
    for c, name in enumerate("abc"):
        files = [("files", (f"{name}{i}.png", content)) for i, content in enumerate(drawings[c][:3])]
        assert client.post(f"{path}/examples", data={"class": name}, files=files).status_code == 201
    return path
