"""The book's figure style and its recurring drawings. Needs matplotlib, so no other module imports this one.

A picture is inline SVG: its text takes the page's font and ink, so one drawing reads on light, dark and
paper, and its alternative text and caption are computed with it.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from html import escape
from zlib import crc32

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from calc.units import UNITS, format_bytes, format_count

# Okabe and Ito's color-blind-safe hues, kept to those with at least 3:1 contrast on white and on near-black.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0a7bbd", "#d55e00", "#009e73", "#b0569b", "#8a8a8a"
INK = "#000000"  # becomes the page's text color
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
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"| height="[^"]*"(?=[^>]*viewBox)', r"\1", svg, count=2)
    salt = f"p{crc32(alt.encode()):08x}"
    svg = re.sub(r'id="([^"]+)"', rf'id="{salt}\1"', svg)
    svg = re.sub(r"(url\(|xlink:href=\")#", rf"\1#{salt}", svg)
    svg = svg.replace(INK, "currentColor").replace("font-family", "-font-family")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]+", r"font-size: \1", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" fill="currentColor" ', 1)
    return Picture(re.sub(r"\s*\n\s*", "\n", svg).strip(), alt, caption)


def _boxes(axes: Axes, corners: list[tuple[float, float, float, float]], **style: object) -> None:
    """Draw many rectangles (x, y, width, height) as one path, which keeps the SVG small."""
    boxes = [Path([(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)], closed=True) for x, y, w, h in corners]
    axes.add_patch(PathPatch(Path.make_compound_path(*boxes), **style))


def token_walk(
    *, layers: int, query_heads: int, kept_heads: int, kept: tuple[str, str], bytes_per_position: float, model: str
) -> Picture:
    """What one token leaves in a layer, drawn to scale by heads, and what all layers add up to.

    Parameters
    ----------
    layers, query_heads : int
        Layers that keep a cache, and query heads in each.
    kept_heads : int
        Heads whose vectors are kept: the KV heads, or 1 for a shared latent.
    kept : tuple of str
        Names of the two vectors kept for each, for example ("K", "V").
    bytes_per_position : float
        Bytes in all layers.
    model : str
        Its name.
    """
    figure, (one, stack) = canvas(2.5, 2, width_ratios=[3, 1.15])
    group = query_heads / kept_heads
    _boxes(one, [(head + 0.12, 2.6, 0.76, 0.5) for head in range(query_heads)], fc="none", ec=GREY, lw=0.5)
    ends = [(head + 0.5, (head // group + 0.5) * group) for head in range(query_heads)]
    lines = np.array([((top, 2.6), (bottom, 1.55), (np.nan, np.nan)) for top, bottom in ends]).reshape(-1, 2)
    one.plot(*lines.T, color=GREY, lw=0.3)
    for y, color, name in ((1.0, BLUE, kept[0]), (0.35, ORANGE, kept[1])):
        _boxes(one, [((head + 0.1) * group, y, 0.8 * group, 0.5) for head in range(kept_heads)], fc=color, ec="none")
        one.text(-0.015 * query_heads, y + 0.25, name, ha="right", va="center")
    used, stays = f"{query_heads} query heads: used once, nothing kept", f"{kept_heads} × {kept[0]} and {kept[1]}: kept"
    one.text(query_heads / 2, 3.3, used, ha="center")
    one.text(query_heads / 2, -0.15, stays, ha="center", va="top")
    one.set(xlim=(-0.12 * query_heads, query_heads), ylim=(-0.75, 3.9), title=f"One layer of {model}")
    for x, color in ((0, BLUE), (0.53, ORANGE)):
        _boxes(stack, [(x, layer, 0.47, 0.72) for layer in range(layers)], fc=color, ec="none")
    total = format_bytes(bytes_per_position)
    stack.text(0.5, -0.06 * layers, f"{layers} layers\nkeep {total}", ha="center", va="top")
    stack.set(xlim=(-0.15, 1.15), ylim=(-0.3 * layers, layers * 1.03), title="All layers")
    for axes in (one, stack):
        axes.set_axis_off()
        axes.title.set(fontsize=8.5)
    alt = (
        f"In one layer of {model}, {query_heads} query heads keep nothing; {kept_heads} × {kept[0]} and {kept[1]} "
        f"stay. {layers} layers together keep {total} for this token."
    )
    return picture(figure, alt=alt, caption="What one token leaves behind. Filled boxes stay until the request ends.")


def pool_over_time(
    *, pool_bytes: float, admitted: dict[str, tuple[int, list[float]]], generated: int, overflow: int | None
) -> Picture:
    """Memory held by groups of equal requests as they write on, against the pool.

    Parameters
    ----------
    pool_bytes : float
        Memory given to the cache.
    admitted : dict
        Rule of admission → (requests admitted, bytes held by one request after each further token).
    generated : int
        Tokens each request has sampled at the start.
    overflow : int or None
        Further tokens after which the first rule has filled the pool, None if it never does.
    """
    figure, (axes,) = canvas(2.6)
    axes.axhline(pool_bytes / GIB, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.text(0, pool_bytes / GIB, f" the pool, {format_bytes(pool_bytes)}", va="top", ha="left")
    longest = max(len(held) for _, held in admitted.values())
    for (rule, (requests, held)), color in zip(admitted.items(), (ORANGE, BLUE), strict=True):
        axes.plot(range(len(held)), [requests * h / GIB for h in held], color=color)
        axes.text(longest * 1.01, requests * held[-1] / GIB, f"{format_count(requests)} requests,\n{rule}", va="center")
    if overflow is not None:
        axes.plot([overflow], [pool_bytes / GIB], "o", color=ORANGE, ms=4)
    axes.set(xlabel="further tokens sampled by every request", xlim=(0, longest))
    axes.set(ylabel="cache held, GiB", ylim=(0, None))
    when = f"fills the pool after {overflow} more tokens" if overflow is not None else "stays inside the pool"
    return picture(
        figure,
        alt=f"Cache held by equal requests as they write on from token {generated}. Admission by present use {when}; "
        "admission with room to finish stays below the pool to the last token.",
        caption="The same requests under two admission rules. Derived: no blocks, no sharing, all requests in step.",
    )
