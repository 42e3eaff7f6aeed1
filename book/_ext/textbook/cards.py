"""The picture that another site shows with a link to a page: one for each problem, and one for the book."""

from __future__ import annotations

import textwrap
from html import unescape
from pathlib import Path

from markupsafe import Markup
from PIL import Image, ImageDraw, ImageFont
from sphinx.application import Sphinx

SIZE = (1200, 630)
MARGIN, LEADING, SIGN = 80, 1.25, 44
PAPER, INK, SOFT, ACCENT = "#fefdfb", "#1c1d1f", "#5b5d62", "#1f4e8c"  # as in book.css
FONTS = "_build/static/fonts"
SERIF, BOLD, SANS = "serif-400", "serif-600", "sans-600"
COLORS = 32  # of the written file: flat paper, ink, and the shades between


def draw(app: Sphinx, pagename: str, context: dict) -> tuple[str, str]:
    """Draw the card of a page; its address, whole if the site's is known, and what it shows in words."""
    problem, book = context["problem"], context["docstitle"]
    plain = unescape(Markup(context.get("title", book)).striptags())
    title, place = (plain, f"{context['part']} · Problem {problem}") if problem else (book, "")
    about = context["description"] if problem or pagename == app.config.root_doc else ""
    name = pagename.replace("/", "-") if problem else "book"
    address = f"_static/cards/{name}.png"
    if problem or about:
        target = Path(app.outdir, address)
        target.parent.mkdir(parents=True, exist_ok=True)
        picture(Path(app.srcdir, FONTS), title, place, about, book).save(target, optimize=True)
    base = app.config.html_baseurl
    whole = f"{base}{address}" if base else context["pathto"](address, resource=True)
    return whole, f"{place}: {title}" if place else book


def picture(fonts: Path, title: str, place: str, about: str, book: str) -> Image.Image:
    """Place, title and description on paper, with the book's sign and name at the foot."""
    card = Image.new("RGB", SIZE, PAPER)
    pen = ImageDraw.Draw(card)
    y = MARGIN - 10

    def write(text: str, name: str, size: int, color: str) -> None:
        nonlocal y
        font = ImageFont.truetype(fonts / f"{name}.woff2", size)
        across = int((SIZE[0] - 2 * MARGIN) / (font.getlength(text) / len(text)))  # characters on a line
        lines = int((SIZE[1] - MARGIN - 1.5 * SIGN - y) / (size * LEADING))  # that fit above the foot
        for line in textwrap.wrap(text, across, max_lines=lines, placeholder=" …"):
            pen.text((MARGIN, y), line, color, font)
            y += round(size * LEADING)

    if place:
        write(place, SANS, 30, SOFT)
        y += 14
    write(title, BOLD, 66, INK)
    y += 22
    if about:
        write(about, SERIF, 34, SOFT)
    foot = SIZE[1] - MARGIN
    pen.rounded_rectangle((MARGIN, foot - SIGN, MARGIN + SIGN, foot), 7, ACCENT)
    for bar in (foot - 28, foot - 16):
        pen.line((MARGIN + 11, bar, MARGIN + 33, bar), "white", 5)
    pen.text((MARGIN + 62, foot - 22), book, INK, ImageFont.truetype(fonts / f"{SANS}.woff2", 30), anchor="lm")
    return card.quantize(COLORS)
