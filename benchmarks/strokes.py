"""The page in a real browser: its weight, and the time from the end of a stroke until its answer is on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np

from benchmarks.served import Server, chromium
from tests.serving.hand import SYMBOLS, WIDE, new_gallery, teach, vary

TAUGHT = ("circle", "triangle", "cross")
POINT = 16  # milliseconds between two points of a stroke
PAUSE = 400  # milliseconds between two strokes: the answer is there, and the plane has come to rest

# The clock runs from the event that ends the stroke to the frame after the verdict is no longer busy.
CLOCK = """() => {
  globalThis.answered = [];
  let ended = null;
  document.getElementById("ask-pad").addEventListener("pointerup", (event) => (ended = event.timeStamp), true);
  const verdict = document.getElementById("verdict");
  new MutationObserver(() => {
    if (ended === null || verdict.getAttribute("aria-busy") !== "false") return;
    const began = ended;
    ended = null;
    requestAnimationFrame(() => {
      const painted = new MessageChannel();
      painted.port1.onmessage = () => answered.push(performance.now() - began);
      painted.port2.postMessage(null);
    });
  }).observe(verdict, { attributes: true });
}"""


@contextmanager
def browsing() -> Iterator[Any]:
    """Run Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


def open_page(browser: Any, server: Server, gallery: str, **options: Any) -> Any:
    """Open the studio in a gallery and wait until it is shown."""
    context = browser.new_context(**{"viewport": WIDE, **options})
    context.add_init_script(f"localStorage['gaussproto-gallery'] ??= '{gallery}'")
    page = context.new_page()
    page.goto(server.url)
    page.locator("#gallery-name", has_not_text="…").wait_for()
    return page


WEIGHT = """() => ["navigation", "resource"]
  .flatMap((kind) => performance.getEntriesByType(kind))
  .filter((entry) => !entry.name.includes("/api/"))
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""


def page_weight(server: Server) -> int:
    """Return the bytes of the page and of all files that it loads, also when a user opens "How it learned"."""
    with browsing() as browser:
        page = open_page(browser, server, new_gallery(server, "Weight"))
        page.locator("#learn-button").click()
        page.locator("#snapshot").wait_for()
        return int(page.evaluate(WEIGHT))


def stroke_times(server: Server, count: int, done: Callable[[int], None]) -> np.ndarray:
    """Teach three symbols, then draw `count` strokes in Ask. Return the milliseconds until each answer."""
    random = Random(0)
    with browsing() as browser:
        page = open_page(browser, server, new_gallery(server, "Strokes"))
        for name in TAUGHT:
            teach(page, name, random)
        page.evaluate(CLOCK)
        strokes = 0
        while strokes < count:
            for stroke in vary(SYMBOLS[random.choice(TAUGHT)], random)[: count - strokes]:
                draw_slowly(page, "#ask-pad", stroke, POINT)
                page.wait_for_timeout(PAUSE)
                strokes += 1
                done(strokes)
            page.locator("#ask-clear").click()
        page.wait_for_timeout(PAUSE)
        times = np.array(page.evaluate("answered"))
    assert len(times) == count, f"{len(times)} answers to {count} strokes"
    return times


def draw_slowly(page: Any, pad: str, stroke: list[tuple[float, float]], pause: float) -> None:
    """Draw a stroke with this many milliseconds between its points."""
    box = page.locator(pad).bounding_box()
    for i, (x, y) in enumerate(stroke):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.mouse.down() if i == 0 else page.wait_for_timeout(pause)
    page.mouse.up()
