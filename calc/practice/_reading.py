"""Read what a reader typed into an answer box."""

from __future__ import annotations

import re
from collections.abc import Sequence

from calc.units import Amount, UnitError, parse

LONGEST = 60  # characters of an answer

_INVISIBLE = re.compile(r"[\u200b\u2060\ufeff]")  # pasted along with text from a page
_ABOUT = re.compile(r"^(?:[=≈~]|about|around|roughly|approximately|approx\b\.?|circa|ca\b\.?)\s*", re.IGNORECASE)
_POWER_OF_TEN = re.compile(r"\s*[x×*·]\s*10\s*(?:\^|\*\*)\s*(?=[-+−]?\d)")
_TIMES = re.compile(r"\s*\btimes(?:\s+as\s+(?:much|many|large|big))?$", re.IGNORECASE)
_TIMES_FIRST = re.compile(r"^[x×]\s*(?=[\d.])(.+)$", re.IGNORECASE)
_KIND_OF_HEAD = re.compile(r"\b(?:KV|query)\s+(?=heads?$)", re.IGNORECASE)
_PAGES = re.compile(r"\bpages?$", re.IGNORECASE)
_SPELLED_OUT = re.compile(r"\b(kilo|mega|giga|tera|kibi|mebi|gibi|tebi)(byte|bit)s?$", re.IGNORECASE)
_EACH_SECOND = re.compile(r"\s*(?:/|\b(?:per|an?|each)\b)\s*(?:s|sec|second)$", re.IGNORECASE)
_SECONDS = re.compile(r"(?<![A-Za-z])(milli|micro)?(?:secs?|seconds?)$", re.IGNORECASE)
_NOT_FINITE = re.compile(r"\bnan\b|\binf|∞", re.IGNORECASE)
_FORMULA = re.compile(r"\d\s*(?:[*×·+^/]|\*\*)\s*\d")
_ONE_NUMBER = re.compile(r"\d[\d,._ ]*(?:[eE][-+−]?\d+)?")


def read(text: str, per: Sequence[str] = ()) -> Amount:
    """Read one number, about or not, with its unit.

    Parameters
    ----------
    text : str
        The answer as typed.
    per : sequence of str
        Words that may follow the unit: "token" allows "KiB/token" and "KiB per token".

    Returns
    -------
    Amount

    Raises
    ------
    UnitError
        If it is not one finite number of at least 0 with a known unit; the message says what to type.

    Examples
    --------
    >>> read("about 3.2×10^5 bytes per token", per=("token",)).value
    320000.0
    """
    if not isinstance(text, str):
        raise UnitError("type the answer as text: a number and its unit")
    if len(text) > LONGEST:
        raise UnitError(f"that is {len(text):,} characters: type one number and its unit")
    clean = re.sub(r"\s+", " ", _INVISIBLE.sub("", text)).strip(" .;")
    clean = _POWER_OF_TEN.sub("e", _ABOUT.sub("", clean))
    clean = _TIMES_FIRST.sub(r"\1 x", _TIMES.sub(" x", clean))
    clean = _PAGES.sub("blocks", _KIND_OF_HEAD.sub("", clean))
    for word in per:
        clean = re.sub(rf"\s*(?:/|\b(?:per|an?|each)\b)\s*{word}$", "", clean, flags=re.IGNORECASE)
    clean = _EACH_SECOND.sub("/s", clean)
    clean = _SPELLED_OUT.sub(_symbol, clean)
    clean = _SECONDS.sub(lambda words: {"milli": "ms", "micro": "µs"}.get((words[1] or "").casefold(), "s"), clean)
    if _NOT_FINITE.search(clean):
        raise UnitError("NaN and infinity are not amounts: type a finite number and its unit")
    if not re.search(r"\d", clean):
        raise UnitError("no number found: type a number and its unit")
    if _FORMULA.search(clean):
        raise UnitError("that is a formula: work it out and type one number and its unit")
    if len(_ONE_NUMBER.findall(clean)) > 1:
        raise UnitError("that is more than one number: commit to one, with its unit")
    amount = parse(clean)
    if amount.number < 0:
        raise UnitError("that is negative: every quantity here is at least 0")
    return amount


def _symbol(words: re.Match[str]) -> str:
    """Write "kilobytes" as "kB", "gibibytes" as "GiB"."""
    prefix = words[1].casefold()
    letter = prefix[0] if prefix == "kilo" else prefix[0].upper()
    return letter + ("i" if prefix.endswith("bi") else "") + ("B" if words[2].casefold() == "byte" else "bit")
