"""One style for all figures: readable in grey, text stays text, and the same numbers give the same bytes."""

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from gaussproto.files import write_then_rename

INK, SOFT, RULE, PAPER = "#1c1e26", "#5b6070", "#d9dbe1", "#ffffff"
# Neighbouring colours differ in lightness, and each series has its own line style and marker.
SERIES = ("#123c80", "#d5741e", "#2f9e83", "#8a3f8f", "#b09020", "#6f7683")
LINES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DOTS_PER_INCH = 160
NOTE_CHARACTERS, NOTE_LINE, NOTE_MARGIN = 17.5, 0.14, 0.1  # characters per inch; heights in inches

# By group, for `matplotlib.rc`. Everything else has matplotlib's defaults.
_SETTINGS: dict[str, dict[str, Any]] = {
    "font": {"size": 9, "sans-serif": ["DejaVu Sans"]},  # included in matplotlib, so the layout is the same everywhere
    "text": {"color": INK, "parse_math": False},  # the name of a run may contain a dollar sign
    "axes": {
        "titlesize": 9.5, "titleweight": "bold", "titlelocation": "left", "labelcolor": INK, "edgecolor": SOFT,
        "facecolor": "none", "grid": True, "axisbelow": True,
    },
    "axes.spines": {"top": False, "right": False},
    "grid": {"color": RULE, "linewidth": 0.6},
    "xtick": {"color": SOFT, "labelsize": 8},
    "ytick": {"color": SOFT, "labelsize": 8},
    "legend": {"fontsize": 8.5, "handlelength": 2.6, "facecolor": PAPER, "edgecolor": "none", "framealpha": 0.85},
    "lines": {"linewidth": 1.6, "markersize": 4},
    "figure": {"facecolor": "none"},
    "figure.constrained_layout": {"w_pad": 0.08, "h_pad": 0.08},
    "svg": {"fonttype": "none", "hashsalt": "gaussproto"},
    "image": {"composite_image": False},
}  # fmt: skip


@contextmanager
def _common_style() -> Iterator[None]:
    with mpl.rc_context():
        mpl.rcdefaults()
        for group, settings in _SETTINGS.items():
            mpl.rc(group, **settings)  # type: ignore[arg-type]
        yield


styled = _common_style()  # decorator of drawing functions; does not change the user's matplotlib settings


def new_figure(width: float, height: float, by_hand: bool = False) -> Figure:
    """Return an empty figure of this size in inches. The layout is automatic unless `by_hand`."""
    return Figure(figsize=(width, height), layout=None if by_hand else "constrained")


def clear(axes: Axes, frame: bool) -> None:
    """Remove ticks, grid and axes. Keep a thin frame if `frame`."""
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(visible=frame, color=RULE)


@styled
def add_note(figure: Figure, note: str) -> None:
    """Write a note under a figure and increase its height accordingly."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(note, int(width * NOTE_CHARACTERS))
    grow = NOTE_LINE * len(lines) + NOTE_MARGIN
    engine = figure.get_layout_engine()
    figure.set_size_inches(width, height + grow)
    low = grow / (height + grow)
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, low, 1, 1 - low))
    else:
        for axes in figure.axes:
            box = axes.get_position(original=True)
            axes.set_position((box.x0, low + box.y0 * (1 - low), box.width, box.height * (1 - low)))
    corner = (0.08 / width, 0.05 / (height + grow))
    figure.text(*corner, "\n".join(lines), fontsize=7.5, color=SOFT, va="bottom", linespacing=1.25)


@styled
def render(figure: Figure, form: Literal["svg", "png"], title: str = "", transparent: bool = False) -> bytes:
    """Return the content of an image file, always the same for the same figure."""
    if figure.get_layout_engine() is not None:  # fix the layout, which would change a little with each rendering
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    of_svg = {"Date": None, "Creator": "gaussproto", "Title": title or "gaussproto"}
    metadata = of_svg if form == "svg" else {"Software": None}
    buffer, background = io.BytesIO(), "none" if transparent else PAPER
    figure.savefig(buffer, format=form, dpi=DOTS_PER_INCH, facecolor=background, metadata=metadata)
    content = buffer.getvalue()
    return content.replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif") if form == "svg" else content


def save_figure(figure: Figure, folder: Path, name: str, title: str = "") -> list[Path]:
    paths = []
    for form in ("svg", "png"):
        paths.append(folder / f"{name}.{form}")
        content = render(figure, form, title)
        with write_then_rename(paths[-1]) as temporary:
            temporary.write_bytes(content)
    return paths
