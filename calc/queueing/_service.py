"""Service times by their mean and spread, and how to draw them: alike, exponential, in phases, mixed, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import fsum
from random import Random

from calc.queueing._checks import stable
from calc.units import CalcError, plain

MOST_PHASES = 100_000


@dataclass(frozen=True, slots=True)
class Service:
    """A distribution of service times: what the formulas of a mean wait need, and a way to draw from it.

    Attributes
    ----------
    mean_s : float
        Seconds.
    second_moment_s2 : float
        Mean of the square, seconds squared.
    draw : callable
        A `random.Random` to one service time, seconds.
    """

    mean_s: float
    second_moment_s2: float
    draw: Callable[[Random], float] = field(repr=False, compare=False)

    @property
    def variance_s2(self) -> float:
        """Seconds squared."""
        return max(self.second_moment_s2 - self.mean_s**2, 0.0)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation: variance over mean squared."""
        return self.variance_s2 / self.mean_s**2


def deterministic(mean_s: float) -> Service:
    """Every service equally long.

    Examples
    --------
    >>> deterministic(0.1).scv
    0.0
    """
    plain("deterministic", "mean_s", mean_s, "second>0")
    return Service(mean_s, mean_s**2, lambda rng: mean_s)


def exponential(mean_s: float) -> Service:
    """Exponential service times.

    Examples
    --------
    >>> exponential(0.5).scv
    1.0
    """
    plain("exponential", "mean_s", mean_s, "second>0")
    return Service(mean_s, 2 * mean_s**2, lambda rng: rng.expovariate(1 / mean_s))


def erlang(mean_s: float, *, phases: int) -> Service:
    """Equal exponential phases one after the other: between exponential (1 phase) and deterministic (many).

    Examples
    --------
    >>> erlang(1.0, phases=4).scv
    0.25
    """
    if plain("erlang", "phases", phases, "count>0") > MOST_PHASES:
        raise CalcError(f"erlang: phases is {phases:,}, wanted {MOST_PHASES:,} at most: so many are `deterministic`")
    return in_series([exponential(mean_s / phases)] * int(phases))


def in_series(parts: Sequence[Service]) -> Service:
    """One service made of several, one after the other, each independent of the others.

    Examples
    --------
    >>> in_series([deterministic(0.1), exponential(0.2)]).mean_s
    0.30000000000000004
    """
    parts = _some("in_series", parts)
    mean_s = fsum(part.mean_s for part in parts)
    variance = fsum(part.variance_s2 for part in parts)
    return Service(mean_s, variance + mean_s**2, lambda rng: fsum(part.draw(rng) for part in parts))


def mixture(shares: Sequence[tuple[float, Service]]) -> Service:
    """Several kinds of requests in one stream: cold and warm prompts, prefills and decodes.

    Parameters
    ----------
    shares : sequence of (float, Service)
        How often each kind comes; they sum to 1. Exponential kinds make a hyperexponential.

    Returns
    -------
    Service

    Raises
    ------
    CalcError
        If there is none, a share is negative, or they don't sum to 1.

    Examples
    --------
    >>> two = mixture([(0.9, exponential(1)), (0.1, exponential(10))])
    >>> round(two.mean_s, 3), round(two.scv, 3)
    (1.9, 5.039)
    """
    weights = _shares("mixture", [share for share, _ in shares])
    kinds = [kind for _, kind in shares]
    return Service(
        fsum(share * kind.mean_s for share, kind in zip(weights, kinds, strict=True)),
        fsum(share * kind.second_moment_s2 for share, kind in zip(weights, kinds, strict=True)),
        lambda rng: rng.choices(kinds, weights)[0].draw(rng),
    )


def recorded(values: Sequence[float]) -> Service:
    """Service times that were measured or computed one by one, each as likely as any other.

    Examples
    --------
    >>> recorded([1, 3]).scv
    0.25
    """
    values = tuple(_some("recorded", values))
    for value in values:
        plain("recorded", "value", value, "second")
    mean_s = fsum(values) / len(values)
    if not mean_s:
        raise CalcError("recorded: all service times are 0, wanted one above 0")
    return Service(mean_s, fsum(value**2 for value in values) / len(values), lambda rng: rng.choice(values))


def mg1_wait_from_moments(*, arrival_rate: float, mean_s: float, second_moment_s2: float) -> float:
    """`mg1_wait` from the second moment: the mean work that is left of a service in progress, over what is idle.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    mean_s, second_moment_s2 : float
        Mean of the service time, and mean of its square.

    Returns
    -------
    float
        Mean wait, seconds.

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.

    Examples
    --------
    >>> service = exponential(0.1)
    >>> round(mg1_wait_from_moments(arrival_rate=6, mean_s=0.1, second_moment_s2=service.second_moment_s2), 9)
    0.15
    """
    plain("mg1_wait_from_moments", "arrival_rate", arrival_rate, "1/second")
    stable(arrival_rate, mean_s)
    return arrival_rate * second_moment_s2 / (2 * (1 - arrival_rate * mean_s))


def _some(function: str, items: Sequence) -> list:
    items = list(items)
    if not items:
        raise CalcError(f"{function}: nothing was given, wanted at least one")
    return items


def _shares(function: str, shares: Sequence[float]) -> list[float]:
    shares = _some(function, shares)
    if any(not share >= 0 for share in shares) or abs(fsum(shares) - 1) > 1e-9:
        raise CalcError(f"{function}: wanted shares of at least 0 that sum to 1, got {', '.join(map(str, shares))}")
    return shares
