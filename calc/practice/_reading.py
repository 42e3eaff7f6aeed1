"""Read what a reader typed into an answer box."""

from __future__ import annotations

import re
from collections.abc import Sequence

from calc.units import Amount, UnitError, parse

LONGEST = 60  # characters of an answer

_INVISIBLE = re.compile(r"[\u200b\u2060\ufeff]")  # pasted along with text from a page
_ABOUT = re.compile(r"^(?:[=≈~]|about|around|roughly|approximately)\s*", re.IGNORECASE)
_POWER_OF_TEN = re.compile(r"\s*[x×*·]\s*10\s*(?:\^|\*\*)\s*(?=[-+−]?\d)")
_TIMES = re.compile(r"\s*\btimes$", re.IGNORECASE)
_KV = re.compile(r"\bKV\s+(?=heads?$)", re.IGNORECASE)
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
    clean = _KV.sub("", _TIMES.sub(" x", clean))
    for word in per:
        clean = re.sub(rf"\s*(?:/|\bper\b)\s*{word}$", "", clean, flags=re.IGNORECASE)
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
