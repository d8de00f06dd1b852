"""What a person brings to the page: a screen, a gallery, and a hand that draws each time a little differently."""

import math
from itertools import pairwise
from random import Random
from typing import Any

from benchmarks.served import Server

Stroke = list[tuple[float, float]]
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
STEPS = 5  # movements of the pointer along an edge


def new_gallery(server: Server, name: str = "Test") -> str:
    return str(server.client.post("/galleries", json={"name": name}).json()["id"])


def _line(*corners: tuple[float, float]) -> Stroke:
    points = [
        (x + (u - x) * i / STEPS, y + (v - y) * i / STEPS) for (x, y), (u, v) in pairwise(corners) for i in range(STEPS)
    ]
    return [*points, corners[-1]]


def _round(turn: float, radius: float = 0.32) -> tuple[float, float]:
    return 0.5 + radius * math.sin(2 * math.pi * turn), 0.5 - radius * math.cos(2 * math.pi * turn)


SYMBOLS: dict[str, list[Stroke]] = {
    "circle": [[_round(i / 16) for i in range(17)]],
    "triangle": [_line((0.5, 0.2), (0.8, 0.78), (0.2, 0.78), (0.5, 0.2))],
    "cross": [_line((0.22, 0.22), (0.78, 0.78)), _line((0.78, 0.22), (0.22, 0.78))],
    "star": [_line(*(_round(2 * i / 5, 0.36) for i in range(6)))],
    "wave": [[(0.1 + 0.8 * i / 20, 0.5 + 0.16 * math.sin(4 * math.pi * i / 20)) for i in range(21)]],
    "house": [_line((0.25, 0.8), (0.25, 0.45), (0.5, 0.2), (0.75, 0.45), (0.75, 0.8), (0.25, 0.8))],
}


def vary(strokes: list[Stroke], random: Random) -> list[Stroke]:
    """Turn, shear, scale and shift a symbol, and let the hand tremble."""
    angle, shear, scale = random.uniform(-0.18, 0.18), random.uniform(-0.12, 0.12), random.uniform(0.75, 1.1)
    right, down = random.uniform(-0.06, 0.06), random.uniform(-0.06, 0.06)
    drawn = []
    for stroke in strokes:
        phases = random.uniform(0, 6), random.uniform(0, 6)
        points = []
        for i, (x, y) in enumerate(stroke):
            u, v = x - 0.5 + shear * (y - 0.5), y - 0.5
            u, v = u * math.cos(angle) - v * math.sin(angle), u * math.sin(angle) + v * math.cos(angle)
            u, v = (
                u * scale + right + 0.015 * math.sin(i / 3 + phases[0]),
                v * scale + down + 0.015 * math.sin(i / 2.5 + phases[1]),
            )
            points.append((min(0.97, max(0.03, 0.5 + u)), min(0.97, max(0.03, 0.5 + v))))
        drawn.append(points)
    return drawn


def draw(page: Any, pad: str, name: str, random: Random) -> int:
    """Draw a symbol with the mouse. Returns the number of strokes."""
    box = page.locator(pad).bounding_box()
    strokes = vary(SYMBOLS[name], random)
    for stroke in strokes:
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point)
        page.mouse.up()
    return len(strokes)


def teach(page: Any, name: str, random: Random) -> int:
    """Draw a symbol, type its name, press Enter, and wait until the example is there."""
    before = page.locator(".thumb").count()
    strokes = draw(page, "#teach-pad", name, random)
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.locator(".thumb").nth(before).wait_for()
    return strokes
