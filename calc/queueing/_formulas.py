"""Little's law, load, and the waits of one server: one function each, on seconds and requests per second."""

from math import log

from calc.queueing._checks import below_one, stable
from calc.units import dimensions


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
    Kleinrock, "Queueing Systems, Volume 1: Theory", Wiley 1975.

    Examples
    --------
    >>> mg1_wait(arrival_rate=6, service_s=0.1, service_scv=1) / md1_wait(arrival_rate=6, service_s=0.1)
    2.0
    """
    stable(arrival_rate, service_s)
    utilization = arrival_rate * service_s
    mg1_wait = (1 + service_scv) / 2 * (utilization / (1 - utilization)) * service_s
    return mg1_wait
