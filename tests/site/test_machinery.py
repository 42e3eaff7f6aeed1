"""The parts of the book's extension that pages are built with: the ledger, and the last touches to a body."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import shlex
import sys
import zipfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from built import parsed
from pygments import highlight
from pygments.lexers import get_lexer_by_name

from calc.published import field_cases, rows
from calc.sources import data_path
from calc.symbols import SYMBOLS

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
from textbook import errata  # noqa: E402
from textbook.body import finish  # noqa: E402
from textbook.highlight import FewMarks  # noqa: E402
from textbook.ledger import LedgerError, answer, entry, read_by, readers  # noqa: E402
from textbook.symbols import groups  # noqa: E402
from textbook.terms import linked  # noqa: E402

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
    page = parsed(site / "book" / "reference" / "evidence.html")
    shown = {row["id"]: row for row in page.select(".ledger tbody tr")}
    assert set(shown) == {row.id for row in rows()}
    tags = {"pin": "", "label": "unit", "erratum": "erratum", "copy": "same source"}
    for row in rows():
        assert shown[row.id].select_one(".row-id").text == row.id
        assert "".join(tag.text for tag in shown[row.id].select(".tag")) == tags[row.role]
        assert (f"checked {row.checked}" if row.checked else "not found again") in shown[row.id].text


def test_a_published_value_that_differs_says_why():
    for row in rows():
        shown = entry(row)
        assert shown["difference"] == "none" or row.reason or shown["allowed"], row.id


def test_an_answer_that_disagrees_stops_the_build():
    case = next(case for case in field_cases() if case.wrong is None and case.tolerance)
    assert answer(case)["allowed"].endswith(case.tolerance_reason)
    with pytest.raises(LedgerError, match=case.id):
        answer(replace(case, value=2 * case.value))


def test_every_field_case_stands_on_the_ledger_or_among_the_errata(site):
    pages = [parsed(site / "book" / "reference" / f"{name}.html") for name in ("evidence", "errata")]
    ledger, wrong = ([tag.text for tag in page.select(".row-id")] for page in pages)
    right = [case.id for case in field_cases() if case.wrong is None]
    assert sorted(ledger) == sorted([*right, *(row.id for row in rows())])
    assert set(wrong) >= {case.id for case in field_cases()} - set(right)
    for case in field_cases():
        if case.wrong is None:
            shown = pages[0].find(id=case.id).text.replace("\u00a0", " ")
            assert not case.tolerance or case.tolerance_reason in shown, case.id


def test_every_recorded_run_stands_once_on_the_ledger(site):
    page = parsed(site / "book" / "reference" / "evidence.html")
    for path in sorted(data_path().joinpath("measured").glob("*.jsonl.gz")):
        header, *lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
        fold = page.find(id=f"runs-{header['name']}")
        runs = [line for line in lines if line["kind"] == "run"]
        assert {tag["id"] for tag in fold.select("tr[id]")} == {f"{header['name']}-{run['run']}" for run in runs}
        assert len(fold.select("tr[id]")) == len(runs)
        for run in runs:
            row = page.find_all(id=f"{header['name']}-{run['run']}")
            share = f"{100 * run['foreign_share']:.2f}%"
            verdict = f"kept: {share}" if run["accepted"] else f"rejected: {share} is over"
            assert len(row) == 1 and verdict in row[0].text and run["started"][11:19] in row[0].text
            assert f"{run['setup']} · {run['name']}" in row[0].find_parent("tbody").tr.text
        said = fold.text
        assert said.count("rejected: ") == header["rejected"] and said.count("kept: ") == len(runs) - header["rejected"]
        assert header["rule"] in said and header["machine"]["kernel"] in said
        assert all(f"{name} {version}" in said for name, version in header["versions"].items())
        assert {tag.text for tag in fold.select("li code")} == set(map(shlex.join, header["commands"].values()))
    for path in data_path().joinpath("measured").glob("*.json"):
        starts = json.loads(path.read_text("utf-8"))["starts"]
        assert [tag["id"] for tag in page.find(id=f"runs-{path.stem}").select("tr[id]")] == [s["id"] for s in starts]


def test_a_chapter_reads_a_recording_that_its_code_or_a_function_it_calls_names():
    assert read_by('latency.shelf("prefix")\nread(MEASURED / "steps.jsonl.gz")') == {"prefix", "steps"}
    assert read_by("tail.cases()\nlatency.loads()") == {"tail", "arrivals"}
    assert read_by("json.loads()\nscheduling.nothing()\nkv_cache.sequence_bytes()") == set()


def test_chapters_that_read_a_recording_link_to_how_it_was_made():
    root = Path(__file__).parents[2]
    pages = [path.relative_to(root).with_suffix("").as_posix() for path in (root / "book").glob("*/*.ipynb")]
    found = readers(root, pages)
    times = {page for name, chapters in found.items() if not name.endswith("_startup") for page in chapters}
    assert times == {page for page in pages if "reference/measured.md" in (root / f"{page}.ipynb").read_text("utf-8")}


def test_every_symbol_that_a_formula_uses_stands_in_one_group(site):
    page = parsed(site / "book" / "conventions.html")
    tables = page.select("#symbols section table")
    assert len(tables) == len(groups()) >= 5
    names = [name for group in groups().values() for name in group]
    assert len(names) == len(set(names))
    meanings = [row.select_one("th").text for table in tables for row in table.select("tbody tr")]
    assert len(meanings) == len({(SYMBOLS[name].meaning, SYMBOLS[name].text, SYMBOLS[name].unit) for name in names})


def test_tables_scroll_and_empty_headers_go():
    body = finish(app(), "<table><thead><tr><th></th><th>A</th></tr></thead></table>")
    assert body == '<div class="scroll"><table><thead><tr><td></td><th>A</th></tr></thead></table></div>'


def test_columns_of_numbers_are_set_to_the_right():
    def row(tag, *cells):
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    rows = [("1", "<p>320 KiB</p>", "8"), ("2", '<i><span class="unseen">derived: </span>≈ 1,024 B</i>', "none")]
    html = f"<table><thead>{row('th', 'n', 'Bytes', 'Ranks')}</thead><tbody>{''.join(row('td', *r) for r in rows)}"
    table = BeautifulSoup(finish(app(), html + "</tbody></table>"), "html.parser")
    assert [[c.get("class") for c in r.find_all(["th", "td"])] for r in table.find_all("tr")] == [
        [None, ["number"], ["number"]]
    ] * 3
    mixed = html.replace("320 KiB", "about half") + "</tbody></table>"
    assert len(BeautifulSoup(finish(app(), mixed), "html.parser").select(".number")) == 3


def test_a_wide_table_keeps_its_headings_when_its_rows_become_blocks():
    heads, cells = "".join(f"<th>{name}</th>" for name in "ABCD"), "<th>a</th><td>b</td><td>c</td><td>d</td>"
    table = BeautifulSoup(
        finish(app(), f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"), "html.parser"
    ).table
    assert (table["class"], table["role"]) == (["blocks"], "table")
    assert [c["role"] for c in table.select("th, td")] == ["columnheader"] * 4 + ["rowheader"] + ["cell"] * 3
    assert [c.get("data-label") for c in table.select("tbody th, tbody td")] == ["A", "B", "C", "D"]


def test_a_number_and_its_unit_stay_on_one_line():
    assert finish(app(), "<p>320 KiB of 8 GB/s in <b>2 tokens</b>, 3 cats</p>") == (
        "<p>320\u00a0KiB of 8\u00a0GB/s in <b>2\u00a0tokens</b>, 3 cats</p>"
    )
    for left_alone in ("<pre>320 KiB</pre>", "<code>8 GB</code>", '<a title="8 GB">x</a>'):
        assert finish(app(), left_alone) == left_alone


def test_closed_cells_are_named_apart():
    closed = '<details class="admonition hide above-input">\n<summary aria-label="T">\n<p>source</p><p>b</p></summary>'
    heading = '<h3>Step 1 · <em>One</em><a class="headerlink" href="#x">#</a></h3>'
    labels = [s["aria-label"] for s in BeautifulSoup(finish(app(), heading + 2 * closed), "html.parser")("summary")]
    assert labels == ["Show the code: Step 1 · One", "Show the code: Step 1 · One (2)"]


def test_a_closed_cell_names_what_it_hides():
    closed = '<details class="admonition hide above-input">\n<summary aria-label="T">\n<p>{}</p><p>b</p></summary>'
    for prompt, summary in (("source", "Show the code"), ("content", "Show the working"), ("Show it", "Show it")):
        assert finish(app(), closed.format(prompt)) == f'<details class="hide"><summary>{summary}</summary>'


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("B_pos = 2 · s = 2 B", "<var>B</var><sub>pos</sub> = 2 · <var>s</var> = 2 B"),
        ("8 full layers: T = min(P, W)", "8 full layers: <var>T</var> = min(<var>P</var>, <var>W</var>)"),
        ("TTFT = t_sent / 3 s", "TTFT = <var>t</var><sub>sent</sub> / 3 s"),
        ("β = F / I = 3 TB/s", "<var>β</var> = <var>F</var> / <var>I</var> = 3 TB/s"),
        ("A latent of d_c, num_key_value_heads 8", "A latent of <var>d</var><sub>c</sub>, num_key_value_heads 8"),
    ],
)
def test_a_line_of_working_is_set_like_the_formulas(line, shown):
    panel = '<section class="panel"><div class="panel-working"><p>{}</p></div></section>'
    practice = '<div class="practice" id="x"><details class="practice-solution"><ol><li>{}</li></ol></details></div>'
    for body in (panel, practice):
        assert finish(app(), body.format(line)) == body.format(shown)
    assert "<var>" not in finish(app(), f"<p>{line}</p>")


def test_code_is_marked_where_it_has_a_color_and_nowhere_else():
    example = 'for x in f(1):  # all\n    print("a" f"{x}", x @ 2.5 is not None)\n'
    doctest = ">>> 1 / 0\nTraceback (most recent call last):\n    ...\nZeroDivisionError: division by zero\n>>> 2\n2\n"
    style = (Path(__file__).parents[2] / "book" / "_static" / "book.css").read_text("utf-8")
    for language, source in (("ipython3", example), ("pycon", doctest)):
        code = BeautifulSoup(highlight(source, get_lexer_by_name(language), FewMarks()), "html.parser").pre
        marks = {name for mark in code.find_all("span") for name in mark.get("class", ())}
        assert code.get_text() == source
        assert marks == ({"k", "m", "c", "s"} if language == "ipython3" else {"gp", "m", "go"})
        assert all(re.search(rf"\.highlight \.{name}\b|:is\([^)]*\.{name}\b", style) for name in marks)


def test_a_citation_is_a_link_with_its_author(site):
    cited = '<span class="bibtex-citation" id="i">Yu <em>et al.</em> [<a href="b">2022</a>]</span>'
    whole = '<span class="bibtex-citation" id="i"><a href="b">Yu <em>et al.</em> [2022]</a></span>'
    assert finish(app(), cited) == whole
    links = parsed(site / "book" / "memory" / "kv_cache.html", class_="bibtex-citation").select("a")
    assert links and not [link.text for link in links if link.text.isdecimal()]


def test_an_image_takes_its_room_before_it_arrives(tmp_path):
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="96" height="48"></svg>')
    image = BeautifulSoup(
        finish(app(tmp_path, {"a.svg": (set(), "b.svg")}), '<img alt="" src="../_images/b.svg" />'), "html.parser"
    ).img
    assert (image["width"], image["height"], image["alt"]) == ("96", "48", "")


def app(root=".", images=None):
    return SimpleNamespace(srcdir=root, env=SimpleNamespace(images=images or {}))


def test_the_browser_gets_the_library_without_pictures_and_recordings(site):
    """Panels and answers never read them: tests/site/render.mjs runs every panel with what the browser gets."""
    names = zipfile.ZipFile(site / "_static" / "live" / "calc.whl").namelist()
    assert {"calc/panel.py", "calc/practice/__init__.py", "calc/data/hardware.json"} <= set(names)
    assert not [name for name in names if name.startswith("calc/figures/") or name.endswith(".gz")]


TERMS = {"ttft": "term-TTFT", "TTFT": "term-TTFT", "time to first token": "term-TTFT", "stall": "term-stall"}


def test_a_term_is_linked_where_it_is_used_first():
    body = "<h2>TTFT</h2><p>Code <code>TTFT</code>, then TTFT and TTFT; stalls and a stall.</p><p>TTFT</p>"
    done = linked(body, TERMS, "glossary.html")
    assert done.count('href="glossary.html#term-TTFT"') == done.count('href="glossary.html#term-stall"') == 1
    assert '<code>TTFT</code>, then <a class="term" href="glossary.html#term-TTFT">TTFT</a> and TTFT;' in done
    assert ">stalls</a> and a stall" in done
    assert "<h2>TTFT</h2>" in done


def test_terms_are_not_linked_in_links_tables_formulas_or_inside_words():
    body = (
        '<p><a href="x">stall</a> installed stalling</p><table><tr><td><p>stall</p></td></tr></table>'
        '<figure><figcaption><p>stall</p></figcaption></figure><section class="panel"><p>stall</p></section>'
    )
    assert linked(body, TERMS, "glossary.html") == body


def test_every_chapter_links_to_the_glossary(site):
    chapters = [page for part in ("memory", "time", "service") for page in (site / "book" / part).glob("*.html")]
    assert chapters
    glossary = parsed(site / "book" / "reference" / "glossary.html")
    entries = {entry["id"] for entry in glossary.select("dt[id]")}
    for page in chapters:
        links = parsed(page, class_="term").select("a.term")
        assert links, page.name
        anchors = [link["href"].partition("#")[2] for link in links]
        assert len(anchors) == len(set(anchors))
        assert set(anchors) <= entries


def test_every_formula_on_the_sheet_names_a_step_that_exists(site):
    sheet = parsed(site / "book" / "reference" / "formulas.html")
    found = sheet.select("div.formula")
    assert len(found) > 100
    for box in found:
        for link in box.select(".formula-place a"):
            page, _, anchor = link["href"].partition("#")
            target = (site / "book" / "reference" / page).resolve()
            assert f'id="{anchor}"' in target.read_text("utf-8"), link["href"]


def test_every_erratum_names_a_test_that_exists(site):
    source = (Path(__file__).parents[1] / "test_published.py").read_text("utf-8")
    entries = [*errata.printed(), *(entry for group in errata.said().values() for entry in group)]
    assert {entry["test"].partition("[")[0] for entry in entries} == {errata.PRINTED, errata.SAID}
    assert all(f"def {name}(" in source for name in (errata.PRINTED, errata.SAID))
    page = parsed(site / "book" / "reference" / "errata.html")
    shown = page.select("table.ledger tbody tr")
    assert len(shown) == len(entries)
    assert [row.find("td", {"data-label": "Off by"}).text for row in shown] == [entry["off"] for entry in entries]
    assert errata.times(150.0, 100.0) == "1.5×" and "1×" not in {entry["off"] for entry in entries}


def test_fields_that_share_a_line_of_a_docstring_share_one_on_the_page(site):
    page = parsed(site / "book" / "reference" / "api" / "queueing.html")
    interval = page.find(id="calc.queueing.Interval").parent
    assert [" ".join(li.text.split()) for li in interval.dl.select("li")] == [
        "mean, low, high (float) – In the unit of the values.",
        "confidence (float)",
    ]


def test_every_attribute_that_a_docstring_names_is_on_its_page(site):
    checked = 0
    for path in sorted((site / "book" / "reference" / "api").glob("[!i]*.html")):
        html = path.read_text("utf-8")
        for name, found in inspect.getmembers(import_module(f"calc.{path.stem}"), inspect.isclass):
            written = (inspect.getdoc(found) or "").partition("Attributes\n----------\n")[2].partition("\n\n")[0]
            entry = html.partition(f'id="calc.{path.stem}.{name}"')[2].partition('<dt class="sig')[0]
            if not (written and entry):
                continue
            heads = [line.partition(" : ")[0] for line in written.splitlines() if not line.startswith(" ")]
            names = {head for line in heads for head in line.split(", ")}
            assert names <= set(re.findall(r"<strong>(\w+)</strong>", entry)), name
            checked += 1
    assert checked > 50
