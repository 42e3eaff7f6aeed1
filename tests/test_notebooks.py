"""The chapters' normal form. That their outputs are what their code gives is proved by nbval, which runs them."""

from __future__ import annotations

import nbformat
import notebooks
import pytest

V4 = nbformat.v4


def messy():
    """A notebook as an editor leaves it."""
    code = V4.new_code_cell("print(1)\n\n", execution_count=7, metadata={"tags": ["parameters"], "collapsed": True})
    code.outputs = [
        V4.new_output("stream", name="stdout", text="1\n"),
        V4.new_output("stream", name="stdout", text="2\n"),
        V4.new_output("execute_result", {"text/plain": "3"}, execution_count=7),
    ]
    cells = [V4.new_markdown_cell("# One\r\ntwo"), code, V4.new_code_cell("1"), V4.new_code_cell("1")]
    cells[0]["id"] = "the-question"
    metadata = {
        "kernelspec": {"name": "mine", "display_name": "Mine"},
        "language_info": {"name": "python", "version": "3.11.7"},
        "authors": [],
    }
    return V4.new_notebook(cells=cells, metadata=metadata)


def test_normal_form():
    notebook = notebooks.normalize(messy())
    first, code, *twins = notebook.cells
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert (first.id, first.source) == ("the-question", "# One\ntwo")
    assert (code.source, code.execution_count, code.metadata) == ("print(1)", None, {"tags": ["parameters"]})
    assert [output.get("text") for output in code.outputs] == ["1\n2\n", None]
    assert code.outputs[1].execution_count is None
    assert len({cell.id for cell in notebook.cells}) == 4
    nbformat.validate(notebook)


def test_normal_form_is_reached_in_one_step_and_from_any_random_ids():
    once = notebooks.text(notebooks.normalize(messy()))
    assert notebooks.text(notebooks.normalize(nbformat.reads(once, as_version=4))) == once
    assert notebooks.text(notebooks.normalize(messy())) == once  # the editor drew other ids


def test_an_id_stays_when_its_cell_is_edited():
    notebook = notebooks.normalize(messy())
    before = [cell.id for cell in notebook.cells]
    notebook.cells[1].source = "print(2)"
    assert [cell.id for cell in notebooks.normalize(notebook).cells] == before


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (V4.new_output("error", ename="ValueError", evalue="no", traceback=[]), "ValueError: no"),
        (V4.new_output("stream", name="stderr", text="soon gone"), "writes to stderr: soon gone"),
        (V4.new_output("display_data", {"image/svg+xml": "<dc:date>2026</dc:date>"}), "a date in a figure"),
        (V4.new_output("execute_result", {"text/plain": "<Line2D at 0x7fb8b5bfdbd0>"}), "a memory address"),
        (V4.new_output("stream", name="stdout", text="read /" + "home/me/x.json"), "a path of this machine"),
    ],
)
def test_outputs_that_cannot_be_reproduced_are_faults(output, fault):
    cell = V4.new_code_cell("1", outputs=[output])
    assert notebooks.faults(V4.new_notebook(cells=[cell])) == [f"{cell.id}: {fault}"]


def test_executing_writes_the_normal_form_and_skips_what_is_unchanged(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "BOOK", tmp_path)
    monkeypatch.setattr(notebooks, "STATE", tmp_path / "_state")
    path = tmp_path / "one.ipynb"
    nbformat.write(V4.new_notebook(cells=[V4.new_code_cell("print(6 * 7)")]), path)
    assert notebooks.check([path]) == 1
    assert notebooks.run([path], every=False) == 0
    assert notebooks.read(path).cells[0].outputs[0].text == "42\n"
    assert notebooks.check([path]) == 0
    written = path.read_bytes()
    assert notebooks.run([path], every=False) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["one", "unchanged"]
    assert path.read_bytes() == written
    path.write_text(path.read_text().replace("42", "43"))  # a number typed by hand does not survive
    assert notebooks.run([path], every=False) == 0
    assert path.read_bytes() == written


def test_a_failing_chapter_is_reported_and_left_as_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "BOOK", tmp_path)
    monkeypatch.setattr(notebooks, "STATE", tmp_path / "_state")
    path = tmp_path / "one.ipynb"
    nbformat.write(V4.new_notebook(cells=[V4.new_code_cell("1 / 0")]), path)
    written = path.read_bytes()
    assert notebooks.run([path], every=False) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert path.read_bytes() == written


@pytest.mark.parametrize("path", notebooks.chapters(), ids=notebooks.name)
def test_every_chapter_is_in_normal_form(path):
    assert notebooks.check([path]) == 0
