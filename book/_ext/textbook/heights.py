"""How tall each part of a page will be, guessed for the browser that has not laid it out yet.

What is far from the window is laid out when it comes near (book.css), so the browser knows its height only then. A
guess near the truth keeps the scroll bar honest; one a little above it lets no part lie over the next one's buttons.
"""

from __future__ import annotations

import re

EDGE = re.compile(r"(<section\b[^>]*>|</section>)")
SPOKEN = re.compile(r'<span class="katex-mathml">.*?</math></span>', re.DOTALL)
FOLD = re.compile(
    r"<details\b(?![^>]* open)[^>]*>\s*(<summary\b.*?</summary>)?(?:(?!<details\b).)*?</details>", re.DOTALL
)
CODE = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")

# rem that each takes on a phone, fitted to the chapters as Chromium lays them out at 360 px, and a third more
HEADING, LETTER, LETTER_OF_TABLE, LINE_OF_CODE = 4.2, 0.058, 0.045, 2.4
ELEMENTS = {
    r"<t[dh]\b": 1.9,
    r"<li\b": 4.2,
    r'class="math\b|katex-display': 2.4,
    r"<(?:img|svg)\b": 19,
    r"data-problem": 10.6,
    r"<(?:input|select)\b": 2.4,
}


def guess(html: str) -> float:
    """Height of a piece of a page on a phone, in rem, its folds shut."""
    html, folds = SPOKEN.sub("", html), 1
    while folds:
        html, folds = FOLD.subn(r"\1", html)
    lines = sum(code.count("\n") for code in CODE.findall(html))
    html = CODE.sub("", html)
    in_tables = sum(len(TAG.sub("", table)) for table in TABLE.findall(html))
    text = len(" ".join(TAG.sub("", TABLE.sub("", html)).split()))
    tall = LETTER * text + LETTER_OF_TABLE * in_tables + LINE_OF_CODE * lines
    return tall + sum(rem * len(re.findall(element, html)) for element, rem in ELEMENTS.items())


def guessed(body: str) -> str:
    """The body with the guess at every part, for book.css."""
    pieces = EDGE.split(body)
    within: list[int] = []
    heights: dict[int, float] = {}
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            tall = guess(piece)
            for part in within:
                heights[part] += tall
        elif piece == "</section>":
            within.pop()
        else:
            within.append(place)
            heights[place] = HEADING
    for place, tall in heights.items():
        if 'id="' in pieces[place] and "class" not in pieces[place]:
            pieces[place] = f'{pieces[place][:-1]} style="--tall: {round(tall)}">'
    return "".join(pieces)
