"""The page of the studio in a real browser, against a real server."""

import base64
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.served import Server, running
from tests.serving.hand import SYMBOLS, draw, teach

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs pip install axe-playwright-python")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")
STATIC = Path(__file__).parents[2] / "src" / "gaussproto" / "serving" / "static"
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def new_gallery(server: Server, name: str = "Test") -> str:
    return str(server.client.post("/galleries", json={"name": name}).json()["id"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Open the page in a new gallery. At the end, nothing has failed in it and nothing has left the origin."""
    problems: list[str] = []
    contexts = []

    def open_page(url: str = "", gallery: str | None = None, viewport: dict[str, int] = WIDE, **options: Any) -> Any:
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        chosen = gallery or new_gallery(server)
        context.add_init_script(f"localStorage['gaussproto-gallery'] ??= '{chosen}'")
        page = context.new_page()
        watch(page, problems, url or server.url)
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


def check_access(page: Any) -> None:
    """No serious or critical finding by axe."""
    page.wait_for_timeout(450)  # colours that fade in
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (v["id"], [n["html"][:150] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert serious == []


def weight(page: Any, nth: int) -> float:
    return float(page.locator(".weight-text").nth(nth).inner_text().rstrip(" %"))


def until(happened: Callable[[], bool], seconds: float = 10) -> None:
    """Wait. The page's security policy forbids Playwright's own way, which evaluates a string."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def points(page: Any) -> list[str]:
    return page.locator("#plane .face").evaluate_all("faces => faces.map(face => face.getAttribute('transform'))")


def verdict(page: Any, expected: str) -> None:
    playwright.expect(page.locator("#verdict strong")).to_have_text(expected)


def test_three_drawn_symbols_are_told_apart(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(1)
    check_access(page)
    playwright.expect(page.locator("#teach")).to_contain_text("Draw a symbol here")
    for name in ("circle", "triangle", "cross"):
        teach(page, name, random)
    assert page.locator(".class-name").all_inner_texts() == ["circle", "triangle", "cross"]
    assert [weight(page, i) for i in range(3)] == [100, 100, 100]
    for name in ("triangle", "cross", "circle"):
        page.locator("#ask-clear").click() if page.locator("#ask-clear").is_visible() else None
        draw(page, "#ask-pad", name, random)
        verdict(page, name)
    assert page.locator(".bars li").count() == 3
    assert page.locator(".near-face").count() == 3
    assert page.locator("#plane .distance").count() == 3
    check_access(page)


def test_six_symbols_from_one_example_each(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(2)
    for name in SYMBOLS:
        teach(page, name, random)
    answers = {}
    for name in SYMBOLS:
        draw(page, "#ask-pad", name, random)
        page.wait_for_timeout(300)
        answers[name] = page.locator("#verdict strong").inner_text()
        page.locator("#ask-clear").click()
    assert sum(name == answer for name, answer in answers.items()) >= 5, answers


def test_the_answer_follows_the_pen(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(3)
    for name in ("circle", "triangle", "cross"):
        teach(page, name, random)
    page.evaluate(
        """() => {
          globalThis.ends = [];
          performance.setResourceTimingBufferSize(5000);
          document.getElementById("ask-pad").addEventListener("pointerup", () => ends.push(performance.now()), true);
        }"""
    )
    for _ in range(6):
        draw(page, "#ask-pad", "circle", random)
        verdict(page, "circle")
        page.wait_for_timeout(150)
        page.locator("#ask-clear").click()
    delays = page.evaluate(
        """() => {
          const asked = performance.getEntriesByType("resource").filter(e => e.name.includes("/classify"));
          return ends.map(end => asked.find(e => e.startTime >= end).responseEnd - end);
        }"""
    )
    assert len(delays) == 6
    assert sorted(delays)[3] < 100, delays


def test_damage_lowers_the_weight_and_undo_restores_it(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(4)
    for name in ("circle", "triangle", "circle", "circle"):
        teach(page, name, random)
    before, where = weight(page, 0), points(page)
    page.locator(".thumb-face").nth(0).click()
    radius = float(page.locator(".confidence.selected").get_attribute("r"))
    check_access(page)
    page.locator("#damage").focus()
    for _ in range(14):
        page.keyboard.press("ArrowRight")
    playwright.expect(page.locator(".counts strong")).not_to_have_text(f"{before:.0f} %")
    until(lambda: weight(page, 0) < before / 2)
    page.wait_for_timeout(1200)  # the circle grows
    assert float(page.locator(".confidence.selected").get_attribute("r")) > 1.2 * radius
    assert points(page) != where
    page.locator("#weights input[value=uniform]").check()
    playwright.expect(page.locator(".weight-text").nth(0)).to_have_text("33 %")
    playwright.expect(page.locator("#weights-note")).to_contain_text("Vanilla")
    page.locator("#weights input[value=precision]").check()
    page.locator("#undo").click()
    playwright.expect(page.locator(".weight-text").nth(0)).to_have_text(f"{before:.0f} %")
    page.keyboard.press("Control+Shift+z")
    until(lambda: weight(page, 0) < before / 2)


def test_every_edit_can_be_undone(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(5)
    for name in ("circle", "triangle"):
        teach(page, name, random)
    names, thumbs = page.locator(".class-name"), page.locator(".thumb")
    page.locator(".thumb-face").nth(0).click()
    page.locator("#move-to").select_option("triangle")
    playwright.expect(page.locator(".card").nth(0).locator(".thumb")).to_have_count(0)
    page.locator("#undo").click()
    playwright.expect(page.locator(".card").nth(0).locator(".thumb")).to_have_count(1)
    page.locator(".thumb").nth(0).drag_to(page.locator(".card").nth(1))
    playwright.expect(page.locator(".card").nth(1).locator(".thumb")).to_have_count(2)
    page.locator("#undo").click()
    playwright.expect(page.locator(".card").nth(0).locator(".thumb")).to_have_count(1)
    page.locator(".card").nth(0).hover()
    page.get_by_label("Rename circle").click()
    page.keyboard.type("ring")
    page.keyboard.press("Enter")
    playwright.expect(names.nth(0)).to_have_text("ring")
    page.keyboard.press("Control+z")
    playwright.expect(names.nth(0)).to_have_text("circle")
    page.locator(".thumb-face").nth(1).focus()
    page.keyboard.press("Delete")
    playwright.expect(thumbs).to_have_count(1)
    page.locator("#undo").click()
    playwright.expect(thumbs).to_have_count(2)
    page.locator(".card").nth(1).hover()
    page.get_by_label("Delete triangle").click()
    playwright.expect(names).to_have_count(1)
    page.locator("#undo").click()
    playwright.expect(names).to_have_count(2)
    for count in (1, 0):
        page.locator("#undo").click()
        playwright.expect(thumbs).to_have_count(count)
    playwright.expect(names).to_have_count(0)
    page.locator("#redo").click()
    playwright.expect(names).to_have_text(["circle"])


def test_reload_finds_everything(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(6)
    for name in ("circle", "cross"):
        teach(page, name, random)
    draw(page, "#ask-pad", "cross", random)
    verdict(page, "cross")
    page.reload()
    playwright.expect(page.locator(".class-name")).to_have_text(["circle", "cross"])
    verdict(page, "cross")
    until(lambda: page.evaluate("[...document.querySelectorAll('.thumb img')].every(i => i.naturalWidth > 0)"))


def test_keyboard_only(visit: Callable[..., Any]) -> None:
    page = visit(reduced_motion="reduce")

    def stroke(*steps: tuple[str, int]) -> None:
        page.keyboard.press("Space")
        for key, times in steps:
            for _ in range(times):
                page.keyboard.press(f"Arrow{key}")
        page.keyboard.press("Space")

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    for name, steps in (("line", [("Right", 14)]), ("corner", [("Down", 14), ("Right", 14)])):
        page.locator("body").evaluate("() => document.activeElement.blur()")
        tab_to("#teach-pad")
        stroke(*steps)
        tab_to("#class-name")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        playwright.expect(page.locator(".class-name", has_text=name)).to_be_visible()
    tab_to("#ask-pad")
    stroke(("Down", 12), ("Right", 12))
    verdict(page, "corner")
    page.locator("body").evaluate("() => document.activeElement.blur()")
    tab_to(".thumb-face")
    assert page.locator("#plane .face.hot").count() == 1
    page.keyboard.press("Enter")
    tab_to("#damage")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#inspector")).to_be_hidden()
    tab_to("#plane .face")
    assert page.locator(".thumb.hot").count() == 1
    check_access(page)


def test_dark_mode(visit: Callable[..., Any]) -> None:
    page, random = visit(color_scheme="dark"), Random(7)
    assert page.locator("html").get_attribute("data-theme") == "dark"
    for name in ("circle", "cross"):
        teach(page, name, random)
    draw(page, "#ask-pad", "circle", random)
    verdict(page, "circle")
    page.locator(".thumb-face").nth(0).click()
    check_access(page)
    page.locator("#theme").click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_phone(visit: Callable[..., Any]) -> None:
    page, random = visit(viewport=PHONE, has_touch=True, is_mobile=True), Random(8)
    for name in ("circle", "triangle"):
        draw(page, "#teach-pad", name, random)
        page.locator("#class-name").fill(name)
        page.locator("#add").tap()
        page.locator(".class-name", has_text=name).wait_for()
    page.locator(".thumb-face").nth(0).tap()
    for tab in ("teach", "ask", "see"):
        page.locator(f".tabs [data-tab={tab}]").tap()
        if tab == "ask":
            draw(page, "#ask-pad", "circle", random)
            verdict(page, "circle")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        small = page.locator(
            "button:visible, select:visible, input:visible:not([type=file], [type=radio]), label.button:visible"
        ).evaluate_all(
            "all => all.filter(e => e.getBoundingClientRect().height < 44).map(e => e.outerHTML.slice(0, 99))"
        )
        assert small == []
        check_access(page)


def test_two_tabs_stay_in_step(visit: Callable[..., Any]) -> None:
    one, random = visit(), Random(9)
    two = one.context.new_page()
    two.goto(one.url)
    elsewhere = visit(gallery=one.gallery)  # another browser, which only polls
    one.bring_to_front()
    teach(one, "circle", random)
    for page in (two, elsewhere):
        playwright.expect(page.locator(".class-name")).to_have_text(["circle"])
    two.bring_to_front()
    teach(two, "star", random)
    for page in (one, elsewhere):
        playwright.expect(page.locator(".class-name")).to_have_text(["circle", "star"])


def test_a_ready_set_galleries_and_files(visit: Callable[..., Any], tmp_path: Path) -> None:
    page = visit()
    page.locator(".ready-sets .button").first.click()
    page.locator(".try").first.click()
    playwright.expect(page.locator("#verdict strong")).not_to_be_empty()
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
    page.locator("#galleries input[type=file]").set_input_files(saved["Save as a gallery file"])
    playwright.expect(page.locator("#galleries")).to_be_hidden()
    playwright.expect(page.locator(".class-name")).to_have_text(classes)
    assert page.locator(".thumb.no-image").count() == page.locator(".thumb").count()
    page.locator("#gallery-button").click()
    page.locator("#gallery-rename").fill("<b>Mine</b>")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#gallery-name")).to_have_text("<b>Mine</b>")
    page.locator(".here").get_by_role("button", name=re.compile("^Delete")).click()
    page.get_by_role("button", name="Delete", exact=True).click()
    playwright.expect(page.locator("#gallery-name")).not_to_have_text("<b>Mine</b>")


def test_files_folders_and_wrong_files(visit: Callable[..., Any], server: Server, tmp_path: Path) -> None:
    page, random = visit(), Random(10)
    teach(page, "circle", random)
    path = f"/galleries/{page.gallery}"
    example = server.client.get(path).json()["classes"][0]["examples"][0]["id"]
    image = server.client.get(f"{path}/examples/{example}/image").content
    for name in ("alpha/1.png", "alpha/2.png", "beta/1.png"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(image)
    page.locator("#teach-folder").set_input_files(tmp_path / "set")
    playwright.expect(page.locator(".class-name")).to_have_text(["circle", "alpha", "beta"])
    playwright.expect(page.locator(".thumb")).to_have_count(4)
    page.locator("#teach-files").set_input_files([tmp_path / "set" / "alpha" / f"{i}.png" for i in (1, 2)])
    playwright.expect(page.locator("#add")).to_contain_text("Add 2 images")
    page.locator("#class-name").fill("<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".class-name").nth(3)).to_have_text("<img src=x onerror=alert(1)>")
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
    playwright.expect(page.locator("#add")).to_be_enabled()
    for target in (".card:nth-child(2) header", "#ask-sheet"):
        page.locator(target).evaluate(
            """(element, data) => {
              const transfer = new DataTransfer();
              const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
              transfer.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
              element.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
            }""",
            data,
        )
    playwright.expect(page.locator(".card").nth(1).locator(".thumb")).to_have_count(3)
    playwright.expect(page.locator("#verdict strong")).not_to_be_empty()
    page.locator("#teach-clear").click()
    page.locator("#camera-button").click()
    page.get_by_role("button", name="Take the picture").click()
    playwright.expect(page.locator("#add")).to_be_enabled()


def test_an_unreadable_file_is_a_sentence_in_place(browser: Any, server: Server, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_text("no image")
    page = browser.new_page()
    page.goto(server.url)
    page.locator("#teach-files").set_input_files(tmp_path / "bad.png")
    page.locator("#class-name").fill("bad")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#teach-error")).to_contain_text("bad.png")
    page.close()


def test_a_token_and_a_lost_connection(browser: Any, tmp_path: Path) -> None:
    options = (tmp_path / "studio.db", "--token", "a-token-for-this-test")
    page = browser.new_page()
    with running(*options) as server:
        page.goto(f"{server.url}/#token=a-token-for-this-test")
        playwright.expect(page.locator("#gallery-name")).to_have_text("My symbols")
        assert "token" not in page.url
        teach(page, "circle", Random(11))
        until(lambda: page.evaluate("document.querySelector('.thumb img').naturalWidth > 0"))
    playwright.expect(page.locator("#connection")).to_contain_text("does not answer", timeout=10_000)
    with running(*options, "--port", str(server.port)) as server:
        playwright.expect(page.locator("#connection")).to_be_hidden(timeout=20_000)
        teach(page, "cross", Random(12))
        page.close()
        page = browser.new_page()
        page.goto(server.url)
        page.locator("#token-field").fill("a-token-for-this-test")
        page.keyboard.press("Enter")
        playwright.expect(page.locator(".class-name")).to_have_text(["circle", "cross"])
    page.close()


def test_the_walk_and_how_it_learned(visit: Callable[..., Any]) -> None:
    page = visit()
    page.locator("#walk-button").click()
    page.get_by_role("button", name="Load a ready set").click()
    page.locator(".thumb").first.wait_for()
    for word in ("Support", "Shot", "Way", "Prototype", "Precision", "Query"):
        playwright.expect(page.locator("#walk-title")).to_have_text(word)
        check_access(page) if word == "Prototype" else None
        page.keyboard.press("Enter")
    playwright.expect(page.locator("#walk")).to_be_hidden()
    page.locator("#learn-button").click()
    playwright.expect(page.locator(".learning-text")).to_contain_text("0 episodes")
    page.locator("#snapshot").focus()
    page.keyboard.press("End")
    playwright.expect(page.locator(".learning-text")).to_contain_text("300 episodes")
    check_access(page)


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
