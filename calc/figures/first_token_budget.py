"""Drawings of the chapter on a first-token budget."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import pstdev

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, Picture, boxes, canvas, picture
from calc.units import format_percent, format_seconds

LEAST = 1e-3  # of the requests: the rarest that the second picture shows


def parts_of_requests(*, requests: Sequence[Sequence[float]], names: Sequence[str], caption: str) -> Picture:
    """One column for each request, the fastest first, its parts on top of each other.

    Parameters
    ----------
    requests : sequence of sequence of float
        For each request the seconds of its parts, as many as there are names.
    names : sequence of str
        What each part is, from the bottom; at most three.
    caption : str
        What was recorded.
    """
    figure, (axes,) = canvas(2.7)
    ordered = sorted(requests, key=sum)
    bottoms = [0.0] * len(ordered)
    for part, color in zip(range(len(names)), (BLUE, ORANGE, GREY), strict=False):
        heights = [1000 * request[part] for request in ordered]
        corners = [(place, low, 1, height) for place, (low, height) in enumerate(zip(bottoms, heights, strict=True))]
        boxes(axes, corners, fc=color, ec="none")
        bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
    for line, (name, color) in enumerate(reversed(list(zip(names, (BLUE, ORANGE, GREY), strict=False)))):
        axes.text(0.02, 0.95 - 0.11 * line, name, color=color, transform=axes.transAxes, va="top", weight="bold")
    axes.set(xlim=(0, len(ordered)), ylim=(0, 1.04 * max(bottoms)))
    axes.set(xlabel="requests, fastest first", ylabel="time to first token, ms")
    widest = max(range(len(names)), key=lambda part: pstdev(request[part] for request in ordered))
    alt = (
        f"{len(ordered)} requests in columns by length, from {format_seconds(round(sum(ordered[0]), 6))} to "
        f"{format_seconds(round(sum(ordered[-1]), 6))}. The part that varies most is {names[widest]}."
    )
    return picture(figure, alt=alt, caption=caption)


def late_shares(
    *,
    lines: dict[str, tuple[Sequence[float], Sequence[float]]],
    simulated: tuple[Sequence[float], Sequence[float]],
    limit_s: float,
    allowed: float,
) -> Picture:
    """Share of requests whose first token is later than a time, on a logarithmic scale.

    Parameters
    ----------
    lines : dict
        Population → (seconds, share later), from the formula; at most three.
    simulated : tuple
        The same for all requests of a simulation.
    limit_s : float
        The limit on the time.
    allowed : float
        Share that may be later.
    """
    figure, (axes,) = canvas(2.9)
    end = 1.6 * limit_s
    for (name, (times, shares)), color in zip(lines.items(), (ORANGE, GREEN, BLUE), strict=False):
        axes.plot(times, [max(share, LEAST / 10) for share in shares], color=color, label=name)
    axes.plot(*simulated, ".", color=INK, ms=3)
    axes.axvline(limit_s, color=GREY, lw=0.9, ls=(0, (4, 3)))
    axes.axhline(allowed, color=GREY, lw=0.9, ls=(0, (4, 3)))
    axes.text(limit_s, 1.15, f"limit {format_seconds(limit_s)}", ha="center", va="bottom")
    axes.text(end, allowed * 1.06, f"{format_percent(allowed)} may be later", ha="right", va="bottom")
    labels = [*zip(lines, (ORANGE, GREEN, BLUE), strict=False), ("dots: all, simulated", INK)]
    for line, (name, color) in enumerate(labels):
        axes.text(0.02, 0.37 - 0.09 * line, name, color=color, transform=axes.transAxes, va="top", weight="bold")
    axes.set(yscale="log", xlim=(0, end), ylim=(LEAST, 1.1))
    axes.set_yticks([1, 0.1, 0.01, 0.001], ["100%", "10%", "1%", "0.1%"])
    axes.minorticks_off()
    axes.set(xlabel="time to first token, s", ylabel="share of requests that is later")
    inside = {name: _at(times, shares, limit_s) for name, (times, shares) in lines.items()}
    told = "; ".join(f"{name}: {format_percent(share, 2)}" for name, share in inside.items())
    alt = f"Share of requests whose first token is later than a time. Later than {format_seconds(limit_s)} are {told}."
    return picture(
        figure,
        alt=alt,
        caption="Lines from the formula, dots from the simulation with decoding beside it. Derived from the "
        "assumptions.",
    )


def _at(times: Sequence[float], shares: Sequence[float], time: float) -> float:
    """The share at the last of the times that is not later."""
    return [share for at, share in zip(times, shares, strict=True) if at <= time][-1]
