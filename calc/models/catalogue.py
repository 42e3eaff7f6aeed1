"""The models the book knows by name: one file of facts each, in ``data/models``."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from functools import cache

from calc.models.fields import shown
from calc.models.geometry import ModelGeometry
from calc.sources import data_path, load_json
from calc.units import CalcError


@cache
def catalogue(*, every: bool = False) -> tuple[str, ...]:
    """Short names of models.

    Parameters
    ----------
    every : bool
        All that `load` takes and the worksheet sizes. If not, the models that every chapter works with: each layer
        attends in full, within a window or through a latent, and what engines do with the family is on record
        (`calc.selection`). A file says ``"chapters": false`` where that isn't so.

    Returns
    -------
    tuple of str
        Sorted.

    Examples
    --------
    >>> "llama-3.1-70b" in catalogue()
    True
    >>> "qwen3.5-27b" in catalogue(), "qwen3.5-27b" in catalogue(every=True)
    (False, True)
    """
    slugs = sorted(file.stem for file in data_path().joinpath("models").glob("*.json"))
    return tuple(slug for slug in slugs if every or load_json("models", f"{slug}.json").get("chapters", True))


def load(slug: str) -> ModelGeometry:
    """A model of the catalogue.

    Parameters
    ----------
    slug : str
        A name from ``catalogue(every=True)``.

    Returns
    -------
    ModelGeometry
        With the citation in ``source``.

    Raises
    ------
    CalcError
        If there is no such model; the message lists names that come close.

    Examples
    --------
    >>> len(load("llama-3.1-70b").layers)
    80
    >>> load("lama-3.1-8b")
    Traceback (most recent call last):
        ...
    calc.units.CalcError: no model 'lama-3.1-8b'; did you mean llama-3.1-8b, llama-3.1-70b or llama-3.1-405b?
    """
    known = catalogue(every=True)
    if not isinstance(slug, str) or slug not in known:
        close = get_close_matches(str(slug)[:80].lower(), known, n=3)
        hint = f"did you mean {_either(close)}?" if close else f"the catalogue has {', '.join(known)}"
        raise CalcError(f"no model {shown(slug)}; {hint}")
    return _load(slug)


@cache
def _load(slug: str) -> ModelGeometry:
    facts = load_json("models", f"{slug}.json")
    source = f"{facts['source']}, checked {facts['checked']}"
    return replace(ModelGeometry.from_config(facts["config"], name=facts["name"]), source=source)


def _either(names: list[str]) -> str:
    return " or ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
