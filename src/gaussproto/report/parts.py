"""The elements of the templates: drawings, small images, and parts that may be missing."""

import re
from collections.abc import Callable
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from gaussproto.errors import InputError
from gaussproto.figures.style import INK, PAPER, RULE, SERIES, SOFT, render
from gaussproto.provenance import version

# CSS variables and their light colours, in which figures are drawn. `page.css` has the dark ones.
COLOURS = {"--ink": INK, "--soft": SOFT, "--rule": RULE, "--paper": PAPER}
COLOURS |= {f"--s{i}": colour for i, colour in enumerate(SERIES)}


def rendered(template: str, **content: object) -> str:
    """Return a page, given the name of its template and what to fill in."""
    templates = Environment(
        loader=PackageLoader("gaussproto.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(template).render(version=version(), colours=COLOURS, **content)


class Drawing(NamedTuple):
    """A figure as inline SVG."""

    content: Markup  # of the svg element
    view_box: str
    alt: str
    note: str
    on_paper: bool  # on white, otherwise in the colours of the page


def drawing(figure: Figure, alt: str, note: str, key: str, on_paper: bool = False) -> Drawing:
    """Convert a figure to inline SVG. `note` is its caption, and `key` the unique prefix of its element ids."""
    text = render(figure, "svg", transparent=True).decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{key}-", text)
    text = text.replace("xlink:href", "href")  # HTML has no namespaces
    if not on_paper:
        for variable, colour in COLOURS.items():
            text = text.replace(colour, f"var({variable})")
    svg = re.search(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>(.*)</svg>', text, re.DOTALL)
    assert svg is not None
    view_box, content = svg.groups()
    return Drawing(Markup(content), view_box, alt, note, on_paper)  # matplotlib has escaped the text


class Picture(NamedTuple):
    """A small image."""

    url: str
    alt: str
    note: str = ""


class Part(NamedTuple):
    """A part of the page, or the reason why it is missing."""

    content: object = None
    missing: str = ""
    command: str = ""  # that provides it


def measured(measure: Callable[[], object]) -> Part:
    """Call a function. If it raises InputError, for example because the data was deleted, the page gives the reason."""
    try:
        return Part(measure())
    except InputError as error:
        return Part(missing=f"Not measured: {error}.")
