"""What the tests of the page share: waiting, reading and checking it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs pip install axe-playwright-python")
STATIC = Path(__file__).parents[2] / "src" / "gaussproto" / "serving" / "static"
RESTED = """() => Promise.race([
  Promise.allSettled(document.getAnimations().map((one) => one.finished)),  // colours that fade in
  new Promise((done) => setTimeout(done, 450)),
])"""
expect = playwright.expect
expect.set_options(timeout=15_000)  # a busy machine


def check_access(page: Any) -> None:
    """No serious or critical finding by axe."""
    page.evaluate(RESTED)
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (v["id"], [n["html"][:150] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert serious == []


def weight(page: Any, nth: int) -> float:
    return float(page.locator(".weight-text").nth(nth).inner_text().rstrip("\u00a0%"))


def until(happened: Callable[[], bool], seconds: float = 10) -> None:
    """Wait. The page's security policy forbids Playwright's own way, which evaluates a string."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def points(page: Any) -> list[str]:
    return page.locator("#plane .face").evaluate_all("faces => faces.map(face => face.getAttribute('transform'))")


def answered(page: Any) -> None:
    """Wait until the page shows the answer to what is on the pad, and asks nothing more."""
    expect(page.locator("#verdict")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#verdict strong")).not_to_be_empty()


def verdict(page: Any, expected: str) -> None:
    expect(page.locator("#verdict strong")).to_have_text(expected)
