"""The live panel of the chapter on choosing an engine."""

from __future__ import annotations

from calc.hardware import accelerator as chip_of
from calc.models import load
from calc.panel import Panel, Row
from calc.quantization import gguf_mixes, scheme
from calc.selection._filter import NOTHING, Needs, Verdict, screen
from calc.units import counted


def selection_panel(
    *,
    model: str,
    accelerator: str,
    weights: str,
    adapters: str,
    structured: str,
    speculative: str,
    parallel: str,
    api: str,
) -> Panel:
    """Panel of the chapter: which engines remain, which cell rejects each, and which cells nobody knows.

    Parameters
    ----------
    model, accelerator, weights, adapters, structured, speculative, parallel, api : str
        As in `Needs`.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If a name is unknown or the table has no such GPU.
    """
    needs = Needs(
        model=model,
        accelerator=accelerator,
        weights=weights,
        adapters=adapters,
        structured=structured,
        speculative=speculative,
        parallel=parallel,
        api=api,
    )
    verdicts = screen(needs)
    rows = tuple(Row(_short(v), _result(v), kind="published", keep=v.passes) for v in verdicts)
    passing = [_short(v) for v in verdicts if v.passes]
    unknown = [v for v in verdicts if v.result == "open"]
    remain = f"Passing: {', '.join(passing)}. " if passing else "No engine passes. "
    doubt = (
        f"{counted(len(unknown), 'more engine')} may: look up or test what is not known before counting on "
        f"{'it' if len(unknown) == 1 else 'them'}."
        if unknown
        else "Of the others each has a cell that says no."
        if len(passing) < len(verdicts)
        else "Nothing is left to look up."
    )
    reasons = tuple(f"{_short(v)} {_reason(v)}" for v in verdicts if not v.passes)
    reported = [v for v in verdicts if v.passes and v.reported]
    bugs = tuple(f"{_short(v)} passes, with open bugs beside {_bugs(v)}" for v in reported)
    if reported:
        each = "each" if len(reported) == len(passing) else len(reported)
        them = "it" if len(passing) == 1 else f"{each} of them"
        remain += f"An open bug stands beside {them}: try that pair first. "
    return Panel(rows, (_asked(needs), *reasons, *bugs), remain + doubt, _LEFT_OUT)


def _short(verdict: Verdict) -> str:
    return verdict.name.partition(",")[0]


def _result(verdict: Verdict) -> str:
    if verdict.passes:
        return "passes"
    return f"{len(verdict.rejecting)} no" if verdict.rejecting else f"{len(verdict.open)} unknown"


def _reason(verdict: Verdict) -> str:
    cells = verdict.rejecting or verdict.open
    word = "says no to" if verdict.rejecting else "doesn't say:"
    return f"{word} " + "; ".join(f"{c.question} ({c.version})" for c in cells)


def _bugs(verdict: Verdict) -> str:
    return "; ".join(f"{c.question} ({', '.join(bug.thread for bug in c.bugs)})" for c in verdict.reported)


def _asked(needs: Needs) -> str:
    stored = needs.weights if needs.weights in gguf_mixes() else scheme(needs.weights).name
    parts = [f"{load(needs.model).name}, weights as {stored}, on {chip_of(needs.accelerator).name}"]
    parts += [
        f"{label} {value}"
        for label, value in (
            ("LoRA", needs.adapters),
            ("structured output", needs.structured),
            ("speculation", needs.speculative),
            ("parallel", needs.parallel),
            ("API", needs.api),
        )
        if value != NOTHING
    ]
    return "Asked for: " + "; ".join(parts)


_LEFT_OUT = (
    "Whether the model fits, whether a draft for it exists, whether it is fast, whether the answers are right, and "
    "whether three features work together. A version later or earlier may differ in any cell. A license of the weights "
    "is another matter than that of the engine."
)
