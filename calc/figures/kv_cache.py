"""Drawings of the KV-cache chapter."""

from __future__ import annotations

import numpy as np

from calc.figures import BLUE, GIB, GREY, INK, ORANGE, Picture, boxes, canvas, picture
from calc.units import counted, format_bytes, format_count


def token_walk(
    *,
    layers: int,
    query_heads: int,
    kept_heads: int,
    kept: tuple[str, str],
    bytes_per_position: float,
    model: str,
    until: str = "the request ends",
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
    until : str
        When the kept vectors go, for the caption.
    """
    figure, (one, stack) = canvas(2.5, 2, width_ratios=[3, 1.15])
    group = query_heads / kept_heads
    boxes(one, [(head + 0.12, 2.6, 0.76, 0.5) for head in range(query_heads)], fc="none", ec=GREY, lw=0.5)
    ends = [(head + 0.5, (head // group + 0.5) * group) for head in range(query_heads)]
    lines = np.array([((top, 2.6), (bottom, 1.55), (np.nan, np.nan)) for top, bottom in ends]).reshape(-1, 2)
    one.plot(*lines.T, color=GREY, lw=0.3)
    for y, color, name in ((1.0, BLUE, kept[0]), (0.35, ORANGE, kept[1])):
        boxes(one, [((head + 0.1) * group, y, 0.8 * group, 0.5) for head in range(kept_heads)], fc=color, ec="none")
        one.text(-0.015 * query_heads, y + 0.25, name, ha="right", va="center")
    used, stays = f"{query_heads} query heads: used once, nothing kept", f"{kept_heads} × {kept[0]} and {kept[1]}: kept"
    one.text(query_heads / 2, 3.3, used, ha="center")
    one.text(query_heads / 2, -0.15, stays, ha="center", va="top")
    one.set(xlim=(-0.12 * query_heads, query_heads), ylim=(-0.75, 3.9), title=f"One layer of {model}")
    for x, color in ((0, BLUE), (0.53, ORANGE)):
        boxes(stack, [(x, layer, 0.47, 0.72) for layer in range(layers)], fc=color, ec="none")
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
    return picture(figure, alt=alt, caption=f"What one token leaves behind. Filled boxes stay until {until}. Derived.")


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
    longest = max(len(held) for _, held in admitted.values())
    axes.axhline(pool_bytes / GIB, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.text(0.98 * longest, pool_bytes / GIB, f"the pool, {format_bytes(pool_bytes)} ", va="bottom", ha="right")
    for (rule, (requests, held)), color in zip(admitted.items(), (ORANGE, BLUE), strict=True):
        axes.plot(range(len(held)), [requests * h / GIB for h in held], color=color)
        axes.text(longest * 1.01, requests * held[-1] / GIB, f"{counted(requests, 'request')},\n{rule}", va="center")
    if overflow is not None:
        axes.plot([overflow], [pool_bytes / GIB], "o", color=ORANGE, ms=4)
        after = f"full after {format_count(overflow)}"
        axes.text(overflow + 0.015 * longest, 0.95 * pool_bytes / GIB, after, va="top")
    axes.set(xlabel="further tokens sampled by every request", xlim=(0, longest))
    axes.set(ylabel="cache held, GiB", ylim=(0, None))
    when = (
        f"fills the pool after {counted(overflow, 'more token')}" if overflow is not None else "stays inside the pool"
    )
    return picture(
        figure,
        alt=f"Cache held by equal requests as they write on from token {generated}. Admission by present use {when}; "
        "admission with room to finish stays below the pool to the last token.",
        caption="The same requests under two admission rules. Derived from the assumptions, all requests in step.",
    )
