"""Drawings of the chapter on attention variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

import numpy as np
from matplotlib.axes import Axes

from calc.attention import kv_head_of
from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.models import FullAttention, LatentAttention
from calc.units import UNITS, counted, format_bytes, format_count, significant

KIB = UNITS["KiB"].factor
LIGHT = "#c9c9c9"
HEIGHT = 0.7  # of a box; a box's area is its number of elements


def shared_heads(
    *, layers: Mapping[str, FullAttention | LatentAttention], bytes_per_position: Mapping[str, float], model: str
) -> Picture:
    """Which query head reads what, and how much of it is kept: a layer under each rule of sharing, to scale.

    Parameters
    ----------
    layers : mapping of str to FullAttention or LatentAttention
        Rule → the layer, with the same query heads in each.
    bytes_per_position : mapping of str to float
        Rule → cache bytes of one position in all layers.
    model : str
        Whose layer it is.
    """
    figure, (axes,) = canvas(1.12 * len(layers))
    first = next(iter(layers.values()))
    full = first.query_heads * first.key_dim
    said = []
    for turn, (rule, layer) in enumerate(layers.items()):
        top = -5.2 * turn
        latent = isinstance(layer, LatentAttention)
        kept_heads = 1 if latent else layer.kv_heads
        elements = layer.latent_dim + layer.rope_dim if latent else layer.kv_heads * (layer.key_dim + layer.value_dim)
        what = "one latent and rotary key" if latent else counted(kept_heads, "KV head")
        size = format_bytes(bytes_per_position[rule])
        axes.text(0, top + 0.45, rule, va="bottom", weight="bold")
        kept = f"{what}: {format_count(elements)} elements a layer, {size} in all"
        axes.text(full, top + 0.45, kept, ha="right", va="bottom")
        pitch = full / layer.query_heads
        boxes(
            axes, [(head * pitch, top - 0.3, 0.8 * pitch, 0.5) for head in range(layer.query_heads)],
            fc="none", ec=GREY, lw=0.4,
        )  # fmt: skip
        group = full / kept_heads
        reads = [
            kv_head_of(query_head=head, query_heads=layer.query_heads, kv_heads=kept_heads)
            for head in range(layer.query_heads)
        ]
        ends = [((head + 0.4) * pitch, (read + 0.5) * group - 0.1 * pitch) for head, read in enumerate(reads)]
        lines = np.array([((a, top - 0.35), (b, top - 1.5), (np.nan, np.nan)) for a, b in ends]).reshape(-1, 2)
        axes.plot(*lines.T, color=GREY, lw=0.3)
        middles = [(head + 0.5) * group - 0.1 * pitch for head in range(kept_heads)]
        if latent:
            _kept(axes, [middles[0] - layer.rope_dim / 2], layer.latent_dim, top - 1.6, PURPLE)
            _kept(axes, [middles[0] + layer.latent_dim / 2], layer.rope_dim, top - 1.6, GREEN)
        else:
            _kept(axes, middles, layer.key_dim, top - 1.6, BLUE)
            _kept(axes, middles, layer.value_dim, top - 1.6 - HEIGHT, ORANGE)
        said.append(f"{rule}: {kept}")
    axes.set(xlim=(-0.01 * full, 1.01 * full), ylim=(-5.2 * len(layers) + 1.9, 1.5))
    axes.set_axis_off()
    heads = counted(first.query_heads, "query head")
    alt = f"{heads} of a layer of {model} and what they read. {'; '.join(said)}."
    caption = (
        f"One position in a layer of {model}: its {heads} above, what they read and the cache keeps below. Areas are "
        "to scale: keys blue, values orange, latent purple, rotary key green."
    )
    return picture(figure, alt=alt, caption=caption)


def _kept(axes: Axes, middles: Sequence[float], width: float, top: float, color: str) -> None:
    """Boxes that stay in the cache, as wide as their elements."""
    boxes(axes, [(middle - width / 2, top - HEIGHT, width, HEIGHT) for middle in middles], fc=color, ec="none")


def copies_by_ranks(*, models: Mapping[str, Sequence[tuple[int, float]]]) -> Picture:
    """What all ranks together hold of one position, rank by rank: once, and in copies.

    Parameters
    ----------
    models : mapping of str to sequence of (int, float)
        Model → ranks, and bytes of one position on each of them; the first entry is for one rank.
    """
    figure, columns = canvas(2.7, len(models), sharey=True)
    said = []
    for axes, (name, sizes) in zip(columns, models.items(), strict=True):
        whole = sizes[0][1]
        for place, (ranks, size) in enumerate(sizes):
            once = round(whole / size)  # ranks that hold what no other holds
            own, copied = range(once), range(once, ranks)
            for part, color in ((own, BLUE), (copied, LIGHT)):
                corners = [(place - 0.38, rank * size / KIB, 0.76, size / KIB) for rank in part]
                boxes(axes, corners, fc=color, ec="white", lw=0.4)
        times = ", ".join(f"{significant(ranks * size / whole)}× on {ranks}" for ranks, size in sizes if ranks > 1)
        said.append(f"{name}: {format_bytes(whole)}, stored {times or '1× on 1'}")
        ranks, size = sizes[-1]
        tall = ranks * size / KIB
        axes.text(len(sizes) - 0.55, tall, f"{significant(ranks * size / whole)}×", ha="right", va="bottom")
        axes.set_xticks(range(len(sizes)), [str(ranks) for ranks, _ in sizes])
        axes.set(title=name, xlabel="ranks", xlim=(-0.6, len(sizes) - 0.4))
        axes.tick_params(axis="x", length=0)
        axes.title.set(fontsize=8.5)
    most = max(ranks * size for sizes in models.values() for ranks, size in sizes) / KIB
    columns[0].set(ylabel="KiB of one position, all ranks", ylim=(0, 1.1 * most))
    alt = "Bytes of one position that all tensor-parallel ranks hold together. " + "; ".join(said) + "."
    caption = "One box a rank. Blue is stored once; grey is a copy of something that another rank holds. To scale."
    return picture(figure, alt=alt, caption=caption)


def intensities(
    *, models: Mapping[str, tuple[float, float | None]], ranks: int, balance: float, accelerator: str
) -> Picture:
    """Arithmetic of decode attention for each byte read, on one GPU and on one of several, against the chip's.

    Parameters
    ----------
    models : mapping of str to (float, float or None)
        Model → FLOP/B on one rank and on one of `ranks` ranks, None where it can't run on so many.
    ranks : int
        Tensor-parallel ranks.
    balance : float
        FLOP/B of the chip.
    accelerator : str
        Its name.
    """
    figure, (axes,) = canvas(0.75 + 0.19 * len(models))
    for place, (alone, each) in enumerate(models.values()):
        if each is not None and each != alone:
            axes.plot([each, alone], [place, place], color=GREY, lw=0.8, zorder=1)
            axes.plot([each], [place], "o", color=ORANGE, ms=4.5, mfc="none", zorder=2)
        axes.plot([alone], [place], "o", color=BLUE, ms=4.5, zorder=3)
    axes.axvline(balance, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.text(balance * 0.92, -1, f"{accelerator} {significant(balance, 3)}", ha="right", va="center")
    values = [balance, *(value for pair in models.values() for value in pair if value)]
    low, high = np.floor(np.log2(min(values))), np.ceil(np.log2(max(values)))
    axes.set_xscale("log", base=2)
    ticks = 2.0 ** np.arange(low, high + 1)
    axes.set_xticks(ticks, [significant(tick) for tick in ticks])
    axes.set_yticks(range(len(models)), list(models))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(2.0 ** (low - 0.3), 2.0 ** (high + 0.3)), ylim=(len(models) - 0.5, -1.7))
    axes.set(xlabel="FLOP for each byte of cache read")
    alt = _intensities(models, ranks, balance, accelerator)
    ring = f"; rings: on one of {ranks} ranks, where that differs and the model runs" if ranks > 1 else ""
    caption = f"Dots: the whole layer{ring}. Left of the dashed line, attention waits for memory. Derived."
    return picture(figure, alt=alt, caption=caption)


def _intensities(models: Mapping[str, tuple[float, float | None]], ranks: int, balance: float, accelerator: str) -> str:
    """The picture in words: who waits for memory, then the numbers, lowest first."""

    def listed(values: Mapping[str, float]) -> str:
        return " ".join(
            f"{name}: {significant(value, 3)}." for name, value in sorted(values.items(), key=itemgetter(1))
        )

    whole = {name: alone for name, (alone, _) in models.items()}
    below = sum(value < balance for value in whole.values())
    changed = {name: each for name, (alone, each) in models.items() if each is not None and each != alone}
    share = "all" if below == len(models) else f"{format_count(below)} of"
    return (
        f"Decode attention of {share} {counted(len(models), 'model')} waits for memory: it does fewer than the "
        f"{significant(balance, 3)} FLOP that {accelerator} could do for each byte. {listed(whole)}"
        + (f" On one of {ranks} ranks these do less. {listed(changed)}" if changed else "")
    )
