"""The book's figure style; each chapter's drawings are in a module of its own. Needs matplotlib and numpy.

A picture is inline SVG: its text takes the page's font and ink, so one drawing reads on light, dark and
paper, and its alternative text and caption are computed with it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from zlib import crc32

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from calc.units import UNITS

# Okabe and Ito's color-blind-safe hues, kept to those with at least 3:1 contrast on white and on near-black.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0a7bbd", "#d55e00", "#009e73", "#b0569b", "#8a8a8a"
INK = "#000000"  # becomes the page's text color
HUE_OF_TEXT = 80  # percent, the rest is ink: words need 4.5:1
LONG = re.compile(r"(?<=[ \"])-?\d+\.\d{3,}")  # a hundredth of a point is enough
GIB = UNITS["GiB"].factor

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "calc",
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.labelsize": 8.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Picture:
    """A finished drawing: SVG, its alternative text and its caption."""

    svg: str
    alt: str
    caption: str

    def _repr_html_(self) -> str:
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f'<figure class="picture">{self.svg}{caption}</figure>'

    def __repr__(self) -> str:
        return f"Picture: {self.alt}"


def canvas(height: float, columns: int = 1, **options: object) -> tuple[Figure, list[Axes]]:
    """A figure in the book's width (4.8 in, legible at 350 px) with axes side by side.

    Parameters
    ----------
    height : float
        Inches.
    columns : int
        Axes in the row.
    **options
        For `matplotlib.figure.Figure.subplots`.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False, **options)[0]
    return figure, list(axes)


def picture(figure: Figure, *, alt: str, caption: str) -> Picture:
    """Turn a figure into inline SVG that takes the page's ink.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        From `canvas`.
    alt : str
        What the picture shows, for a reader who can't see it.
    caption : str
        One or two sentences under it, with the source of its numbers.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)  # its rule would hold for the whole page
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"| height="[^"]*"(?=[^>]*viewBox)', r"\1", svg, count=2)
    salt = f"p{crc32(alt.encode()):08x}"
    # a name that matplotlib makes hangs on the last digit of a float, which is not the same on every machine
    names = {name: f"{salt}-{n}" for n, name in enumerate(dict.fromkeys(re.findall(r'(?:url\(|href=")#([^)"]+)', svg)))}
    svg = re.sub(r' id="([^"]+)"', lambda own: f' id="{names[own[1]]}"' if own[1] in names else "", svg)
    svg = re.sub(r'(url\(|href=")#([^)"]+)', lambda used: f"{used[1]}#{names[used[2]]}", svg)
    svg = svg.replace(INK, "currentColor")
    colored = r'(<text style="[^"]*fill: )(#[0-9a-f]{6})'
    svg = re.sub(colored, rf"\1color-mix(in srgb, \2 {HUE_OF_TEXT}%, currentColor)", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]+", r"font-size: \1", svg)
    svg = re.sub(r" ?font-family: [^;\"]+;?", "", svg)  # the page's own
    svg = re.sub(r"<[^>]+>", lambda tag: LONG.sub(lambda number: f"{float(number[0]):.2f}", tag[0]), svg)
    own = f'role="img" aria-label="{escape(alt)}" fill="currentColor" stroke-linejoin="round"'
    svg = svg.replace("<svg ", f"<svg {own} ", 1)
    return Picture(re.sub(r"\s*\n\s*", "\n", svg).strip(), alt, caption)


def boxes(axes: Axes, corners: list[tuple[float, float, float, float]], **style: object) -> None:
    """Draw many rectangles (x, y, width, height) as one path, which keeps the SVG small."""
    boxes = [Path([(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)], closed=True) for x, y, w, h in corners]
    axes.add_patch(PathPatch(Path.make_compound_path(*boxes), **style))


def dots(axes: Axes, x: Sequence[float], y: Sequence[float], size: float, **style: object) -> None:
    """Draw many dots (points across) as one path: lines without length, round at the ends. A quarter of the SVG."""
    path = Path([point for point in zip(x, y, strict=True) for _ in "ab"], [Path.MOVETO, Path.LINETO] * len(x))
    path.should_simplify = False  # which would drop them all
    axes.add_patch(PathPatch(path, fill=False, lw=size, capstyle="round", **style))
    axes.autoscale_view()
