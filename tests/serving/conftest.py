import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import create_engine, text

import gaussproto as gp
from benchmarks.served import Server, chromium, postgres_folder, running, running_postgres
from gaussproto.data.strokes import strokes
from tests.serving.hand import WIDE, new_gallery


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


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server for all tests that can share it: they use galleries of their own."""
    with running(tmp_path_factory.mktemp("store") / "studio.sqlite") as server:
        yield server


@pytest.fixture(scope="session")
def guarded(tmp_path_factory):
    """A server with a token and another name."""
    store = tmp_path_factory.mktemp("store") / "guarded.sqlite"
    with running(store, "--token", "a-token-of-the-tests", "--allow-host", "Studio.example") as server:
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


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def new_store(request, tmp_path_factory):
    """A function that makes an empty store, of each kind."""
    if request.param == "sqlite":
        return lambda: str(tmp_path_factory.mktemp("store") / "s.sqlite")
    url = request.getfixturevalue("postgres")

    def create():
        name = f"db{os.urandom(4).hex()}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return url.replace("/postgres?", f"/{name}?")

    return create


@pytest.fixture
def store(new_store):
    return new_store()


@pytest.fixture
def gallery(client, drawings):
    """Three classes of three examples: the path of a new gallery."""
    path = f"/galleries/{client.post('/galleries', json={'name': 'three'}).json()['id']}"
    for c, name in enumerate("abc"):
        files = [("files", (f"{name}{i}.png", content)) for i, content in enumerate(drawings[c][:3])]
        assert client.post(f"{path}/examples", data={"class": name}, files=files).status_code == 201
    return path


@pytest.fixture(scope="session")
def clf(drawings):
    """What the Python API makes of the examples of `gallery`."""
    images = [Image.open(io.BytesIO(content)) for c in range(3) for content in drawings[c][:3]]
    clf = gp.GaussianPrototypeClassifier("drawings-small", reject=0.05).fit(images, list("aaabbbccc"))
    with pytest.warns(gp.ImageWarning, match="the examples are too few"):
        clf.predict(images[:1])  # it warns once
    return clf


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if chromium() is None:
        pytest.skip("needs Chromium: apt install chromium")
    options = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium(), args=options)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Open the page in a new gallery. At the end, nothing has failed in it and nothing has left the origin.

    A test that makes requests fail on purpose passes `strict=False`.
    """
    problems: list[str] = []
    contexts = []

    def open_page(url: str = "", gallery: str | None = None, strict: bool = True, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, **options})
        contexts.append(context)
        context.set_default_timeout(15_000)
        chosen = gallery or new_gallery(server)
        context.add_init_script(f"localStorage['gaussproto-gallery'] ??= '{chosen}'")
        page = context.new_page()
        watch(page, problems if strict else [], url or server.url)
        page.goto(url or server.url)
        page.locator("#gallery-name", has_not_text="…").wait_for()
        page.gallery = chosen
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def watch(page: Any, problems: list[str], url: str) -> None:
    origin = url.partition("#")[0]
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda text: problems.append(text.text) if text.type in ("error", "warning") else None)
    page.on(
        "request", lambda r: None if r.url.startswith((origin, "blob:", "data:")) else problems.append(f"left: {r.url}")
    )
