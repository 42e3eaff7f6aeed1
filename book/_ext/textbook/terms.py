"""Terms of the glossary link to it where a chapter uses them first.

The link is set in the finished HTML, because a chapter's sentences come from Markdown and from computed outputs alike.
Headings, tables, formulas, code, captions and other links are left as they are.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape

from sphinx.application import Sphinx

PAGE = "book/reference/glossary"
# what is left alone, whole; then tags, to know whether we are in a paragraph
PIECES = re.compile(
    r'<section class="panel".*?</section>|<div class="practice".*?</form>|<span class="katex".*?</span></span></span>'
    r"|<(pre|code|script|style|svg|a|h[1-6]|table|figure|button|summary|form|blockquote)\b.*?</\1>"
    r"|<(?P<close>/?)(?P<tag>p|li)\b[^>]*>|<[^>]+>|[^<]+",
    re.DOTALL,
)


@cache
def pattern(term: str) -> re.Pattern[str]:
    """A term as it may stand in a sentence: abbreviations as they are, words in any case and number."""
    plain = re.escape(term).replace(r"\ ", r"[\s\u00a0]+")
    if term.isupper():
        return re.compile(rf"(?<![\w-]){plain}(?![\w-])")
    return re.compile(rf"(?<![\w-]){plain}s?(?![\w-])", re.IGNORECASE)


def known(app: Sphinx) -> dict[str, str]:
    """The glossary's terms with the anchors of their entries."""
    terms = app.env.domaindata["std"]["objects"]
    return {name: anchor for (kind, name), (page, anchor) in terms.items() if kind == "term" and page == PAGE}


def linked(body: str, terms: dict[str, str], address: str) -> str:
    """Link each term at its first use in the running text; a longer term wins over one inside it."""
    left = sorted(terms, key=len, reverse=True)
    inside = 0
    out: list[str] = []
    for piece in PIECES.finditer(body):
        text = piece[0]
        if piece["tag"]:
            inside += -1 if piece["close"] else 1
        elif inside > 0 and not text.startswith("<"):
            text, left = _first_uses(text, left, terms, address)
        out.append(text)
    return "".join(out)


def _first_uses(text: str, left: list[str], terms: dict[str, str], address: str) -> tuple[str, list[str]]:
    """One run of text with its first uses linked, and the terms that remain for later ones."""
    hits: list[tuple[int, int, str]] = []
    for term in left:
        found = pattern(term).search(text)
        if found and all(found.end() <= start or end <= found.start() for start, end, _ in hits):
            hits.append((found.start(), found.end(), term))
    for start, end, term in sorted(hits, reverse=True):
        href = escape(f"{address}#{terms[term]}")
        text = f'{text[:start]}<a class="term" href="{href}">{text[start:end]}</a>{text[end:]}'
    used = {terms[term] for _, _, term in hits}  # a synonym counts too
    return text, [term for term in left if terms[term] not in used]


def link(app: Sphinx, pagename: str, body: str) -> str:
    """The body of a chapter with its terms linked."""
    terms = known(app)
    return linked(body, terms, app.builder.get_relative_uri(pagename, PAGE)) if terms else body
