"""Take the screenshots of the studio and of a check for docs/ from a real session: `python -m scripts.screenshots`.

Needs Chromium, and `pip install playwright httpx`. The symbols are drawn by the hand of the tests. The script also walks
the way of a newcomer at the pace of a person, and prints the number of strokes, keys, clicks and seconds.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from benchmarks.served import Server, running
from benchmarks.strokes import browsing, draw_slowly
from benchmarks.strokes import open_page as open_in
from gaussproto.data.strokes import strokes as invented
from tests.serving.hand import PHONE, SYMBOLS, draw, new_gallery, teach, vary

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
NAMES = ("circle", "triangle", "star", "house")
THOUGHT, STROKE, KEY = 2.0, 1.5, 0.25  # seconds: before a symbol is drawn, of a stroke, of a key


@contextmanager
def studio() -> Iterator[tuple[Any, Server]]:
    with TemporaryDirectory() as folder, running(Path(folder, "studio.db")) as server, browsing() as browser:
        yield browser, server


def open_page(browser: Any, server: Server, gallery: str, **options: Any) -> Any:
    return open_in(browser, server, gallery, device_scale_factor=2, **options)


def picture(page: Any) -> Image.Image:
    page.wait_for_timeout(1500)  # movements and thumbnails come to rest
    return Image.open(BytesIO(page.screenshot()))


def save(image: Image.Image, name: str) -> None:
    image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size // 1000} kB")


def damage(page: Any, nth: int, steps: int) -> None:
    page.locator(".thumb-face").nth(nth).click()
    page.locator("#damage").focus()
    for _ in range(steps):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1000)


def drawn_symbols(browser: Any, server: Server) -> None:
    random = Random(5)
    page = open_page(browser, server, new_gallery(server, "My symbols"))
    for name in NAMES * 3:
        teach(page, name, random)
    draw(page, "#ask-pad", "star", random)
    damage(page, 7, 12)
    page.mouse.move(5, 5)
    page.locator("#damage").blur()
    save(picture(page), "studio.png")
    phone = open_page(
        browser,
        server,
        page.evaluate("localStorage['gaussproto-gallery']"),
        viewport=PHONE,
        has_touch=True,
        is_mobile=True,
    )
    screens = []
    for tab in ("teach", "ask", "see"):
        phone.locator(f".tabs [data-tab={tab}]").tap()
        if tab == "ask":
            draw(phone, "#ask-pad", "house", random)
        screens.append(picture(phone))
    width, height = screens[0].size
    gap = 40
    sheet = Image.new("RGB", (3 * width + 2 * gap, height), "white")
    for i, screen in enumerate(screens):
        sheet.paste(screen, (i * (width + gap), 0))
    save(sheet.resize((sheet.width * 2 // 3, sheet.height * 2 // 3), Image.Resampling.LANCZOS), "studio-phone.png")


def ready_set(browser: Any, server: Server) -> None:
    page = open_page(browser, server, new_gallery(server, "Invented characters"), color_scheme="dark")
    page.locator(".ready-sets .button").first.click()
    page.locator(".try").first.click()
    page.locator("#verdict strong").wait_for()
    damage(page, 1, 16)
    page.locator("#weights input[value=uniform]").check()
    page.wait_for_timeout(800)
    page.locator("#weights input[value=precision]").check()
    page.mouse.move(5, 5)
    page.evaluate("document.activeElement.blur()")
    save(picture(page), "studio-dark.png")
    page.locator("#learn-button").click()
    page.locator("#snapshot").focus()
    page.keyboard.press("End")
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(1000)
    image = Image.open(BytesIO(page.locator("#learning").screenshot()))
    save(image.resize((image.width * 2 // 3, image.height * 2 // 3), Image.Resampling.LANCZOS), "studio-learned.png")


def check_page(browser: Any) -> None:
    """The page of `gaussproto check` about invented signs, of which some are copied, swapped and empty."""
    with TemporaryDirectory() as folder:
        root, out = Path(folder, "my_images"), Path(folder, "check.html")
        for c, sign in enumerate(invented(alphabets=1).dense[:24, :5, 0].numpy(), start=1):
            for i, pixels in enumerate(sign):
                file = root / f"sign {c:02}" / f"{i}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(255 - pixels).resize((100, 100)).save(file)
        (root / "sign 03" / "1.png").rename(root / "sign 07" / "stray.png")
        (root / "sign 10" / "0.png").rename(root / "sign 11" / "5.png")
        (root / "sign 16" / "4.png").rename(root / "sign 20" / "other.png")
        shutil.copy(root / "sign 05" / "0.png", root / "sign 06" / "copy.png")
        Image.new("L", (100, 100), 255).save(root / "sign 12" / "empty.png")
        command = [sys.executable, "-m", "gaussproto", "check", root.name, "--page", out.name]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        page = browser.new_page(viewport={"width": 1080, "height": 1500}, device_scale_factor=1.5)
        page.goto(out.as_uri())
        save(Image.open(BytesIO(page.screenshot(full_page=True))), "check.png")


def walk(browser: Any, server: Server) -> None:
    """From opening the page to the first right answer, at the pace of a person who has read nothing."""
    random = Random(6)
    strokes = keys = 0
    began = time.monotonic()
    page = open_page(browser, server, new_gallery(server, "Walk"))

    def slowly(pad: str, name: str) -> int:
        page.wait_for_timeout(1000 * THOUGHT)
        drawn = vary(SYMBOLS[name], random)
        for stroke in drawn:
            draw_slowly(page, pad, stroke, 1000 * STROKE / len(stroke))
        return len(drawn)

    for name in ("circle", "triangle", "cross"):
        strokes += slowly("#teach-pad", name)
        page.keyboard.type(name, delay=1000 * KEY)
        page.keyboard.press("Enter")
        keys += len(name) + 1
        page.locator(".class-name", has_text=name).wait_for()
    strokes += slowly("#ask-pad", "triangle")
    page.locator("#verdict strong", has_text="triangle").wait_for()
    print(f"newcomer: {strokes} strokes, {keys} keys, 0 clicks, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    with studio() as (browser, server):
        drawn_symbols(browser, server)
        ready_set(browser, server)
        check_page(browser)
        walk(browser, server)
