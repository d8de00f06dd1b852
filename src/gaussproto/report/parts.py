"""What the templates lay out: drawings, small images, and parts that may be missing."""

import re
from collections.abc import Callable
from typing import NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from gaussproto.errors import InputError
from gaussproto.figures.style import INK, PAPER, RULE, SERIES, SOFT, render

# CSS variables and their colours in the light; figures are drawn in these, and `page.css` has the dark ones.
COLOURS = {"--ink": INK, "--soft": SOFT, "--rule": RULE, "--paper": PAPER}
COLOURS |= {f"--s{i}": colour for i, colour in enumerate(SERIES)}


class Drawing(NamedTuple):
    """A figure as inline SVG."""

    content: Markup  # of the svg element
    view_box: str
    alt: str
    note: str
    on_paper: bool  # on white paper, or in the colours of the page


def drawing(figure: Figure, alt: str, note: str, key: str, on_paper: bool = False) -> Drawing:
    """A figure with its alternative text and its caption; `key` begins its ids, and no other drawing has it."""
    text = render(figure, "svg", transparent=True).decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{key}-", text)
    text = text.replace("xlink:href", "href")  # HTML needs no namespaces
    if not on_paper:
        for variable, colour in COLOURS.items():
            text = text.replace(colour, f"var({variable})")
    svg = re.search(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>(.*)</svg>', text, re.DOTALL)
    assert svg is not None
    view_box, content = svg.groups()
    return Drawing(Markup(content), view_box, alt, note, on_paper)  # matplotlib escapes the text in it


class Picture(NamedTuple):
    """A small image."""

    url: str
    alt: str
    note: str = ""


class Part(NamedTuple):
    """A part of the page, or why it is missing."""

    content: object = None
    missing: str = ""
    command: str = ""  # that would make it


def measured(measure: Callable[[], object]) -> Part:
    """What a function measures; a run is worth a page even if its data is gone."""
    try:
        return Part(measure())
    except InputError as error:
        return Part(missing=f"Not measured: {error}.")
