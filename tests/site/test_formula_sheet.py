"""The formula sheet has every formula that stands on a page of the book."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import notebooks
import pytest
from built import parsed
from sphinx.errors import ExtensionError

from calc import kv_cache
from calc.symbols import SYMBOLS
from calc.working import working

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
from textbook import formulas  # noqa: E402
from textbook.symbols import groups  # noqa: E402


def chapter(folder, shown, *, source="formula, numbers = chosen()\nshow(formula, **numbers)"):
    """A chapter with one step that shows a working, or any other output."""
    cells = [
        {"cell_type": "markdown", "source": ["### Step 1 · One"]},
        {"cell_type": "code", "source": [source], "outputs": [{"data": shown._repr_mimebundle_()}, {"text": "2"}]},
    ]
    (folder / "a.ipynb").write_text(json.dumps({"cells": cells}))
    return formulas.places(folder, ["a", "no/such/page"])


def test_a_formula_shown_by_a_chapter_is_found_whatever_the_cell_calls_it(tmp_path):
    shown = working(kv_cache.sequence_bytes, bytes_per_position=327680, positions=3)
    assert chapter(tmp_path, shown) == {("kv_cache", "sequence_bytes"): [("a", "Step 1 · One")]}


def test_a_formula_is_found_by_its_shape_where_another_symbol_stands_in_it(tmp_path):
    names = {"kv_heads": "kv_heads_per_rank"}
    shown = working(kv_cache.bytes_per_position, names=names, layers=80, kv_heads=1, head_dim=128, element_bytes=2)
    assert list(chapter(tmp_path, shown)) == [("kv_cache", "bytes_per_position")]


def test_a_formula_is_found_by_its_shape_where_its_result_is_of_another_symbol_too(tmp_path):
    shown = working(
        kv_cache.bytes_per_position, names=kv_cache.ON_RANK, layers=80, kv_heads=1, head_dim=128, element_bytes=2
    )
    assert list(chapter(tmp_path, shown)) == [("kv_cache", "bytes_per_position")]


@pytest.mark.parametrize("page", ["drill", "reference/formulas", "reference/evidence"])
def test_a_page_made_from_chapters_is_built_anew_with_them(site, page):
    env = pickle.loads((site.parent / ".doctrees" / "environment.pickle").read_bytes())
    assert any(str(path).endswith("kv_cache.ipynb") for path in env.dependencies[f"book/{page}"])


def test_a_working_of_no_formula_stops_the_build(tmp_path):
    class Other:
        def _repr_mimebundle_(self):
            return {"text/latex": "$$\n\\begin{aligned}\nx &= 3\n\\end{aligned}\n$$"}

    with pytest.raises(ExtensionError, match="a, Step 1 · One"):
        chapter(tmp_path, Other())


def test_every_formula_in_the_output_of_a_chapter_stands_on_the_sheet(site):
    sheet = parsed(site / "book" / "reference" / "formulas.html")
    boxes = {box["id"]: box for box in sheet.select("[id^=formula-]")}
    derived = set()  # the page of a step, and the result that the sheet says it derives
    for module, own in formulas.formulas().items():
        for name in own:
            box = boxes.get(f"formula-{module}-{name}".replace("_", "-"))
            for link in box.select(".formula-place a") if box else ():
                page = link["href"].partition("#")[0].removeprefix("../").removesuffix(".html")
                for own_name in {name, kv_cache.ON_RANK.get(name, name)}:
                    derived.add((page, SYMBOLS[own_name].text))
    for path in notebooks.chapters():
        outputs = [output.get("data", {}) for cell in notebooks.read(path).cells for output in cell.get("outputs", ())]
        for data in outputs:
            if "text/latex" in data:
                last = data["text/plain"].splitlines()[-1]
                assert (notebooks.name(path), last.partition(" = ")[0]) in derived, last


@pytest.mark.parametrize("group", ["shared", "kv_cache", "roofline"])
def test_a_symbol_stands_for_one_thing_where_formulas_meet(group):
    """Formulas of these modules stand in one chapter; two kinds of intensity are told apart by their formulas."""
    names = [SYMBOLS[name] for name in groups()[group]]
    meanings = {(symbol.text, symbol.meaning) for symbol in names if symbol.text not in {"I", "B_pos"}}
    texts = [text for text, _ in meanings]
    assert sorted(texts) == sorted(set(texts))
