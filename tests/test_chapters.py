"""The harness itself: what it keeps of a chapter, what it refuses, and that it sees slips."""

from __future__ import annotations

import chapters
import nbformat
import pytest

from calc.units import CalcError

V4 = nbformat.v4


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """Write a chapter from its code cells, the first one being its parameters, and give its name."""

    def write(*sources: str) -> str:
        code = [V4.new_code_cell(source) for source in sources]
        code[0].metadata["tags"] = ["parameters"]
        (tmp_path / "part").mkdir()
        nbformat.write(V4.new_notebook(cells=[V4.new_markdown_cell("# One"), *code]), tmp_path / "part" / "one.ipynb")
        return "part/one"

    monkeypatch.setattr(chapters, "BOOK", tmp_path)
    chapters.load.cache_clear()
    chapters.cells.cache_clear()
    yield write
    chapters.load.cache_clear()
    chapters.cells.cache_clear()


def test_outputs_are_what_jupyter_would_show(chapter):
    name = chapter(
        "batch = 1",
        "from IPython.display import Markdown, display\ndisplay(Markdown(f'**{batch}** rows'))\n"
        "print('printed')\nbatch + 1",
        "batch = batch + 1",
    )
    result = chapters.run(name)
    assert chapters.chapter_names() == [name]
    assert [output["text/plain"] for output in result.outputs][1:] == ["printed\n", "2"]
    assert result.outputs[0]["text/markdown"] == "**1** rows"
    assert result.prose == "**1** rows\n\nprinted\n\n\n2"


def test_parameters_are_replaced_after_their_cell(chapter):
    name = chapter("batch = 1\nlength = 10", "batch * length")
    assert chapters.parameter_names(name) == {"batch", "length"}
    assert chapters.run(name, batch=7).prose == "70"
    assert chapters.run(name).prose == "10"


def test_an_unknown_parameter_is_an_error(chapter):
    with pytest.raises(AssertionError, match="has no parameter breadth"):
        chapters.run(chapter("batch = 1"), breadth=1)


def test_a_refusal_ends_the_run_and_is_kept(chapter):
    refusing = "from calc.units import CalcError\nif batch > 1: raise CalcError('no room')"
    name = chapter("batch = 1", "print(batch)", refusing, "3")
    assert chapters.run(name).refusal is None
    refused = chapters.run(name, batch=2)
    assert (str(refused.refusal), refused.prose) == ("no room", "2\n")
    assert isinstance(refused.refusal, CalcError)


def test_any_other_error_is_a_failure(chapter):
    name = chapter("batch = 1", "1 / batch")
    with pytest.raises(ZeroDivisionError):
        chapters.run(name, batch=0)


def test_a_warning_is_a_failure(chapter):
    name = chapter("batch = 1", "import warnings; warnings.warn('soon gone')")
    with pytest.raises(UserWarning, match="soon gone"):
        chapters.run(name)


def test_a_magic_is_refused_by_name(chapter):
    with pytest.raises(AssertionError, match="not plain Python, line 1: %matplotlib"):
        chapters.run(chapter("batch = 1", "%matplotlib inline"))


@pytest.mark.parametrize(
    "text",
    [
        "a factor of nan",
        "takes inf s",
        "uses None of it",
        "holds {batch} rows",
        "<calc.x.Y object at 0x7f00>",
        "ValueError: no",
        "after 1 tokens",
    ],
)
def test_slips_are_found(text):
    assert chapters.slips(chapters.Run("part/one", outputs=[{"text/markdown": text}]))


@pytest.mark.parametrize(
    "text",
    [
        "$n_{kv} = 8$ and {eq}`kv-bytes`, `f\"{x}\"`, [text]{.kind}",
        "```{admonition} Keep this\n:class: tip\n320 KiB\n```",
        '<span style="display:none" data-args=\'{"a": 1}\'>320 KiB</span><style>p {color: red}</style>',
        "81 tokens, 1,001 tokens, 2.1 tokens and 1 token",
        "information about infinite nano-things, none of it wrong",
    ],
)
def test_what_is_right_is_let_through(text):
    assert chapters.slips(chapters.Run("part/one", outputs=[{"text/markdown": text}])) == []
