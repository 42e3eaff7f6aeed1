"""The formulas of several servers, of fan-out and of a backlog, one function each."""

from math import exp, log

from calc.queueing._checks import below_one, enough, probability
from calc.units import CalcError, dimensions


@dimensions("", blocking="", offered="", servers="count>0")
def wait_probability(*, blocking, offered, servers):
    """Erlang C from Erlang B: the probability that an arrival finds every server of M/M/c busy.

    Parameters
    ----------
    blocking : float
        Erlang B for the same load and servers, from `erlang_b`.
    offered : float
        Load in Erlangs.
    servers : int
        Servers that take from one queue.

    Returns
    -------
    float

    Raises
    ------
    Unstable
        If the load is not below the servers.

    Examples
    --------
    >>> round(wait_probability(blocking=0.2, offered=3, servers=4), 9)
    0.5
    """
    enough(offered, servers)
    wait_probability = blocking / (1 - offered / servers * (1 - blocking))
    return wait_probability


@dimensions("second", waiting="", service_s="second", offered="", servers="count>0")
def mmc_wait(*, waiting, service_s, offered, servers):
    """Mean wait in an M/M/c queue, of all requests, those that need not wait included.

    Parameters
    ----------
    waiting : float
        Probability of having to wait, from `erlang_c`.
    service_s : float
        Mean service time, seconds.
    offered : float
        Load in Erlangs.
    servers : int
        Servers that take from one queue.

    Returns
    -------
    float
        Seconds from arrival to the start of service.

    Raises
    ------
    Unstable
        If the load is not below the servers.

    Examples
    --------
    >>> mmc_wait(waiting=0.6, service_s=0.1, offered=0.6, servers=1)
    0.15
    """
    enough(offered, servers)
    mmc_wait = waiting * service_s / (servers - offered)
    return mmc_wait


@dimensions("", waiting="", service_s="second>0", offered="", servers="count>0", limit_s="second")
def mmc_wait_within(*, waiting, service_s, offered, servers, limit_s):
    """Share of the requests of an M/M/c queue that wait no longer than a limit: a call center's service level.

    Parameters
    ----------
    waiting : float
        Probability of having to wait, from `erlang_c`.
    service_s : float
        Mean service time, seconds.
    offered : float
        Load in Erlangs.
    servers : int
        Servers that take from one queue.
    limit_s : float
        Seconds.

    Returns
    -------
    float

    Raises
    ------
    Unstable
        If the load is not below the servers.

    Notes
    -----
    First come, first served. Those who wait have an exponential wait.

    Examples
    --------
    >>> round(mmc_wait_within(waiting=0.5, service_s=1, offered=9, servers=10, limit_s=3), 4)
    0.9751
    """
    enough(offered, servers)
    mmc_wait_within = 1 - waiting * exp((offered - servers) * limit_s / service_s)
    return mmc_wait_within


@dimensions("second", waiting="", service_s="second", offered="", servers="count>0", quantile="")
def mmc_wait_quantile(*, waiting, service_s, offered, servers, quantile):
    """The wait that a given share of the requests of an M/M/c queue stay within.

    Parameters
    ----------
    waiting : float
        Probability of having to wait, from `erlang_c`.
    service_s : float
        Mean service time, seconds.
    offered : float
        Load in Erlangs.
    servers : int
        Servers that take from one queue.
    quantile : float
        Share, below 1: 0.99 for the p99.

    Returns
    -------
    float
        Seconds; 0 where fewer than the rest have to wait.

    Raises
    ------
    CalcError
        If the share is not below 1, or the load not below the servers (`Unstable`).

    Examples
    --------
    >>> round(mmc_wait_quantile(waiting=0.6, service_s=0.1, offered=0.6, servers=1, quantile=0.99), 4)
    1.0236
    >>> mmc_wait_quantile(waiting=0.004, service_s=0.1, offered=0.6, servers=5, quantile=0.99)
    0.0
    """
    enough(offered, servers)
    below_one("quantile", quantile)
    mmc_wait_quantile = service_s / (servers - offered) * log(max(1, waiting / (1 - quantile)))
    return mmc_wait_quantile


@dimensions("second", mmc_wait_s="second", arrival_scv="", service_scv="")
def allen_cunneen_wait(*, mmc_wait_s, arrival_scv, service_scv):
    """Mean wait in a G/G/c queue, by the approximation of Allen and Cunneen.

    Parameters
    ----------
    mmc_wait_s : float
        Mean wait of the M/M/c queue with the same load, seconds.
    arrival_scv, service_scv : float
        Variance over mean squared, of the times between arrivals and of the service times.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    An approximation. It is exact for M/M/c and M/G/1, close under heavy load, and can be far off where load is
    light and either distribution is wide. Arrivals that depend on each other are not covered.

    References
    ----------
    Allen, "Probability, Statistics, and Queueing Theory with Computer Science Applications", 2nd edition,
    Academic Press 1990, gives it as the Allen-Cunneen approximation.

    Examples
    --------
    >>> allen_cunneen_wait(mmc_wait_s=0.15, arrival_scv=1, service_scv=0)
    0.075
    """
    allen_cunneen_wait = (arrival_scv + service_scv) / 2 * mmc_wait_s
    return allen_cunneen_wait


@dimensions("", slow_share="", parts="count>0")
def fan_out_slow(*, slow_share, parts):
    """Share of requests that meet at least one slow part, when each needs all of its parts.

    Parameters
    ----------
    slow_share : float
        Probability that one part is slow, 0 to 1.
    parts : int
        Parts that a request waits for.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the probability is above 1, or there is no part.

    Notes
    -----
    Parts are slow independently of each other. Where they share a cause, fewer requests are hit.

    References
    ----------
    Dean and Barroso, "The Tail at Scale", Communications of the ACM 56(2), 2013.

    Examples
    --------
    >>> round(fan_out_slow(slow_share=0.01, parts=100), 4)
    0.634
    """
    probability("slow_share", slow_share)
    fan_out_slow = 1 - (1 - slow_share) ** parts
    return fan_out_slow


@dimensions("", slow_requests="", parts="count>0")
def fan_out_allowed(*, slow_requests, parts):
    """How often one part may be slow if only this share of the requests may meet a slow one.

    Parameters
    ----------
    slow_requests : float
        Share of requests that may be slow, 0 to 1.
    parts : int
        Parts that a request waits for.

    Returns
    -------
    float
        Probability that one part is slow.

    Raises
    ------
    CalcError
        If the share is above 1, or there is no part.

    Notes
    -----
    The inverse of `fan_out_slow`.

    Examples
    --------
    >>> round(fan_out_allowed(slow_requests=0.01, parts=100), 7)
    0.0001005
    """
    probability("slow_requests", slow_requests)
    fan_out_allowed = 1 - (1 - slow_requests) ** (1 / parts)
    return fan_out_allowed


@dimensions("second", requests="count>0", arrival_rate="1/second>0", served_rate="1/second>0")
def backlog_wait(*, requests, arrival_rate, served_rate):
    """Mean wait of a burst that arrives faster than it is served.

    Parameters
    ----------
    requests : int
        Requests of the burst.
    arrival_rate, served_rate : float
        Requests per second that arrive, and that are finished.

    Returns
    -------
    float
        Seconds; the last one waits twice as long.

    Raises
    ------
    CalcError
        If an argument is not above 0, or the burst arrives more slowly than it is served.

    Notes
    -----
    A fluid: no randomness, nobody there at the start. The wait is set by the length of the run, so it says
    nothing about the server that the two rates don't.

    Examples
    --------
    >>> round(backlog_wait(requests=1000, arrival_rate=60, served_rate=8.41), 1)
    51.1
    """
    if served_rate > arrival_rate:
        raise CalcError("served_rate is above arrival_rate: nothing piles up; use a formula of a stable queue")
    backlog_wait = requests / 2 * (1 / served_rate - 1 / arrival_rate)
    return backlog_wait
