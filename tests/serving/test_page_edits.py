"""Edits in the page of the studio, and undo."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.serving.hand import teach
from tests.serving.pages import expect


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
