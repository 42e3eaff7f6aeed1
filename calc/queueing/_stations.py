"""Queues with several servers, and the exact wait where every service is equally long."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, fsum

from calc.notebook import Table
from calc.queueing._checks import below_one, enough, stable
from calc.queueing._formulas import little, md1_wait, offered_load, utilization
from calc.queueing._servers import mmc_wait, mmc_wait_quantile, mmc_wait_within, wait_probability
from calc.units import CalcError, format_count, format_percent, format_seconds, plain, significant

MOST_SERVERS = 100_000
MOST_LEVELS = 4000  # services that an exact M/D/1 wait may span


def erlang_b(*, offered: float, servers: int) -> float:
    """Probability that all servers are busy where nobody may wait (Erlang B).

    Parameters
    ----------
    offered : float
        Load in Erlangs: arrival rate times mean service time.
    servers : int

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the load is negative or there is no server.

    Notes
    -----
    By the recursion in servers, in which every term is positive: no factorial, no overflow. Holds for any
    distribution of service times.

    Examples
    --------
    >>> erlang_b(offered=2, servers=2)
    0.4
    """
    plain("erlang_b", "offered", offered, "")
    plain("erlang_b", "servers", servers, "count>0")
    if servers > MOST_SERVERS:
        raise CalcError(f"servers is {servers}, wanted at most {MOST_SERVERS:,}")
    blocking = 1.0
    for busy in range(1, int(servers) + 1):
        blocking = offered * blocking / (busy + offered * blocking)
    return blocking


def erlang_c(*, offered: float, servers: int) -> float:
    """Probability of having to wait in an M/M/c queue (Erlang C).

    Parameters
    ----------
    offered : float
        Load in Erlangs.
    servers : int
        More than the load.

    Returns
    -------
    float

    Raises
    ------
    Unstable
        If the load is not below the servers.

    Examples
    --------
    >>> round(erlang_c(offered=10, servers=14), 7)
    0.1741319
    """
    enough(plain("erlang_c", "offered", offered, ""), plain("erlang_c", "servers", servers, "count>0"))
    return wait_probability(blocking=erlang_b(offered=offered, servers=servers), offered=offered, servers=servers)


@dataclass(frozen=True, slots=True)
class MMc:
    """An M/M/c queue in its steady state; it displays itself in a notebook.

    Attributes
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean service time, seconds.
    servers : int
    offered, utilization : float
        Load in Erlangs, and busy share of each server.
    waiting : float
        Probability of having to wait.
    wait_s, sojourn_s : float
        Mean wait, and mean wait and service together, seconds.
    queued, present : float
        Mean number that wait, and that wait or are served.
    """

    arrival_rate: float
    service_s: float
    servers: int
    offered: float
    utilization: float
    waiting: float
    wait_s: float
    sojourn_s: float
    queued: float
    present: float

    def wait_within(self, limit_s: float) -> float:
        """Share of requests that wait no longer than this."""
        return mmc_wait_within(**self._load, limit_s=limit_s)

    def wait_quantile(self, quantile: float) -> float:
        """The wait that this share of requests stay within, seconds."""
        return mmc_wait_quantile(**self._load, quantile=quantile)

    @property
    def _load(self) -> dict[str, float]:
        return {
            "waiting": self.waiting,
            "service_s": self.service_s,
            "offered": self.offered,
            "servers": self.servers,
        }

    def _repr_html_(self) -> str:
        rows = [
            ("Servers", format_count(self.servers)),
            ("Busy share of each", format_percent(self.utilization, 4)),
            ("Requests that have to wait", format_percent(self.waiting, 4)),
            ("Mean wait", format_seconds(self.wait_s)),
            ("Mean time in the queue and in service", format_seconds(self.sojourn_s)),
            ("Waiting on average", significant(self.queued)),
        ]
        caption = f"M/M/{self.servers} at {significant(self.arrival_rate)} requests a second, derived"
        return Table(("Quantity", "Value"), rows, caption)._repr_html_()


def mmc(*, arrival_rate: float, service_s: float, servers: int) -> MMc:
    """Everything about an M/M/c queue: Poisson arrivals, exponential service times, one line before c servers.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean service time, seconds.
    servers : int

    Returns
    -------
    MMc

    Raises
    ------
    Unstable
        If requests arrive faster than they are served; the message says what would be stable.

    Notes
    -----
    First come, first served. With one server it is M/M/1.

    Examples
    --------
    >>> queue = mmc(arrival_rate=300 / 365, service_s=2, servers=3)
    >>> round(queue.wait_s, 2), round(queue.sojourn_s, 3), round(queue.queued, 3)
    (0.43, 2.429, 0.352)
    """
    load = {"arrival_rate": arrival_rate, "service_s": service_s}
    busy = utilization(**load, servers=servers)
    stable(arrival_rate, service_s, servers)
    offered = offered_load(**load)
    waiting = erlang_c(offered=offered, servers=servers)
    wait_s = mmc_wait(waiting=waiting, service_s=service_s, offered=offered, servers=servers)
    queued = little(arrival_rate=arrival_rate, time_s=wait_s)
    return MMc(
        arrival_rate=arrival_rate,
        service_s=service_s,
        servers=int(servers),
        offered=offered,
        utilization=busy,
        waiting=waiting,
        wait_s=wait_s,
        sojourn_s=wait_s + service_s,
        queued=queued,
        present=queued + offered,
    )


def md1_wait_within(*, arrival_rate: float, service_s: float, limit_s: float) -> float:
    """Share of the requests of an M/D/1 queue that wait no longer than a limit, exactly.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Service time of each, seconds.
    limit_s : float
        Seconds.

    Returns
    -------
    float

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.
    CalcError
        If the limit spans more services than can be summed.

    Notes
    -----
    Erlang's own sum has terms of both signs that grow without bound. This one, from the probabilities of
    queue lengths, has positive terms alone; so has the recursion for those, which counts how often the queue
    crosses each level on its way up and down.

    References
    ----------
    Franx, "A simple solution for the M/D/c waiting time distribution", Operations Research Letters 29(5), 2001.

    Examples
    --------
    >>> round(md1_wait_within(arrival_rate=6, service_s=0.1, limit_s=0), 9)  # those who find nobody there
    0.4
    """
    _check_load("md1_wait_within", arrival_rate, service_s)
    plain("md1_wait_within", "limit_s", limit_s, "second")
    spans = int(limit_s / service_s) + 1  # services that end after the limit, counted from the arrival
    if spans > MOST_LEVELS:
        raise CalcError(f"a limit of {significant(limit_s)} s spans {spans:,} services, more than {MOST_LEVELS:,}")
    return _md1_within(arrival_rate, service_s, limit_s, _md1_at_most(arrival_rate * service_s, spans))


def md1_wait_quantile(*, arrival_rate: float, service_s: float, quantile: float) -> float:
    """The wait that a given share of the requests of an M/D/1 queue stay within, exactly.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Service time of each, seconds.
    quantile : float
        Share, below 1: 0.99 for the p99.

    Returns
    -------
    float
        Seconds; 0 where that many find nobody there.

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.
    CalcError
        If the share is not below 1, or the wait spans more services than can be summed.

    Examples
    --------
    >>> round(md1_wait_quantile(arrival_rate=6, service_s=0.1, quantile=0.99), 4)
    0.453
    >>> md1_wait_quantile(arrival_rate=6, service_s=0.1, quantile=0.3)
    0.0
    """
    _check_load("md1_wait_quantile", arrival_rate, service_s)
    below_one("quantile", quantile)
    load = arrival_rate * service_s
    if quantile <= 1 - load:
        return 0.0
    spans = 8
    while True:
        at_most = _md1_at_most(load, spans)
        if _md1_within(arrival_rate, service_s, (spans - 0.5) * service_s, at_most) >= quantile:
            break
        if spans >= MOST_LEVELS:
            raise CalcError(
                f"the wait is longer than {MOST_LEVELS:,} services at {format_percent(load, 4)} load: lower the load"
            )
        spans = min(2 * spans, MOST_LEVELS)
    low, high = 0.0, (spans - 0.5) * service_s
    for _ in range(60):
        middle = (low + high) / 2
        if _md1_within(arrival_rate, service_s, middle, at_most) < quantile:
            low = middle
        else:
            high = middle
    return high


def _check_load(function: str, arrival_rate: float, service_s: float) -> None:
    plain(function, "arrival_rate", arrival_rate, "1/second>0")
    plain(function, "service_s", service_s, "second>0")
    md1_wait(arrival_rate=arrival_rate, service_s=service_s)  # refuses what is unstable


def _md1_at_most(load: float, levels: int) -> list[float]:
    """P(at most k wait) in M/D/1, for k from 0 to levels − 1.

    The queue left behind by departures goes up past level n as often as down past it: down by no arrival
    during a service, up by enough of them.
    """
    arrivals = [exp(-load)]  # P(k arrivals during one service)
    while len(arrivals) < levels + 2:
        arrivals.append(arrivals[-1] * load / len(arrivals))
    more = [0.0] * (levels + 3)  # P(at least k arrivals)
    tail, k = 0.0, levels + 2
    term = arrivals[-1] * load / k
    while term > 0 and k < levels + 400:  # what is left of the series, for small levels and heavy loads
        tail, k = tail + term, k + 1
        term *= load / k
    more[levels + 2] = tail
    for k in range(levels + 1, -1, -1):
        more[k] = more[k + 1] + arrivals[k]
    present = [1 - load]
    for n in range(1, levels + 1):
        up = present[0] * more[n] + fsum(present[i] * more[n - i + 1] for i in range(1, n) if n - i < 60)
        present.append(up / arrivals[0])
    sums, total = [], present[0]
    for share in present[1:]:
        total += share
        sums.append(total)
    return sums


def _md1_within(arrival_rate: float, service_s: float, limit_s: float, at_most: list[float]) -> float:
    """Franx's sum: condition on the queue as it was some whole services before the limit."""
    spans = int(limit_s / service_s) + 1
    mean = arrival_rate * (spans * service_s - limit_s)
    term, terms = exp(-mean), []
    for came in range(min(spans, ceil(mean) + 60)):
        terms.append(term * at_most[spans - 1 - came])
        term *= mean / (came + 1)
    return min(fsum(terms), 1.0)
