"""Drawings of the chapter on paged attention."""

from __future__ import annotations

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.units import format_count

SHOWN_ENTRIES, SHOWN_COLUMNS, SHOWN_ROWS = 16, 24, 5


def table_walk(
    *, blocks: list[int], others: list[int], pool_blocks: int, block_tokens: int, position: int, written: int
) -> Picture:
    """One position on its way through a block table: its entry, the physical block, the place inside.

    Parameters
    ----------
    blocks : list of int
        Physical block of each entry of the table.
    others : list of int
        Physical blocks that other sequences hold.
    pool_blocks, block_tokens : int
        Blocks in the pool, and positions in a block.
    position, written : int
        The position to follow, and positions written to the sequence.
    """
    entry, place = divmod(position, block_tokens)
    target = blocks[entry]
    first = max(0, min(entry - SHOWN_ENTRIES // 2, len(blocks) - SHOWN_ENTRIES))
    entries = range(first, min(first + SHOWN_ENTRIES, len(blocks)))
    size = SHOWN_COLUMNS * SHOWN_ROWS
    low = max(0, min(target - size // 2, pool_blocks - size))
    shown = range(low, min(low + size, pool_blocks))
    figure, (axes,) = canvas(3.4)

    wide = SHOWN_COLUMNS / SHOWN_ENTRIES
    corners = {i: ((i - first) * wide + 0.06, 8.2, wide - 0.12, 0.9) for i in entries}
    boxes(axes, [corners[i] for i in entries if i != entry], fc="none", ec=BLUE, lw=0.8)
    boxes(axes, [corners[entry]], fc=BLUE, ec="none")
    for i in entries:
        x, y, w, h = corners[i]
        axes.text(x + w / 2, y + h / 2, str(blocks[i]), ha="center", va="center", fontsize=6.5, color=_on(i == entry))
    axes.text(0, 9.45, f"Block table: entries {entries[0]:,} to {entries[-1]:,}, each with a physical block")

    cells = {j: ((j - low) % SHOWN_COLUMNS, 5.9 - (j - low) // SHOWN_COLUMNS) for j in shown}
    mine, theirs = set(blocks), set(others)
    for numbers, style in (
        (mine - {target}, {"fc": BLUE, "alpha": 0.35, "ec": "none"}),
        (theirs, {"fc": ORANGE, "alpha": 0.45, "ec": "none"}),
        (set(shown) - mine - theirs, {"fc": "none", "ec": GREY, "lw": 0.4}),
        ({target}, {"fc": BLUE, "ec": INK, "lw": 1.2}),
    ):
        here = [(cells[j][0] + 0.08, cells[j][1] + 0.08, 0.84, 0.84) for j in sorted(numbers) if j in cells]
        if here:
            boxes(axes, here, **style)
    x, y = cells[target]
    start = (corners[entry][0] + corners[entry][2] / 2, 8.2)
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 0.8, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x + 0.5, y + 0.95), start, arrowprops=arrow)
    axes.text(0, 7.15, f"Pool: blocks {shown[0]:,} to {shown[-1]:,}", bbox={"fc": "none", "ec": "none"})

    filled = min(written - entry * block_tokens, block_tokens)
    scale = SHOWN_COLUMNS / block_tokens
    boxes(axes, [(0, -0.6, SHOWN_COLUMNS, 0.8)], fc="none", ec=BLUE, lw=0.8)
    boxes(axes, [(0, -0.6, filled * scale, 0.8)], fc=BLUE, alpha=0.35, ec="none")
    boxes(axes, [(place * scale, -0.6, max(scale, 0.12), 0.8)], fc=BLUE, ec=INK, lw=0.8)
    axes.text(0, 0.55, f"Block {target:,}: places 0 to {block_tokens - 1:,}, the position is at {place:,}")
    axes.set(xlim=(-0.1, SHOWN_COLUMNS + 0.1), ylim=(-0.9, 10.2))
    axes.set_axis_off()
    where = f"position {format_count(position)} is at place {format_count(place)} of physical block {target:,}"
    return picture(
        figure,
        alt=f"A block table points into a pool. Entry {entry:,} of the table names block {target:,}; {where}.",
        caption=f"From a position to its place: {where}. Blue: this sequence. Orange: others. Outlined: free. "
        "Block tables of a real pool of the library.",
    )


def _on(filled: bool) -> str:
    return "#ffffff" if filled else INK


def hit_stairs(*, prompts: list[int], curves: dict[str, list[int]], prompt: int) -> Picture:
    """Positions found in the cache when a prompt comes again, by its length.

    Parameters
    ----------
    prompts : list of int
        Prompt lengths, ascending.
    curves : dict
        Name → positions found at each length.
    prompt : int
        The chapter's own prompt, marked.
    """
    figure, (axes,) = canvas(2.8)
    styles = zip((BLUE, GREEN, ORANGE, PURPLE), ("-", (0, (4, 2)), "-", (0, (4, 2))), strict=True)
    for (name, found), (color, line) in zip(curves.items(), styles, strict=False):
        axes.plot(prompts, found, color=color, ls=line, drawstyle="steps-post", label=name)
    axes.axvline(prompt, color=INK, lw=0.8, ls=(0, (1, 2)))
    axes.set(xlabel="prompt, tokens", ylabel="found, tokens", xlim=(0, prompts[-1]), ylim=(0, None))
    axes.legend(frameon=False, loc="upper left", fontsize=7.5)
    ends = "; ".join(f"{name}: {format_count(found[-1])}" for name, found in curves.items())
    return picture(
        figure,
        alt=f"Positions found against prompt length, as stairs. At {format_count(prompts[-1])} tokens: {ends}.",
        caption="What a prompt seen before finds again. Dotted: this chapter's prompt. Derived from the hit law.",
    )
