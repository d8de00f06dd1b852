"""HTML from Python: text is escaped here and nowhere else, and a page needs nothing but itself."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure

from gaussproto.report.pictures import png_address
from gaussproto.report.style import INK, PAPER, RULE, SERIES, SOFT, render

VOID = {"img", "meta"}
COLOURS = {INK: "--ink", SOFT: "--soft", RULE: "--rule", PAPER: "--paper"} | {
    colour: f"--s{i}" for i, colour in enumerate(SERIES)
}


class Html(str):
    """Markup that is already safe; any other string is text."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """An element; `class_` and the like lose their underscore.

    >>> tag("p", "a < b & ", tag("b", "c"), class_="note")
    '<p class="note">a &lt; b &amp; <b>c</b></p>'
    """
    words = "".join(f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{words}>")
    return Html(f"<{name}{words}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Parts one after another; what is no markup yet is escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in parts))


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> Html:
    """A table whose first column and first row are headers; with `numbers`, the others stand to the right."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    look = "numbers" if numbers else "words"
    content = tag("table", tag("thead", top), tag("tbody", *body), class_=look, aria_label=caption)
    # Outside the table the words keep to the screen where the table is wider than it.
    return join([tag("p", caption, class_="soft caption"), tag("div", content, class_="scroll")])


def drawing(figure: Figure, alt: str, note: str, key: str, on_paper: bool = False) -> Html:
    """A figure as inline SVG in the page's own colours, or, with images in it, on white paper.

    Args:
        figure: what is shown.
        alt: what it shows, for those who cannot see it.
        note: the caption.
        key: no other drawing of the page has it.
        on_paper: keep its own colours.
    """
    text = render(figure, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{key}-", text)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")  # a page knows these by itself
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text, count=1)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)
    if not on_paper:
        for colour, variable in COLOURS.items():
            text = text.replace(colour, f"var({variable})")
    return tag("figure", Html(text), tag("figcaption", note), class_="paper" if on_paper else "chart")


def picture(pixels: np.ndarray, alt: str, note: str = "") -> Html:
    """A small image with words below it."""
    image = tag("img", src=png_address(pixels), alt=alt, title=alt)
    return tag("figure", image, tag("figcaption", note), class_="thumb") if note else image


def page(title: str, body: Html) -> Html:
    """A whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    return Html("<!doctype html>\n" + tag("html", head, tag("body", body), lang="en") + "\n")


_LIGHT = "--ink:#1c1e26;--soft:#5b6070;--rule:#d9dbe1;--paper:#fff;--page:#fff;--tint:#f4f5f7;" + ";".join(
    f"--s{i}:{colour}" for i, colour in enumerate(SERIES)
)
_DARK = (
    "--ink:#e8e9ee;--soft:#a8adba;--rule:#3a3e4a;--paper:#16181d;--page:#16181d;--tint:#20232b;"
    "--s0:#7fb2ff;--s1:#f0a35e;--s2:#63cdb2;--s3:#d39ad8;--s4:#d9bd5a;--s5:#a3a9b5"
)
STYLE = f"""
:root{{{_LIGHT}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:68rem;padding:1.5rem 1rem 4rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}
h1{{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}}
h2{{font-size:1.35rem;margin:3rem 0 .4rem;padding-top:1rem;border-top:2px solid var(--ink);overflow-wrap:anywhere}}
h3{{font-size:1.05rem;margin:1.8rem 0 .4rem}}
p{{max-width:46rem;margin:.4rem 0}}
a{{color:var(--s0)}}
nav ul{{padding-left:1.2rem}}
code{{font-size:.92em;background:var(--tint);padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}}
.soft,figcaption{{color:var(--soft);font-size:.86rem}}
.missing{{border-left:3px solid var(--s1);padding-left:.7rem}}
.scroll{{overflow-x:auto;max-width:100%;margin:.6rem 0}}
table{{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}}
.caption{{margin:1rem 0 -.4rem}}
th,td{{padding:.22rem .7rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}}
thead th{{border-bottom:1.5px solid var(--soft)}}
th:first-child{{padding-left:0}}
.numbers tbody th,.words thead th,.line{{white-space:nowrap}}
.numbers td,.numbers thead th:not(:first-child){{text-align:right;white-space:nowrap}}
.grid{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));gap:1rem 2rem;align-items:start}}
.settings{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:0 2rem}}
figure{{margin:.6rem 0}}
.chart svg,.paper svg{{display:block;width:100%;height:auto;max-width:44rem}}
.paper svg{{background:#fff;border-radius:4px}}
.thumbs{{display:flex;flex-wrap:wrap;gap:.5rem}}
.thumb{{margin:0;text-align:center;width:4.4rem}}
.thumb figcaption{{font-size:.75rem;line-height:1.25;overflow-wrap:anywhere}}
img{{width:3.5rem;height:3.5rem;background:#fff;border:1px solid var(--rule);border-radius:3px;margin:0 2px 2px 0}}
td img{{width:2.6rem;height:2.6rem}}
@media print{{body{{max-width:none;padding:0;font-size:10pt}}nav{{display:none}}
.grid{{grid-template-columns:1fr 1fr}}.settings{{grid-template-columns:repeat(4,1fr);gap:0 1rem}}
.scroll{{overflow:visible}}
table{{font-size:7.5pt}}th,td{{padding:.12rem .3rem}}.numbers tbody th{{white-space:normal}}
td img{{width:1.7rem;height:1.7rem}}
.settings table{{font-size:6.5pt}}.paper svg,.chart svg{{max-width:30rem}}
figure,tr,.thumbs{{break-inside:avoid}}h2,h3,.leads{{break-after:avoid}}h2.run{{break-before:page}}
img{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}
"""
