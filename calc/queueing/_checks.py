"""What a queue can't be: refusals that say what would be possible."""

from math import floor

from calc.units import CalcError, format_count, format_seconds, significant


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
    if not 0 <= value <= 1:
        raise CalcError(f"{name} is {value!r:.40}, wanted a share from 0 to 1")


def below_one(name: str, value: float) -> None:
    """Refuse a share that no finite time contains."""
    if not 0 <= value < 1:
        raise CalcError(f"{name} is {value!r:.40}, wanted a share of at least 0 and below 1")
