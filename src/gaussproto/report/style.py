"""One look for every figure: readable in grey, text kept as text, the same bytes for the same numbers."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from gaussproto.files import write_then_rename

P = ParamSpec("P")
T = TypeVar("T")

INK, SOFT, RULE, PAPER = "#1c1e26", "#5b6070", "#d9dbe1", "#ffffff"
# Neighbours differ in lightness, and every series also has a line and a marker of its own.
SERIES = ("#123c80", "#d5741e", "#2f9e83", "#8a3f8f", "#b09020", "#6f7683")
LINES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DOTS_PER_INCH = 160

_RULES: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the layout is the same everywhere
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in the name of a run is a dollar
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": True,  # what lies behind must not cross the words
    "legend.framealpha": 0.85,
    "legend.facecolor": PAPER,
    "legend.edgecolor": "none",
    "legend.fontsize": 8.5,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "gaussproto",
    "image.composite_image": False,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Run a drawing function under the common style; the reader's own matplotlib settings are left alone."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_RULES)  # type: ignore[arg-type]
            return draw(*args, **kwargs)

    return inside


def new_figure(width: float, height: float, by_hand: bool = False) -> Figure:
    """An empty figure of that size in inches; its axes are laid out to fit unless they are placed by hand."""
    return Figure(figsize=(width, height), layout=None if by_hand else "constrained")


@styled
def add_note(figure: Figure, note: str) -> None:
    """Write a note under a figure, which grows by the height of it."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(note, int(width * 17.5))
    grow = 0.14 * len(lines) + 0.1
    engine = figure.get_layout_engine()
    figure.set_size_inches(width, height + grow)
    low = grow / (height + grow)
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, low, 1, 1 - low))
    else:
        for axes in figure.axes:
            box = axes.get_position(original=True)
            axes.set_position((box.x0, low + box.y0 * (1 - low), box.width, box.height * (1 - low)))
    figure.text(
        0.08 / width, 0.05 / (height + grow), "\n".join(lines), fontsize=7.5, color=SOFT, va="bottom", linespacing=1.25
    )


@styled
def render(figure: Figure, form: Literal["svg", "png"], title: str = "", transparent: bool = False) -> bytes:
    """The bytes of a picture; twice the same for the same figure."""
    buffer = io.BytesIO()
    if figure.get_layout_engine() is not None:  # each drawing would move the axes a little: settle them once
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    face = "none" if transparent else PAPER
    if form == "png":
        FigureCanvasAgg(figure)
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, facecolor=face, metadata={"Software": None})
        return buffer.getvalue()
    FigureCanvasSVG(figure)
    metadata = {"Date": None, "Creator": "gaussproto", "Title": title or "gaussproto"}
    figure.savefig(buffer, format="svg", facecolor=face, metadata=metadata)
    text = buffer.getvalue().decode()
    return text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif").encode()


def save_figure(figure: Figure, folder: Path, name: str, title: str = "") -> list[Path]:
    """Write `name.svg` and `name.png` into a folder."""
    paths = []
    for form in ("svg", "png"):
        path = folder / f"{name}.{form}"
        content = render(figure, form, title)
        with write_then_rename(path) as temporary:
            temporary.write_bytes(content)
        paths.append(path)
    return paths
