"""What a queue can't be: refusals that say what would be possible."""

from collections.abc import Iterable
from math import floor, isfinite
from typing import Any

from calc.units import CalcError, format_count, format_seconds, plain, significant


class Unstable(CalcError):
    """More work arrives than the servers finish: no steady wait exists."""


def stable(arrival_rate: float, service_s: float, servers: int = 1) -> None:
    """Refuse a queue that grows without end, and say what would be stable.

    Raises
    ------
    Unstable
    """
    offered = arrival_rate * service_s
    if offered < servers:
        return
    who = "one server finishes" if servers == 1 else f"{format_count(servers)} servers finish"
    raise Unstable(
        f"requests arrive at {significant(arrival_rate)}/s and {who} at most {significant(servers / service_s)}/s, so "
        f"the queue grows without end: use at least {format_count(floor(offered) + 1)} servers, or a mean service time "
        f"below {format_seconds(servers / arrival_rate)}, or fewer requests than {significant(servers / service_s)}/s"
    )


def enough(offered: float, servers: int) -> None:
    """Refuse fewer servers than the load needs, and say how many would be stable.

    Raises
    ------
    Unstable
    """
    if offered >= servers:
        raise Unstable(
            f"a load of {significant(offered)} keeps {format_count(servers)} or more servers busy all the time, so the "
            f"queue grows without end: use at least {format_count(floor(offered) + 1)} servers"
        )


def probability(name: str, value: float) -> None:
    """Refuse what is no probability."""
    if not _from_0_to_1(value):
        raise CalcError(f"{name} is {value!r:.40}, wanted a share from 0 to 1")


def below_one(name: str, value: float) -> None:
    """Refuse a share that no finite time contains."""
    if not _from_0_to_1(value) or value == 1:
        raise CalcError(f"{name} is {value!r:.40}, wanted a share of at least 0 and below 1")


def one(function: str, name: str, value: Any, declared: str) -> float:
    """Refuse what `plain` refuses, and arrays: for what is no formula and can't be taken element by element."""
    value = plain(function, name, value, declared)
    if getattr(value, "ndim", 0):
        raise CalcError(f"{function}: {name} is an array, wanted one number: call once for each")
    return value


def numbers(function: str, name: str, values: Iterable[float], *, least: float | None = None) -> list[float]:
    """Refuse a list in which something is no finite number, or below the least one; as fast as a list is walked."""
    try:
        values = list(values)
        fits = all(map(isfinite, values)) and (least is None or min(values, default=least) >= least)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        above = "" if least is None else f" of at least {least}"
        raise CalcError(f"{function}: {name} holds what is no number{above}: give a list of finite numbers{above}")
    return values


def _from_0_to_1(value: object) -> bool:
    try:
        return bool(0 <= value <= 1)
    except (TypeError, ValueError):  # text, or an array
        return False
