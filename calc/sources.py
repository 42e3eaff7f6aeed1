"""Where a number comes from: its kind, its citation, its date; and where the data files are."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calc.units import CalcError

KINDS = {
    "derived": "computed here from other numbers",
    "published": "printed by somebody else, with source and date",
    "measured": "recorded in a run, with machine, versions and command",
    "assumed": "chosen for the problem; change it",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit and its origin.

    Attributes
    ----------
    value : float
        In `unit`.
    unit : str
        A symbol of `calc.units.UNITS`.
    kind : str
        A key of `KINDS`.
    source, url, checked : str
        Who printed or recorded it, where, and the date it was looked up (ISO, empty if it could not be).
    note : str
        What a reader must know to use it: what was left out, how it was halved, who disagrees.
    """

    value: float
    unit: str
    kind: str
    source: str = ""
    url: str = ""
    checked: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CalcError(f"kind is {self.kind!r}, wanted one of {', '.join(KINDS)}")
        if self.kind == "published" and not self.source:
            raise CalcError("a published number needs a source")


@functools.cache
def data_path() -> Path:
    """Directory of the data files: ``calc/data`` in an installed wheel, ``data`` beside ``calc`` in a checkout."""
    package = Path(__file__).parent
    for place in (package / "data", package.parent / "data"):
        if place.is_dir():
            return place
    raise CalcError(f"no data directory beside {package.name}: reinstall the package")


@functools.cache
def load_json(*parts: str) -> Any:
    """Read one data file once. Callers must not change what they get.

    Parameters
    ----------
    *parts : str
        Path below the data directory, for example ``"models", "llama-3.1-70b.json"``.
    """
    return json.loads(data_path().joinpath(*parts).read_text(encoding="utf-8"))
