"""The page of the studio in a real browser, against a real server: teach, ask and see."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from benchmarks.served import Server
from tests.serving.hand import PHONE, SYMBOLS, WIDE, draw, teach, vary
from tests.serving.pages import answered, check_access, expect, points, until, verdict, weight


def test_three_drawn_symbols_are_told_apart(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(1)
    check_access(page)
    expect(page.locator("#teach")).to_contain_text("Draw a symbol here")
    for name, sentence in (
        ("circle", "Now draw a different symbol."),
        ("triangle", "Draw a third symbol, or try Ask."),
        ("cross", "A second example makes a class surer."),
    ):
        teach(page, name, random)
        expect(page.locator("#coach")).to_have_text(sentence)
    assert page.locator(".class-name").all_inner_texts() == ["circle", "triangle", "cross"]
    assert [weight(page, i) for i in range(3)] == [100, 100, 100]
    for name in ("triangle", "cross", "circle"):
        page.locator("#ask-clear").click() if page.locator("#ask-clear").is_enabled() else None
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
        answered(page)
        answers[name] = page.locator("#verdict strong").inner_text()
        page.locator("#ask-clear").click()
    assert sum(name == answer for name, answer in answers.items()) >= 5, answers
    check_access(page)


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_a_stroke_can_start_anywhere_on_the_pad(visit: Callable[..., Any], size: dict[str, int]) -> None:
    page = visit(viewport=size)
    draw(page, "#teach-pad", "cross", Random(22))
    expect(page.locator("#teach-clear")).to_be_enabled()
    box = page.locator("#teach-pad").bounding_box()
    for x in (0.05, 0.5, 0.95):
        for y in (0.05, 0.5, 0.95):
            at = [box["x"] + x * box["width"], box["y"] + y * box["height"]]
            assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).id", at) == "teach-pad", (x, y)


def test_the_answer_follows_the_pen(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(3)
    for name in ("circle", "triangle", "cross"):
        teach(page, name, random)
    box = page.locator("#ask-pad").bounding_box()
    path = vary(SYMBOLS["circle"], random)[0]
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in path]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point)
    expect(page.locator("#verdict strong")).not_to_be_empty()  # the pen is still down
    with page.expect_request("**/classify?*"):
        page.mouse.up()
    answered(page)
    verdict(page, "circle")


def test_a_late_answer_does_not_replace_a_newer_one(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(13)
    for name in ("circle", "triangle", "cross"):
        teach(page, name, random)
    held: list[tuple[Any, Any]] = []
    hold = True
    page.route("**/classify?*", lambda route: held.append((route, route.fetch())) if hold else route.continue_())
    with page.expect_request("**/classify?*"):
        draw(page, "#ask-pad", "circle", random)
    page.wait_for_timeout(300)
    expect(page.locator("#verdict")).to_have_attribute("aria-busy", "true")
    page.locator("#ask-clear").click()
    hold = False
    draw(page, "#ask-pad", "triangle", random)
    verdict(page, "triangle")
    answered(page)
    assert held
    for route, late in held:
        route.fulfill(response=late)
    page.wait_for_timeout(500)
    verdict(page, "triangle")
    page.locator("#ask-clear").click()
    expect(page.locator("#verdict strong")).to_have_count(0)


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
    expect(page.locator(".counts strong")).not_to_have_text(f"{before:.0f} %")
    until(lambda: weight(page, 0) < before / 2)
    until(lambda: float(page.locator(".confidence.selected").get_attribute("r")) > 1.2 * radius)  # the circle grows
    assert points(page) != where
    page.locator("#weights input[value=uniform]").check()
    expect(page.locator(".weight-text").nth(0)).to_have_text("33 %")
    expect(page.locator("#weights-note")).to_contain_text("Vanilla")
    page.locator("#weights input[value=precision]").check()
    page.locator("#undo").click()
    expect(page.locator(".weight-text").nth(0)).to_have_text(f"{before:.0f} %")
    page.keyboard.press("Control+Shift+z")
    until(lambda: weight(page, 0) < before / 2)


def test_reload_finds_everything(visit: Callable[..., Any]) -> None:
    page, random = visit(), Random(6)
    for name in ("circle", "cross"):
        teach(page, name, random)
    draw(page, "#ask-pad", "cross", random)
    verdict(page, "cross")
    page.reload()
    expect(page.locator(".class-name")).to_have_text(["circle", "cross"])
    verdict(page, "cross")
    until(lambda: page.evaluate("[...document.querySelectorAll('.thumb img')].every(i => i.naturalWidth > 0)"))
    check_access(page)
    pictures = page.evaluate(
        """() => performance.getEntriesByType("resource").filter(e => e.name.includes("/image?"))
          .map(e => [e.transferSize, e.decodedBodySize])"""
    )
    assert pictures
    assert all(sent < whole for sent, whole in pictures), pictures  # the browser's copies are still right


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
        expect(page.locator(".class-name", has_text=name)).to_be_visible()
    tab_to("#ask-pad")
    stroke(("Down", 12), ("Right", 12))
    verdict(page, "corner")
    page.locator("body").evaluate("() => document.activeElement.blur()")
    tab_to(".thumb-face")
    assert page.locator("#plane .face.hot").count() == 1
    page.keyboard.press("Enter")
    tab_to("#damage")
    page.keyboard.press("Escape")
    expect(page.locator("#inspector")).to_be_hidden()
    tab_to("#plane .face")
    assert page.locator(".thumb.hot").count() == 1
    for link, target in (("Skip to Ask", "ask-pad"), ("Skip to See", "see")):
        page.get_by_role("link", name=link).focus()
        expect(page.get_by_role("link", name=link)).to_be_in_viewport()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == target
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
        expect(page.locator("#coach")).not_to_contain_text("Enter")
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
        expect(page.locator("#inspector")).to_be_visible(visible=tab == "teach")
    page.locator("#plane .face").nth(0).tap()
    expect(page.locator("#inspector")).to_be_visible()
    page.locator("#walk-button").tap()
    expect(page.locator("#inspector")).to_be_hidden()
    page.wait_for_timeout(400)  # the spot moves
    box = {part: page.locator(part).first.bounding_box() for part in (".thumb", "#spot", ".top", ".tabs")}
    spot = box["#spot"]
    assert box[".top"]["height"] <= spot["y"] <= box[".thumb"]["y"]
    assert box[".thumb"]["y"] + box[".thumb"]["height"] <= spot["y"] + spot["height"] <= box[".tabs"]["y"] + 8


def test_many_classes_have_names_and_marks_apart(visit: Callable[..., Any], server: Server, tmp_path: Path) -> None:
    page = visit(reduced_motion="reduce")
    sets = server.client.get("/samples").json()[:3]
    for each in sets:
        server.client.post(f"/galleries/{page.gallery}/samples", json={"id": each["id"], "classes": 4, "shots": 2})
    expect(page.locator("#plane .name")).to_have_count(12)
    draw(page, "#ask-pad", "house", Random(2))
    answered(page)
    expect(page.locator(".bars li")).to_have_count(5)
    expect(page.locator("#answer")).to_contain_text("and 7 more")
    page.wait_for_timeout(100)
    boxes = page.locator("#plane .texts text:not([hidden])").evaluate_all(
        "all => all.map(e => e.getBBox()).map((b, i) => [b, all[i].getCTM()])"
        ".map(([b, m]) => [m.e + b.x, m.f + b.y, m.e + b.x + b.width, m.f + b.y + b.height])"
    )
    covered = [
        (one, other)
        for one, other in combinations(boxes, 2)
        if min(one[2], other[2]) - max(one[0], other[0]) > 6 and min(one[3], other[3]) - max(one[1], other[1]) > 6
    ]
    assert len(boxes) > 12
    assert covered == []
    marks = page.locator(".swatch").evaluate_all(
        "all => all.map(e => getComputedStyle(e)).map(s => s.backgroundColor + s.borderTopStyle + s.borderTopColor)"
    )
    assert len(set(marks)) == 12
    Image.new("L", (64, 64), 255).save(tmp_path / "white.png")
    page.locator("#ask-files").set_input_files(tmp_path / "white.png")
    verdict(page, "Blank")
    expect(page.locator("#plane .query-face")).to_have_count(0)
    expect(page.locator("#plane .distance")).to_have_count(0)


def test_the_page_says_why_a_clear_example_counts_for_less(
    visit: Callable[..., Any], server: Server, drawings: list[list[bytes]]
) -> None:
    page = visit()
    for name, files in (("a", [*drawings[0][:3], drawings[1][3]]), ("b", drawings[1][:3])):
        parts = [("files", (f"{i}.png", content)) for i, content in enumerate(files)]
        server.client.post(f"/galleries/{page.gallery}/examples", data={"class": name}, files=parts)
    expect(page.locator(".thumb")).to_have_count(7)
    for nth, unlike in ((0, False), (3, True)):
        page.locator(".thumb-face").nth(nth).click()
        expect(page.locator(".counts")).to_contain_text("(higher is surer)")
        assert ("unlike the other examples of “a”" in page.locator(".counts").inner_text()) is unlike


def test_two_tabs_stay_in_step(visit: Callable[..., Any]) -> None:
    one, random = visit(), Random(9)
    two = one.context.new_page()
    two.goto(one.url)
    elsewhere = visit(gallery=one.gallery)  # another browser, which only polls
    one.bring_to_front()
    teach(one, "circle", random)
    for page in (two, elsewhere):
        expect(page.locator(".class-name")).to_have_text(["circle"])
    two.bring_to_front()
    teach(two, "star", random)
    for page in (one, elsewhere):
        expect(page.locator(".class-name")).to_have_text(["circle", "star"])
    check_access(elsewhere)
