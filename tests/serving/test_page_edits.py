"""Edits in the page of the studio, and undo."""

import io
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from benchmarks.served import Server
from tests.serving.hand import draw, new_gallery, teach
from tests.serving.pages import check_access, expect, verdict


@pytest.fixture
def picture(tmp_path: Path, drawings: list[list[bytes]]) -> Path:
    (tmp_path / "given.png").write_bytes(drawings[0][0])
    return tmp_path / "given.png"


def test_every_edit_can_be_undone(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(5)
    for name in ("circle", "triangle"):
        teach(page, name, random)
    names, thumbs = page.locator(".class-name"), page.locator(".thumb")
    page.locator(".thumb-face").nth(0).click()
    page.locator("#move-to").select_option("triangle")
    expect(page.locator(".card").nth(0).locator(".thumb")).to_have_count(0)
    page.locator("#undo").click()
    expect(page.locator(".card").nth(0).locator(".thumb")).to_have_count(1)
    page.locator(".thumb").nth(0).drag_to(page.locator(".card").nth(1))
    expect(page.locator(".card").nth(1).locator(".thumb")).to_have_count(2)
    page.locator("#undo").click()
    expect(page.locator(".card").nth(0).locator(".thumb")).to_have_count(1)
    page.locator(".card").nth(0).hover()
    page.get_by_label("Rename circle").click()
    check_access(page)
    page.keyboard.type("ring")
    page.keyboard.press("Enter")
    expect(names.nth(0)).to_have_text("ring")
    page.keyboard.press("Control+z")
    expect(names.nth(0)).to_have_text("circle")
    page.locator(".thumb-face").nth(1).focus()
    page.keyboard.press("Delete")
    expect(thumbs).to_have_count(1)
    page.locator("#undo").click()
    expect(thumbs).to_have_count(2)
    page.locator(".card").nth(1).hover()
    page.get_by_label("Delete triangle").click()
    expect(names).to_have_count(1)
    page.locator("#undo").click()
    expect(names).to_have_count(2)
    for count in (1, 0):
        page.locator("#undo").click()
        expect(thumbs).to_have_count(count)
    expect(names).to_have_count(0)
    page.locator("#redo").click()
    expect(names).to_have_text(["circle"])


def test_undo_of_clear_brings_an_image_back(visit: Callable[..., Any], server: Server, picture: Path) -> None:
    page, random = visit(), Random(21)
    for name in ("circle", "triangle"):
        teach(page, name, random)
    page.locator("#teach-files").set_input_files(picture)
    page.locator("#teach-clear").click()
    expect(page.locator("#add")).to_be_disabled()
    page.locator("#undo").click()
    expect(page.locator("#add")).to_be_enabled()
    draw(page, "#teach-pad", "circle", random)  # a stroke takes the place of the image, and gives it back
    page.locator("#undo").click()
    page.locator("#class-name").fill("given")
    page.keyboard.press("Enter")
    expect(page.locator(".class-name")).to_have_text(["circle", "triangle", "given"])
    stored = server.client.get(f"/galleries/{page.gallery}").json()["classes"][2]["examples"]
    assert [(example["name"], example["blank"]) for example in stored] == [(picture.name, False)]
    page.locator("#ask-files").set_input_files(picture)
    verdict(page, "given")
    page.locator("#ask-clear").click()
    expect(page.locator("#verdict strong")).to_have_count(0)
    page.locator("#undo").click()
    verdict(page, "given")
    page.locator("#redo").click()
    expect(page.locator("#verdict strong")).to_have_count(0)


def test_undo_of_a_ready_set_takes_out_what_it_added(visit: Callable[..., Any]) -> None:
    page = visit()
    thumbs = page.locator(".thumb")
    page.locator(".ready-sets .button").first.click()
    expect(thumbs).to_have_count(15)
    page.locator(".ready-sets summary").first.click()
    page.locator(".ready-sets .button").first.click()  # the same classes again
    expect(thumbs).to_have_count(30)
    check_access(page)
    page.locator("#undo").click()
    expect(thumbs).to_have_count(15)
    expect(page.locator(".try")).to_have_count(5)
    page.locator("#redo").click()
    expect(thumbs).to_have_count(30)
    for count in (15, 0):
        page.locator("#undo").click()
        expect(thumbs).to_have_count(count)
    expect(page.locator(".class-name")).to_have_count(0)
    expect(page.locator("#tries")).to_be_hidden()
    page.locator("#redo").click()
    expect(page.locator(".try")).to_have_count(5)


def test_an_undo_that_fails_can_be_repeated(visit: Callable[..., Any]) -> None:
    page = visit(strict=False)
    teach(page, "circle", Random(22))
    undo, redo, thumbs = page.locator("#undo"), page.locator("#redo"), page.locator(".thumb")
    for button, label, count in ((undo, "Undo: add to circle", 0), (redo, "Redo: add to circle", 1)):
        page.context.set_offline(True)
        button.click()
        expect(page.locator("#teach-error")).to_contain_text("does not answer")
        expect(button).to_have_attribute("aria-label", label)
        check_access(page)
        page.context.set_offline(False)
        button.click()
        expect(thumbs).to_have_count(count)
        expect(page.locator("#teach-error")).to_be_hidden()
    expect(page.locator(".class-name")).to_have_text(["circle"])


def test_an_example_of_an_earlier_visit_comes_back_as_it_was(visit: Callable[..., Any], server: Server) -> None:
    gallery = new_gallery(server)
    path, photo = f"/galleries/{gallery}/examples", jpeg(1600, 1200)
    stored = server.client.post(path, data={"class": "photo"}, files=[("files", ("photo.jpg", photo))]).json()
    server.client.patch(f"{path}/{stored['examples'][0]['id']}", json={"damage": 0.5})
    page, sent = visit(gallery=gallery, strict=False), []
    page.on("request", lambda request: sent.append(request.method))
    page.locator(".thumb-face").focus()
    page.keyboard.press("Delete")
    expect(page.locator(".thumb")).to_have_count(0)
    page.locator("#undo").click()
    expect(page.locator(".thumb")).to_have_count(1)
    assert "PATCH" not in sent  # a deletion that fails changes nothing
    example = server.client.get(f"/galleries/{gallery}").json()["classes"][0]["examples"][0]
    original = server.client.get(f"{path}/{example['id']}/image", params={"view": "original"})
    assert original.content == photo
    assert (example["name"], example["damage"]) == ("photo.jpg", 0.5)


def jpeg(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.radial_gradient("L").resize((width, height)).save(file, "JPEG")
    return file.getvalue()
