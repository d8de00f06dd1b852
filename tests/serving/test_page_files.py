"""Files, galleries, tokens and guides in the page of the studio."""

import base64
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from benchmarks.served import Server, running
from tests.serving.hand import draw, new_gallery, teach
from tests.serving.pages import STATIC, answered, check_access, expect, until


def test_a_ready_set_galleries_and_files(visit: Callable[..., Any], tmp_path: Path) -> None:
    page = visit()
    page.evaluate(
        """() => {
          globalThis.open = new Set();
          const { createObjectURL, revokeObjectURL } = URL;
          URL.createObjectURL = (file) => { const url = createObjectURL(file); open.add(url); return url; };
          URL.revokeObjectURL = (url) => { open.delete(url); revokeObjectURL(url); };
        }"""
    )
    page.locator(".ready-sets .button").first.click()
    page.locator(".try").first.click()
    until(lambda: not page.evaluate("[...document.querySelectorAll('.try img')].filter(i => open.has(i.src)).length"))
    expect(page.locator("#verdict strong")).not_to_be_empty()
    classes = page.locator(".class-name").all_inner_texts()
    assert len(classes) == 5
    page.locator("#gallery-button").click()
    check_access(page)
    saved = {}
    for label in ("Save as a gallery file", "Download the examples"):
        with page.expect_download() as download:
            page.get_by_role("button", name=label).click()
        saved[label] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[label])
    assert [path.name for path in saved.values()] == ["Test.gallery", "Test.zip"]
    page.locator("#galleries input[type=file]").set_input_files(saved["Save as a gallery file"])
    expect(page.locator("#galleries")).to_be_hidden()
    expect(page.locator(".class-name")).to_have_text(classes)
    expect(page.locator("#gallery-name")).to_have_text("Test")
    assert page.locator(".thumb.no-image").count() == page.locator(".thumb").count()
    page.locator("#gallery-button").click()
    page.locator("#gallery-rename").fill("<b>Mine</b>")
    page.keyboard.press("Enter")
    expect(page.locator("#gallery-name")).to_have_text("<b>Mine</b>")
    expect(page.locator(".here")).to_contain_text("<b>Mine</b>")


def test_a_slow_server_while_a_gallery_is_deleted(visit: Callable[..., Any], server: Server) -> None:
    page = visit(gallery=new_gallery(server, "Doomed"))
    page.locator("#gallery-button").click()

    def late(route: Any) -> None:
        """Answer after the page has looked for changes twice."""
        answer = route.fetch()
        time.sleep(2.5)
        route.fulfill(response=answer)

    page.route(f"**/galleries/{page.gallery}", late)
    page.locator(".here").get_by_role("button", name=re.compile("^Delete")).click()
    expect(page.locator("#gallery-name")).not_to_have_text("Doomed")
    expect(page.locator("#galleries .here")).to_have_count(1)
    expect(page.locator("#galleries .choose", has_text="Doomed")).to_have_count(0)
    held: list[Any] = []
    page.get_by_role("button", name="Close").click()
    page.route("**/api/v1/galleries", lambda route: held.append(route))
    page.locator("#gallery-button").click()
    expect(page.locator("#galleries #progress")).to_contain_text("Reading the galleries")
    check_access(page)
    held[0].continue_()
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.locator("#galleries .here")).to_have_count(1)


def test_a_deleted_gallery_is_brought_back(visit: Callable[..., Any], server: Server) -> None:
    page = visit(gallery=new_gallery(server, "Dear"))
    teach(page, "circle", Random(30))
    before = server.client.get(f"/galleries/{page.gallery}").json()["classes"]
    deleted, name = page.locator(".deleted"), page.locator("#gallery-name")

    def delete() -> None:
        page.locator("#gallery-button").click()
        page.locator(".here").get_by_role("button", name="Delete Dear").click()
        expect(deleted).to_contain_text("“Dear” is deleted.")

    delete()
    check_access(page)
    page.keyboard.press("Enter")  # Undo has the focus
    expect(name).to_have_text("Dear")
    expect(deleted).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".class-name")).to_have_text(["circle"])
    expect(page.locator("#undo")).to_be_disabled()
    delete()
    page.keyboard.press("Escape")
    for button, there in (("#undo", True), ("#redo", False), ("#undo", True)):
        page.locator(button).click()
        expect(name).to_have_text("Dear") if there else expect(name).not_to_have_text("Dear")
    expect(page.locator(".class-name")).to_have_text(["circle"])
    assert server.client.get(f"/galleries/{page.gallery}").json()["classes"] == before


def test_files_folders_and_wrong_files(visit: Callable[..., Any], server: Server, tmp_path: Path) -> None:
    page, random = visit(), Random(10)
    teach(page, "circle", random)
    path = f"/galleries/{page.gallery}"
    example = server.client.get(path).json()["classes"][0]["examples"][0]["id"]
    image = server.client.get(f"{path}/examples/{example}/image").content
    for name in ("beta/1.png", "alpha/10.png", "alpha/2.png", "alpha/7.png"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(image)
    page.locator("#teach-folder").set_input_files(tmp_path / "set")
    expect(page.locator(".class-name")).to_have_text(["circle", "alpha", "beta"])
    expect(page.locator(".thumb")).to_have_count(5)
    alpha = server.client.get(path).json()["classes"][1]
    assert [each["name"] for each in alpha["examples"]] == ["2.png", "7.png", "10.png"]
    page.locator("#teach-files").set_input_files([tmp_path / "set" / "alpha" / f"{i}.png" for i in (2, 10)])
    expect(page.locator("#add")).to_contain_text("Add 2 images")
    page.locator("#class-name").fill("<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    expect(page.locator(".class-name").nth(3)).to_have_text("<img src=x onerror=alert(1)>")
    data = base64.b64encode(image).decode()
    page.evaluate(
        """data => {
          const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
          dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer }));
        }""",
        data,
    )
    expect(page.locator("#add")).to_be_enabled()
    for target in (".card:nth-child(2) header", "#ask-sheet"):
        page.locator(target).evaluate(
            """(element, data) => {
              const transfer = new DataTransfer();
              const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
              transfer.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
              for (const type of ["dragenter", "dragover", "drop"])
                element.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
            }""",
            data,
        )
    expect(page.locator(".drop")).to_have_count(0)
    expect(page.locator(".card").nth(1).locator(".thumb")).to_have_count(4)
    expect(page.locator("#verdict strong")).not_to_be_empty()
    page.locator("#teach-clear").click()
    page.locator("#camera-button").click()
    expect(page.get_by_role("button", name="Take the picture")).to_be_enabled()
    check_access(page)
    page.get_by_role("button", name="Take the picture").click()
    expect(page.locator("#add")).to_be_enabled()


def test_an_unreadable_file_is_a_sentence_in_place(
    visit: Callable[..., Any], drawings: list[list[bytes]], tmp_path: Path
) -> None:
    for name in ("bad.png", "photo.heic", "plan.svg", "letters.txt"):
        (tmp_path / name).write_text("no image")
    (tmp_path / "good.png").write_bytes(drawings[0][0])
    page = visit(strict=False)
    page.locator("#teach-files").set_input_files(tmp_path / "letters.txt")
    expect(page.locator("#teach-error")).to_have_text("There is no image among these files.")
    page.locator("#teach-files").set_input_files([tmp_path / n for n in ("photo.heic", "good.png", "plan.svg")])
    sentence = "The studio cannot read photo.heic and 1 other file. Save them as PNG or JPEG."
    expect(page.locator("#teach-error")).to_have_text(sentence)
    page.locator("#class-name").fill("good")
    page.keyboard.press("Enter")
    expect(page.locator(".thumb")).to_have_count(1)
    page.locator("#ask-files").set_input_files(tmp_path / "plan.svg")
    expect(page.locator("#ask-error")).to_have_text("The studio cannot read plan.svg. Save it as PNG or JPEG.")
    page.locator("#teach-files").set_input_files(tmp_path / "bad.png")
    expect(page.locator("#teach-error")).to_have_text("The studio cannot read bad.png. Save it as PNG or JPEG.")
    expect(page.locator("#add")).to_be_disabled()
    check_access(page)
    Image.new("L", (64, 64), 255).save(tmp_path / "scan.tiff")  # the server reads it, the browser does not
    page.locator("#teach-files").set_input_files(tmp_path / "scan.tiff")
    expect(page.locator("#add")).to_be_enabled()
    page.locator("#gallery-button").click()
    page.locator("#galleries input[type=file]").set_input_files(tmp_path / "letters.txt")
    expect(page.locator("#galleries .error")).to_have_text("letters.txt is not a gallery file.")


def test_a_question_asked_offline_is_answered_later(visit: Callable[..., Any], gallery: str) -> None:
    page = visit(gallery=gallery.rpartition("/")[2], strict=False)
    expect(page.locator(".class-name")).to_have_count(3)
    page.context.set_offline(True)
    draw(page, "#ask-pad", "circle", Random(3))
    expect(page.locator("#ask-error")).to_have_text("The server does not answer. Is gaussproto serve still running?")
    page.context.set_offline(False)
    answered(page)
    expect(page.locator("#ask-error")).to_be_hidden()
    expect(page.locator("#connection")).to_be_hidden()


def test_a_token_and_a_lost_connection(browser: Any, tmp_path: Path) -> None:
    options = (tmp_path / "studio.db", "--token", "a-token-for-this-test")
    page = browser.new_page()
    with running(*options) as server:
        page.goto(f"{server.url}/#token=a-token-for-this-test")
        expect(page.locator("#gallery-name")).to_have_text("My symbols")
        assert "token" not in page.url
        teach(page, "circle", Random(11))
        until(lambda: page.evaluate("document.querySelector('.thumb img').naturalWidth > 0"))
    expect(page.locator("#connection")).to_contain_text("does not answer", timeout=10_000)
    check_access(page)
    with running(*options, "--port", str(server.port)) as server:
        expect(page.locator("#connection")).to_be_hidden(timeout=20_000)
        teach(page, "cross", Random(12))
        page.close()
        page = browser.new_page()
        page.goto(f"{server.url}/#token=%")
        page.locator("#token-field").wait_for()
        check_access(page)
        page.locator("#token-field").fill("a-token-for-this-test")
        page.keyboard.press("Enter")
        expect(page.locator(".class-name")).to_have_text(["circle", "cross"])
    page.close()


@pytest.mark.parametrize("fragment", ["token=%", "token=%E4%BD%A0", "token=a%20b", "token=", "%"])
def test_a_malformed_fragment_does_no_harm(visit: Callable[..., Any], server: Server, fragment: str) -> None:
    page = visit(url=f"{server.url}/#{fragment}")
    expect(page.locator("#gallery-name")).to_have_text("Test")
    expect(page.locator("#coach")).to_have_text("Draw a symbol, then name it.")


def test_the_walk_and_how_it_learned(visit: Callable[..., Any]) -> None:
    page = visit()
    page.locator("#walk-button").click()
    page.get_by_role("button", name="Load a ready set").click()
    page.locator(".thumb").first.wait_for()
    for word in ("Support", "Shot", "Way", "Prototype", "Precision", "Query"):
        expect(page.locator("#walk-title")).to_have_text(word)
        check_access(page) if word == "Prototype" else None
        page.keyboard.press("Enter")
    expect(page.locator("#walk")).to_be_hidden()
    page.locator("#learn-button").click()
    expect(page.locator(".learning-text")).to_contain_text("0 episodes")
    page.locator("#snapshot").focus()
    page.keyboard.press("End")
    expect(page.locator(".learning-text")).to_contain_text("300 episodes")
    check_access(page)


def test_how_it_learned_without_a_connection(visit: Callable[..., Any]) -> None:
    page = visit(strict=False)
    page.context.set_offline(True)
    page.locator("#learn-button").click()
    expect(page.locator("#learning")).to_contain_text("The server does not answer.")
    check_access(page)
    page.keyboard.press("Escape")
    page.context.set_offline(False)
    page.locator("#learn-button").click()
    expect(page.locator(".learning-text")).to_contain_text("0 episodes")


def test_weight_and_origin_of_the_page(visit: Callable[..., Any]) -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert (STATIC / "learning.json").stat().st_size < 60_000
    for path in files:
        text = path.read_text(encoding="utf-8")
        urls = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not urls, (path, urls)
        if path.suffix == ".js":
            assert "innerHTML" not in text
            assert len(text.splitlines()) < 300
    page = visit()
    sent = page.evaluate(
        "performance.getEntriesByType('resource').filter(e => !e.name.includes('/api/'))"
        ".reduce((sum, e) => sum + e.decodedBodySize, 0)"
    )
    assert 0 < sent < 300_000
