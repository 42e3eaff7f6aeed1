"""The formulas of queueing, one function each, on plain numbers in seconds and requests per second."""

from math import exp, floor, log

from calc.units import CalcError, dimensions, format_count, format_seconds, significant


class Unstable(CalcError):
    """More work arrives than the servers finish: no steady wait exists."""


@dimensions("", arrival_rate="1/second", time_s="second")
def little(*, arrival_rate, time_s):
    """Little's law: how many are there on average, from how often they come and how long each stays.

    Parameters
    ----------
    arrival_rate : float
        Arrivals that are let in, per second.
    time_s : float
        Mean time that each spends in what is looked at: the queue, the servers, or both.

    Returns
    -------
    float
        Mean number in it.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Holds for any order of service and any distribution, as long as nothing piles up without end and the
    three numbers are of the same place and period. It says nothing about percentiles.

    References
    ----------
    Little, "A proof for the queuing formula: L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    >>> little(arrival_rate=5, time_s=2)
    10
    """
    little = arrival_rate * time_s
    return little


@dimensions("second", number="", arrival_rate="1/second>0")
def little_time(*, number, arrival_rate):
    """Little's law for the time: mean number over arrival rate.

    Parameters
    ----------
    number : float
        Mean number in what is looked at.
    arrival_rate : float
        Arrivals that are let in, per second.

    Returns
    -------
    float
        Mean time that each spends there, seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nobody arrives.

    Examples
    --------
    >>> little_time(number=10, arrival_rate=5)
    2.0
    """
    little_time = number / arrival_rate
    return little_time


@dimensions("1/second", number="", time_s="second>0")
def little_rate(*, number, time_s):
    """Little's law for the rate: mean number over mean time.

    Parameters
    ----------
    number : float
        Mean number in what is looked at.
    time_s : float
        Mean time that each spends there, seconds.

    Returns
    -------
    float
        Per second.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the time is 0.

    Examples
    --------
    >>> little_rate(number=10, time_s=2)
    5.0
    """
    little_rate = number / time_s
    return little_rate


@dimensions("", arrival_rate="1/second", service_s="second")
def offered_load(*, arrival_rate, service_s):
    """Load in Erlangs: servers that would be busy on average if there were enough of them.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean time that one server works on one, seconds.

    Returns
    -------
    float
        Servers. More than this many are needed.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> offered_load(arrival_rate=20, service_s=0.3)
    6.0
    """
    offered_load = arrival_rate * service_s
    return offered_load


@dimensions("", arrival_rate="1/second", service_s="second", servers="count>0")
def utilization(*, arrival_rate, service_s, servers):
    """Share of the time that a server is busy. At 1 and above the queue grows without end.

    Parameters
    ----------
    arrival_rate : float
        Requests per second, to all servers together.
    service_s : float
        Mean time that one server works on one, seconds.
    servers : int
        Servers that take from the same queue.

    Returns
    -------
    float
        Below 1 where the queue is stable; a value above 1 is demand, not use.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no server.

    Examples
    --------
    >>> utilization(arrival_rate=20, service_s=0.3, servers=8)
    0.75
    """
    utilization = arrival_rate * service_s / servers
    return utilization


@dimensions("", arrival_rate="1/second", service_s="second")
def idle_probability(*, arrival_rate, service_s):
    """Probability that a single server is idle, and so that a Poisson arrival need not wait.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean service time, seconds.

    Returns
    -------
    float

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.

    Notes
    -----
    For one server and any distribution of service times.

    Examples
    --------
    >>> idle_probability(arrival_rate=1 / 60, service_s=45)
    0.25
    """
    stable(arrival_rate, service_s)
    idle_probability = 1 - arrival_rate * service_s
    return idle_probability


@dimensions("second", arrival_rate="1/second", service_s="second")
def mm1_wait(*, arrival_rate, service_s):
    """Mean wait in an M/M/1 queue: Poisson arrivals, exponential service times, one server.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean service time, seconds.

    Returns
    -------
    float
        Seconds from arrival to the start of service.

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.

    Examples
    --------
    >>> round(mm1_wait(arrival_rate=30 / 3600, service_s=90), 9)
    270.0
    """
    stable(arrival_rate, service_s)
    utilization = arrival_rate * service_s
    mm1_wait = utilization / (1 - utilization) * service_s
    return mm1_wait


@dimensions("second", arrival_rate="1/second", service_s="second")
def mm1_sojourn(*, arrival_rate, service_s):
    """Mean time in an M/M/1 queue, wait and service together.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean service time, seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.

    Examples
    --------
    >>> round(mm1_sojourn(arrival_rate=24, service_s=1 / 30), 9)
    0.166666667
    """
    stable(arrival_rate, service_s)
    mm1_sojourn = service_s / (1 - arrival_rate * service_s)
    return mm1_sojourn


@dimensions("second", sojourn_s="second", quantile="")
def mm1_sojourn_quantile(*, sojourn_s, quantile):
    """The time that a given share of the requests of an M/M/1 queue stay within.

    Parameters
    ----------
    sojourn_s : float
        Mean time in the queue, from `mm1_sojourn`.
    quantile : float
        Share, below 1: 0.99 for the p99.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If the share is not below 1.

    Notes
    -----
    First come, first served. The time in the queue is then exponential.

    Examples
    --------
    >>> round(mm1_sojourn_quantile(sojourn_s=1, quantile=0.99), 3)
    4.605
    """
    below_one("quantile", quantile)
    mm1_sojourn_quantile = sojourn_s * log(1 / (1 - quantile))
    return mm1_sojourn_quantile


@dimensions("second", arrival_rate="1/second", service_s="second")
def md1_wait(*, arrival_rate, service_s):
    """Mean wait in an M/D/1 queue: Poisson arrivals, every service equally long. Half of M/M/1's.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Service time of each, seconds.

    Returns
    -------
    float
        Seconds from arrival to the start of service.

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.

    Examples
    --------
    >>> round(md1_wait(arrival_rate=6, service_s=0.1), 9)
    0.075
    """
    stable(arrival_rate, service_s)
    utilization = arrival_rate * service_s
    md1_wait = utilization / (2 * (1 - utilization)) * service_s
    return md1_wait


@dimensions("second", arrival_rate="1/second", service_s="second", service_scv="")
def mg1_wait(*, arrival_rate, service_s, service_scv):
    """Mean wait in an M/G/1 queue (Pollaczek and Khinchine): Poisson arrivals, any service times.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service_s : float
        Mean service time, seconds.
    service_scv : float
        Variance of the service time over its mean squared: 0 where all are alike, 1 for exponential ones.

    Returns
    -------
    float
        Seconds from arrival to the start of service.

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.

    Notes
    -----
    Exact for one server, in any order that doesn't look at service times and doesn't interrupt. Wait and
    service time are then independent of each other. Bursty arrivals wait longer.

    References
    ----------
    Kleinrock, "Queueing Systems, Volume 1: Theory", Wiley 1975, section 5.6.

    Examples
    --------
    >>> mg1_wait(arrival_rate=6, service_s=0.1, service_scv=1) / md1_wait(arrival_rate=6, service_s=0.1)
    2.0
    """
    stable(arrival_rate, service_s)
    utilization = arrival_rate * service_s
    mg1_wait = (1 + service_scv) / 2 * utilization / (1 - utilization) * service_s
    return mg1_wait


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
