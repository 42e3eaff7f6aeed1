"""The parts of the book's extension that pages are built with: the ledger, and the last touches to a body."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup

from calc.published import rows

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
from textbook.ledger import LedgerError, entry  # noqa: E402
from textbook.pages import finish  # noqa: E402

ONE = next(row for row in rows() if row.role == "pin" and row.tolerance == 0)


def test_a_value_that_disagrees_stops_the_build():
    assert entry(ONE)["difference"] == "none"
    with pytest.raises(LedgerError, match=ONE.id):
        entry(replace(ONE, printed=ONE.printed * 1.001))


def test_an_erratum_must_agree_with_its_right_value():
    row = next(row for row in rows() if row.role == "erratum")
    assert entry(row)["difference"] != "none"
    with pytest.raises(LedgerError, match=row.id):
        entry(replace(row, right=None))


def test_the_ledger_page_has_every_published_value(site):
    page = BeautifulSoup((site / "book" / "reference" / "evidence.html").read_text("utf-8"), "html.parser")
    assert {row["id"] for row in page.select(".ledger tbody tr")} == {row.id for row in rows()}


def test_tables_scroll_and_empty_headers_go():
    body = finish(app(), "<table><thead><tr><th></th><th>A</th></tr></thead></table>")
    assert body == '<div class="scroll"><table><thead><tr><td></td><th>A</th></tr></thead></table></div>'


def test_a_closed_cell_names_what_it_hides():
    closed = '<details class="admonition hide above-input">\n<summary aria-label="T">\n<p>{}</p><p>b</p></summary>'
    for prompt, summary in (("source", "Show the code"), ("content", "Show the working"), ("Show it", "Show it")):
        assert finish(app(), closed.format(prompt)) == f'<details class="hide"><summary>{summary}</summary>'


def test_symbols_in_a_line_of_working_get_their_subscript():
    line = '<div class="panel-working"><p>B_pos = 2 · n_kv of num_key_value_heads · β_both</p></div><p>d_h</p>'
    assert finish(app(), line) == (
        '<div class="panel-working"><p>B<sub>pos</sub> = 2 · n<sub>kv</sub> of num_key_value_heads · β<sub>both</sub>'
        "</p></div><p>d_h</p>"
    )


def test_an_image_takes_its_room_before_it_arrives(tmp_path):
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="96" height="48"></svg>')
    image = BeautifulSoup(
        finish(app(tmp_path, {"a.svg": (set(), "b.svg")}), '<img alt="" src="../_images/b.svg" />'), "html.parser"
    ).img
    assert (image["width"], image["height"], image["alt"]) == ("96", "48", "")


def app(root=".", images=None):
    return SimpleNamespace(srcdir=root, env=SimpleNamespace(images=images or {}))
