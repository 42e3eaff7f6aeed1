"""The queue itself, request by request, and how far a simulated mean can be trusted."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from random import Random
from statistics import NormalDist

from calc.queueing._checks import numbers, stable
from calc.queueing._service import Service
from calc.units import CalcError, plain

BATCHES = 20
MOST_REQUESTS = 10_000_000
WARM_UP = 0.1  # of the requests, not counted: they found the queue too empty


@dataclass(frozen=True, slots=True)
class Interval:
    """A simulated mean with its confidence interval.

    Attributes
    ----------
    mean, low, high : float
        In the unit of the values.
    confidence : float
    """

    mean: float
    low: float
    high: float
    confidence: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def fifo_waits(arrivals_s: Sequence[float], services_s: Sequence[float], *, servers: int = 1) -> list[float]:
    """The wait of every request before servers that take the longest waiting one first.

    Parameters
    ----------
    arrivals_s : sequence of float
        Times of arrival, ascending.
    services_s : sequence of float
        How long each is worked on.
    servers : int

    Returns
    -------
    list of float
        Seconds from arrival to the start of service.

    Raises
    ------
    CalcError
        If arrivals are not in order, there are not as many services, or a time is no number or a service negative.

    Notes
    -----
    Exact: the recursion of Lindley for one server, of Kiefer and Wolfowitz for several.

    Examples
    --------
    >>> fifo_waits([0, 1, 2], [3, 3, 3])
    [0.0, 2.0, 4.0]
    >>> fifo_waits([0, 1, 2], [3, 3, 3], servers=2)
    [0.0, 0.0, 1.0]
    """
    plain("fifo_waits", "servers", servers, "count>0")
    arrivals_s = numbers("fifo_waits", "arrivals_s", arrivals_s)
    services_s = numbers("fifo_waits", "services_s", services_s, least=0)
    if len(arrivals_s) != len(services_s):
        raise CalcError(f"fifo_waits: {len(arrivals_s)} arrivals and {len(services_s)} services, wanted one for each")
    free = [float("-inf")] * min(int(servers), len(arrivals_s))  # more than one for each request stay idle
    waits, before = [], float("-inf")
    for arrival, service in zip(arrivals_s, services_s, strict=True):
        if arrival < before:
            raise CalcError("fifo_waits: arrivals are not in order of time: sort them")
        before = arrival
        start = max(arrival, free[0])
        waits.append(float(start - arrival))
        heapq.heapreplace(free, start + service)
    return waits


@dataclass(frozen=True, slots=True)
class Simulated:
    """Waits of a simulated queue, those of its warm-up left out.

    Attributes
    ----------
    waits_s : tuple of float
        In order of arrival, seconds.
    services_s : tuple of float
        Of the same requests.
    """

    waits_s: tuple[float, ...]
    services_s: tuple[float, ...]

    def mean_wait(self, confidence: float = 0.95) -> Interval:
        """Mean wait with its confidence interval, by batch means."""
        return batch_means(self.waits_s, confidence=confidence)

    def share_within(self, limit_s: float, confidence: float = 0.95) -> Interval:
        """Share that waits no longer than a limit, with its confidence interval."""
        return batch_means([float(wait <= limit_s) for wait in self.waits_s], confidence=confidence)


def simulate_fifo(
    *, arrival_rate: float, service: Service, servers: int = 1, requests: int, seed: int, arrival_scv: float = 1.0
) -> Simulated:
    """Simulate one queue before equal servers, first come first served.

    Parameters
    ----------
    arrival_rate : float
        Requests per second, to all servers together.
    service : Service
        What is drawn for each request.
    servers : int
    requests : int
        How many are drawn; the first tenth is not counted.
    seed : int
        The same seed gives the same requests.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals, gamma distributed: 1 is Poisson.

    Returns
    -------
    Simulated

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.
    CalcError
        If there are no requests, or more than ten million.

    Examples
    --------
    >>> from calc.queueing import exponential
    >>> run = simulate_fifo(arrival_rate=6, service=exponential(0.1), requests=20_000, seed=1)
    >>> 0.15 in run.mean_wait()  # Pollaczek and Khinchine
    True
    """
    plain("simulate_fifo", "arrival_rate", arrival_rate, "1/second>0")
    plain("simulate_fifo", "arrival_scv", arrival_scv, "")
    plain("simulate_fifo", "servers", servers, "count>0")
    if plain("simulate_fifo", "requests", requests, "count>0") > MOST_REQUESTS:
        raise CalcError(f"simulate_fifo: requests is {requests:,}, wanted {MOST_REQUESTS:,} at most")
    stable(arrival_rate, service.mean_s, servers)
    rng, now, arrivals, services = Random(seed), 0.0, [], []
    for _ in range(int(requests)):
        if arrival_scv == 1:
            now += rng.expovariate(arrival_rate)
        elif arrival_scv:
            now += rng.gammavariate(1 / arrival_scv, arrival_scv / arrival_rate)
        else:
            now += 1 / arrival_rate
        arrivals.append(now)
        services.append(service.draw(rng))
    first = int(WARM_UP * requests)
    waits = fifo_waits(arrivals, services, servers=servers)
    return Simulated(tuple(waits[first:]), tuple(services[first:]))


def batch_means(values: Sequence[float], *, batches: int = BATCHES, confidence: float = 0.95) -> Interval:
    """Mean of values that depend on their neighbors, with a confidence interval.

    Neighbors in a queue wait alike, so a thousand waits tell less than a thousand. Means of long batches are
    nearly independent, and the interval is taken from their spread.

    Parameters
    ----------
    values : sequence of float
        In order of time, from a steady state.
    batches : int
        Equal ones; what is left over at the start is dropped.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    Interval

    Raises
    ------
    CalcError
        If there are fewer values than batches, or fewer than 4 batches, or a value is no finite number.

    Notes
    -----
    Too narrow where batches are short against the time over which the queue forgets: lengthen the run until
    the interval no longer widens.

    References
    ----------
    Law, "Simulation Modeling and Analysis", 5th edition, McGraw-Hill 2015, on batch means.

    Examples
    --------
    >>> batch_means([3.0] * 100).high
    3.0
    """
    plain("batch_means", "batches", batches, "count>0")
    values = numbers("batch_means", "values", values)
    size = len(values) // batches
    if batches < 4 or not size:
        raise CalcError(
            f"batch_means: {len(values)} values in {batches} batches: wanted at least 4, none of them empty"
        )
    if not 0 < confidence < 1:
        raise CalcError(f"confidence is {confidence}, wanted a number between 0 and 1")
    kept = values[len(values) - size * batches :]
    means = [fsum(kept[i * size : (i + 1) * size]) / size for i in range(batches)]
    mean = fsum(means) / batches
    spread = sqrt(fsum((m - mean) ** 2 for m in means) / (batches - 1) / batches)
    reach = student_quantile((1 + confidence) / 2, freedom=batches - 1) * spread
    return Interval(mean, mean - reach, mean + reach, confidence)


def student_quantile(share: float, *, freedom: int) -> float:
    """Quantile of Student's t distribution: the normal one, widened for a spread estimated from few values.

    Raises
    ------
    CalcError
        If the share is not between 0 and 1, or there is no degree of freedom.

    Notes
    -----
    Four terms of the expansion in 1/freedom: within 0.1% from 5 degrees of freedom on, up to the 99.5% quantile.

    References
    ----------
    Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, formula 26.7.5.

    Examples
    --------
    >>> round(student_quantile(0.975, freedom=19), 3)
    2.093
    """
    if not 0 < plain("student_quantile", "share", share, "") < 1:
        raise CalcError(f"student_quantile: share is {share}, wanted a number between 0 and 1")
    plain("student_quantile", "freedom", freedom, "count>0")
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (9 * 2**10 * 10),
    )
    return z + fsum(term / freedom**power for power, term in enumerate(terms, start=1))
