"""The last touches to the body of a page: tables, closed cells, lines of working, spaces, images.

They work on the HTML that Sphinx and the notebooks wrote, because it comes from too many places to be written so.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape, unescape
from pathlib import Path

import imagesize
from sphinx.application import Sphinx

from calc.sources import KINDS
from calc.units import UNITS

TAG = re.compile(r"<[^>]+>")
UNSEEN = re.compile(r'<span class="unseen">.*?</span>')

# the kind of a number, for those who listen: a notebook shows it with a colon, on a page it runs on with the sentence
KIND = re.compile(rf'(<span class="unseen">(?:{"|".join(KINDS)})): (?=</span>)')

# a citation in a sentence, of which Sphinx links the year alone
CITATION = re.compile(r'(<span class="bibtex-citation"[^>]*>)([^\[]+\[)(<a\b[^>]*>)(.*?)</a>\]</span>', re.DOTALL)

# a heading, or what myst-nb puts around a cell tagged hide-input or hide-cell: a callout whose spoken label is not its
# text
CLOSED = re.compile(
    r"<h[1-4]\b[^>]*>(?P<title>.*?)</h[1-4]>"
    r'|<details class="admonition hide[^"]*">\s*<summary.*?<p[^>]*>(?P<prompt>.*?)</p>.*?</summary>',
    re.DOTALL,
)
BESIDE_TITLE = re.compile(r'<(a|span) class="(?:headerlink|practice-level)".*?</\1>')
# what an unnamed closed cell hides; a cell may name it itself (code_prompt_show)
PROMPTS = {"content": "Show the working", "source": "Show the code"}

# a line of working, set as the formulas of the text are (and so does book/live/elements.js)
WORKING = re.compile(r'<div class="panel-working".*?</div>|<details class="practice-solution">.*?</details>', re.DOTALL)
LINE = re.compile(r"(?<=<p>)[^<]+|(?<=<li>)[^<]+")
FORMULA = re.compile(r"(?:^|(?<=: ))(?=[^\W\d_]\w* [=≈] )")
SUBSCRIPTED = re.compile(r"(?<!\w)([^\W\d_])_([A-Za-z0-9]+)(?!\w)")
SYMBOL = re.compile(r"(?<![\w/])(?<!\d )([^\W\d_])(?:_([A-Za-z0-9]+))?(?!\w)")

# a number and its unit stay on one line; what scripts compare or readers copy is left alone
_UNITS = "|".join(sorted(map(re.escape, filter(None, UNITS)), key=len, reverse=True))
GAP = re.compile(
    r'<section class="panel".*?</section>|<div class="practice" .*?</div>'
    r"|<(pre|code|script|style|svg)\b.*?</\1>|<[^>]+>"
    rf"|(?<=\d) (?=(?:{_UNITS}|thousand|million|billion|trillion)(?![\w/]))",
    re.DOTALL,
)

# a table, and what may name it: a heading, or the summary of a fold
TABLE = re.compile(
    r"<(?P<over>h[1-4])\b[^>]*>(?P<title>.*?)</(?P=over)>"
    r'|<details(?: id="[^"]*")?><summary>(?P<fold>.*?)</summary>|<table\b.*?</table>',
    re.DOTALL,
)
ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
CELL = re.compile(r"<(t[hd])\b([^>]*)>(.*?)</\1>", re.DOTALL)
FIRST = re.compile(r"(<tr\b[^>]*>\s*)<td\b([^>]*>.*?)</td>", re.DOTALL)
NUMBER = re.compile(r"[≈~]?\s?[+−-]?\d[\d,.]*(?:\s?[%×]|(?:\s[^\W\d_][\w/]*){0,2})?")
NOTHING = {"", "–", "—", "none", "exact"}
WIDE = 3  # columns: a table of more is set as blocks on a phone


def finish(app: Sphinx, body: str) -> str:
    """All of the touches, one after the other."""
    body = re.sub(r"<th\b[^>]*>(<p></p>)?</th>", "<td></td>", body)  # an empty header heads nothing
    body = body.replace('role="doc-biblioentry"', 'role="listitem"')
    # a heading is found in the contents: the link that marks its address is for the mouse
    body = re.sub(
        r'(?<=<a class="headerlink")(?=[^>]* title="Link to this heading")', ' tabindex="-1" aria-hidden="true"', body
    )
    body = re.sub(r"(?<=[)>]) -- ", " – ", body)  # after an argument's type
    body = KIND.sub(r"\1 ", body)
    body = CITATION.sub(r"\1\3\2\4]</a></span>", body)
    body = tables(body)
    body = WORKING.sub(lambda match: LINE.sub(lambda line: working(line[0]), match[0]), body)
    body = GAP.sub(lambda match: "\u00a0" if match[0] == " " else match[0], body)
    return sized(app, closed_cells(body))


def text(html: str) -> str:
    """What a reader sees of a piece of HTML, in one line."""
    return " ".join(unescape(TAG.sub("", UNSEEN.sub("", html))).split())


def tables(body: str) -> str:
    """Let tables scroll; one without a caption is named by what it stands under."""
    place, seen = "", Counter()

    def touch(match: re.Match) -> str:
        nonlocal place
        if title := match["title"] or match["fold"]:
            place = text(BESIDE_TITLE.sub("", title))
            return match[0]
        html = table(match[0])
        if place and "<caption" not in html:
            seen[place] += 1
            number = f" ({seen[place]})" if seen[place] > 1 else ""
            html = html.replace("<table", f'<table aria-label="{escape(place + number)}"', 1)
        return f'<div class="scroll">{html}</div>'

    return TABLE.sub(touch, body)


def table(html: str) -> str:
    """Head each row by its first cell and set columns of numbers to the right.

    Each cell of a wide table is named by its column, as a phone shows the row as a block.
    """
    rows = [CELL.findall(row) for row in ROW.findall(html)]
    heads = [text(cell[2]) for cell in rows[0]] if rows and "<thead" in html else []
    if not heads or any(len(row) != len(heads) for row in rows) or "colspan" in html:
        return FIRST.sub(lambda m: f'{m[1]}<th scope="row"{m[2]}</th>' if text(m[0]) else m[0], html)
    numbers = [i > 0 and numeric([text(row[i][2]) for row in rows[1:]]) for i in range(len(heads))]
    wide = len(heads) > WIDE
    head = iter([True])

    def row(match: re.Match) -> str:
        in_head, place = next(head, False), iter(range(len(heads)))

        def cell(match: re.Match) -> str:
            i, (tag, given, content) = next(place), match.groups()
            named = i == 0 and not in_head and tag == "td" and bool(text(content))
            if named:
                tag, given = "th", f'{given} scope="row"'
            if numbers[i]:
                given = with_class(given, "number")
            if wide:
                role = "columnheader" if in_head else "rowheader" if tag == "th" else "cell"
                given += f' role="{role}"'
                if role != "columnheader" and heads[i]:
                    given += f' data-label="{escape(heads[i])}"'
            return f"<{tag}{given}>{content}</{tag}>"

        whole = CELL.sub(cell, match[0])
        return whole.replace("<tr", '<tr role="row"', 1) if wide else whole

    html = ROW.sub(row, html)
    if not wide:
        return html
    html = re.sub(r"<(thead|tbody)\b", r'<\1 role="rowgroup"', html)  # blocks are no table to a screen reader
    return re.sub(r"<table\b([^>]*)>", lambda m: f'<table{with_class(m[1], "blocks")} role="table">', html)


def numeric(column: list[str]) -> bool:
    """Whether the cells of a column are numbers with at most a unit, or say that there is none."""
    numbers = [cell for cell in column if cell not in NOTHING]
    return bool(numbers) and all(map(NUMBER.fullmatch, numbers))


def with_class(attributes: str, name: str) -> str:
    """The attributes of a tag with one more class."""
    given = re.sub(r'(\sclass="[^"]*)"', rf'\1 {name}"', attributes)
    return given if given != attributes else f'{attributes} class="{name}"'


def working(line: str) -> str:
    """Set the symbols in a line of working: italic, with their subscript; units and numbers stay upright."""
    start = FORMULA.search(line)
    end = start.start() if start else len(line)
    return SUBSCRIPTED.sub(_symbol, line[:end]) + SYMBOL.sub(_symbol, line[end:])


def _symbol(match: re.Match) -> str:
    return f"<var>{match[1]}</var>" + (f"<sub>{match[2]}</sub>" if match[2] else "")


def closed_cells(body: str) -> str:
    """Give a closed cell a summary, and a name of its own: what it hides and where it stands."""
    place, seen = "", Counter()

    def touch(match: re.Match) -> str:
        nonlocal place
        if match["prompt"] is None:
            place = text(BESIDE_TITLE.sub("", match["title"]))
            return match[0]
        prompt = PROMPTS.get(match["prompt"], match["prompt"])
        seen[prompt, place] += 1
        number = f" ({seen[prompt, place]})" if seen[prompt, place] > 1 else ""
        label = f' aria-label="{escape(f"{text(prompt)}: {place}{number}")}"' if place else ""
        return f'<details class="hide"><summary{label}>{prompt}</summary>'

    return CLOSED.sub(touch, body)


def sized(app: Sphinx, body: str) -> str:
    """Give images their size, so that nothing moves when they arrive."""
    sources = {name: path for path, (_, name) in app.env.images.items()}

    def size(match: re.Match) -> str:
        source = sources.get(match["name"])
        if source is None or " width=" in match[0]:
            return match[0]
        width, height = imagesize.get(Path(app.srcdir, source))
        return f'{match["tag"]} width="{round(width)}" height="{round(height)}" loading="lazy" '

    return re.sub(r'(?P<tag><img\b[^>]*?\bsrc="[^"]*?_images/(?P<name>[^"/]+)")\s*', size, body)
