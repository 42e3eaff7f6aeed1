"""The book's fonts, cut to the signs that it shows: a page waits for 50 KB less.

A sign that a reader typed, or that the whole font lacks, comes from the reader's own fonts.
"""

from __future__ import annotations

from pathlib import Path

from fontTools import subset

SERIF = "node_modules/@fontsource/source-serif-4/files/source-serif-4-latin-"
SANS = "node_modules/@fontsource/source-sans-3/files/source-sans-3-latin-"
KATEX = "node_modules/katex/dist/fonts/KaTeX_"

KEYS = "".join(map(chr, range(0x20, 0x7F))) + "\xa0\u200b"  # KaTeX stacks parts with a space without width
TEXT = KEYS + "\u2009±²³µ¶·¹½Í×éñó÷–—’“”…−"
MAIN = KEYS + "·×Δ…→−≈≤≥⋅⌈⌉⌊⌋"
ITALIC = KEYS + "Δαβγδεηθλρστ"

# file in the site's _static ← the whole font, and what is kept of it
CUT = {
    "fonts/serif-400.woff2": (f"{SERIF}400-normal.woff2", TEXT),
    "fonts/serif-400-italic.woff2": (f"{SERIF}400-italic.woff2", TEXT),
    "fonts/serif-600.woff2": (f"{SERIF}600-normal.woff2", TEXT),
    "fonts/sans-400.woff2": (f"{SANS}400-normal.woff2", TEXT),
    "fonts/sans-600.woff2": (f"{SANS}600-normal.woff2", TEXT),
    "katex/fonts/KaTeX_Main-Regular.woff2": (f"{KATEX}Main-Regular.woff2", MAIN),
    "katex/fonts/KaTeX_Math-Italic.woff2": (f"{KATEX}Math-Italic.woff2", ITALIC),
}


def stage(root: Path, static: Path) -> None:
    """Write the cut fonts. Their copyright and license stay in them; their names don't, for one is reserved."""
    options = subset.Options(flavor="woff2", layout_features=["*"], name_IDs=[0, 13, 14])
    for target, (source, signs) in CUT.items():
        font = subset.load_font(root / source, options)
        cutter = subset.Subsetter(options)
        cutter.populate(text=signs)
        cutter.subset(font)
        subset.save_font(font, static / target, options)
