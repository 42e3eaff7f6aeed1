"""The time to first token of a replica as a whole distribution: wait, prefill and the rest, cold and warm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from calc.hardware import Accelerator
from calc.models import ModelGeometry
from calc.queueing._budget import assumed_seconds
from calc.queueing._checks import Unstable, numbers, one, probability
from calc.queueing._distribution import (
    MOST_CELLS,
    NEGLIGIBLE,
    Distribution,
    exponential_times,
    in_sum,
    mg1_waits,
    mixed,
    of_values,
)
from calc.queueing._formulas import utilization
from calc.roofline import prefill_floor
from calc.units import CalcError, plain

CELLS = 120  # of the grid, up to the limit
FINE = 40  # steps, at least, in the longest service
FAR = 30  # means after which an exponential's rest is next to nothing
MOST_REPLICAS = 4096


@dataclass(frozen=True, slots=True)
class Composed:
    """Time to first token of one replica, by its parts.

    Attributes
    ----------
    utilization : float
        Share of the time that the replica computes prompts.
    waits : Distribution
        In the queue.
    cold, warm, every : Distribution
        Time to first token of prompts whose prefix is not cached, of those whose prefix is, and of all.
    """

    utilization: float
    waits: Distribution
    cold: Distribution
    warm: Distribution
    every: Distribution


def typical_lengths(quantiles: Sequence[float], *, groups: int = 50) -> tuple[int, ...]:
    """Prompt lengths that stand for equal shares of the requests: the mean of each part of a table of quantiles.

    Parameters
    ----------
    quantiles : sequence of float
        Equally spaced, from the least to the largest, one more than a multiple of `groups`.
    groups : int

    Returns
    -------
    tuple of int
        Tokens, ascending, each at least 1.

    Raises
    ------
    CalcError
        If the table can't be cut into so many equal parts.

    Examples
    --------
    >>> typical_lengths([10, 20, 30, 50, 90], groups=2)
    (20, 55)
    """
    quantiles = numbers("typical_lengths", "quantiles", quantiles)
    size, rest = divmod(len(quantiles) - 1, one("typical_lengths", "groups", groups, "count>0"))
    if size < 1 or rest:
        raise CalcError(f"{len(quantiles)} quantiles can't be cut into {groups} equal parts")
    means = []
    for start in range(0, len(quantiles) - 1, size):
        part = quantiles[start : start + size + 1]
        means.append((sum(part) - (part[0] + part[-1]) / 2) / size)  # straight lines between the quantiles
    return tuple(max(round(mean), 1) for mean in means)


def prefill_times(
    model: ModelGeometry,
    chip: Accelerator,
    *,
    ranks: int,
    prompts: Sequence[int],
    hit_share: float = 0.0,
    efficiency: float,
) -> tuple[float, ...]:
    """What the prefill of each prompt is taken to last on a replica: its floor over an assumed efficiency.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
    ranks : int
        GPUs that share every layer, over the chip's fastest link.
    prompts : sequence of int
        Tokens of each.
    hit_share : float
        Share of each prompt that is found in the prefix cache; one token at least is left to compute.
    efficiency : float
        Share of the floor's rate that is reached.

    Returns
    -------
    tuple of float
        Seconds.

    Raises
    ------
    CalcError
        If the model can't be cut so, or a share is out of range.

    Notes
    -----
    The floor with its groups and all-reduces one after another. Each prompt alone; steps are not filled up with
    others, and no decoding shares them.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> (time,) = prefill_times(load("llama-3.1-8b"), accelerator("h100-sxm"), ranks=1, prompts=[8192], efficiency=0.5)
    >>> round(1000 * time)
    267
    """
    probability("hit_share", hit_share)
    plain("prefill_times", "efficiency", efficiency, ">0")
    link = next(iter(chip.links)) if ranks > 1 else None
    times = []
    for prompt in numbers("prefill_times", "prompts", prompts, least=1):
        cached = min(int(hit_share * prompt), prompt - 1)
        floor = prefill_floor(model, chip, prompt=prompt - cached, cached=cached, ranks=ranks, link=link)
        times.append(assumed_seconds(floor_s=floor.apart_s, efficiency=efficiency))
    return tuple(times)


def outside_times(*, fixed_s: float, jitter_s: float, step_s: float) -> Distribution:
    """Everything outside the engine: a fixed time, and an exponential one on top.

    Examples
    --------
    >>> round(outside_times(fixed_s=0.04, jitter_s=0.01, step_s=0.001).mean_s, 6)
    0.05
    """
    fixed = of_values([plain("outside_times", "fixed_s", fixed_s, "second")], step_s=step_s)
    if not plain("outside_times", "jitter_s", jitter_s, "second"):
        return fixed
    varying = exponential_times(mean_s=jitter_s, step_s=step_s, horizon_s=FAR * jitter_s)
    return in_sum([fixed, varying])


def compose(
    *,
    arrival_rate: float,
    cold_s: Sequence[float],
    warm_s: Sequence[float],
    warm_share: float,
    fixed_s: float,
    jitter_s: float,
    limit_s: float,
    horizons: int = 1,
) -> Composed:
    """Time to first token of a replica that takes prompts one after the other, as they come.

    Parameters
    ----------
    arrival_rate : float
        Requests per second that reach this replica.
    cold_s, warm_s : sequence of float
        Prefill times of cold and of warm prompts, each as likely as the others of its kind, seconds.
    warm_share : float
        Share of requests that are warm.
    fixed_s, jitter_s : float
        Time outside the engine: a fixed part, and the mean of an exponential one, seconds.
    limit_s : float
        What the time will be held against. It sets the grid: results are good to a hundred-and-twentieth of it.
    horizons : int
        How many limits far to carry the wait.

    Returns
    -------
    Composed

    Raises
    ------
    Unstable
        If prompts arrive faster than they are computed.
    CalcError
        If a time is none, or the share is out of range.

    Notes
    -----
    M/G/1: Poisson arrivals, one prompt at a time, no decoding beside it. A real step takes several prompts and the
    decoding sequences together, and a prompt waits for the step in progress. Hold it against a simulation.

    Examples
    --------
    >>> parts = {"fixed_s": 0.04, "jitter_s": 0, "limit_s": 0.5}
    >>> replica = compose(arrival_rate=5, cold_s=[0.1], warm_s=[0.02], warm_share=0.5, **parts)
    >>> round(replica.utilization, 3), round(replica.every.within(0.5), 3)
    (0.3, 1.0)
    """
    probability("warm_share", warm_share)
    cold_s, warm_s = (numbers("compose", n, times, least=0) for n, times in (("cold_s", cold_s), ("warm_s", warm_s)))
    for name, seconds in (("fixed_s", fixed_s), ("jitter_s", jitter_s)):
        one("compose", name, seconds, "second")
    one("compose", "limit_s", limit_s, "second>0")
    one("compose", "horizons", horizons, ">0")
    longest = max(*cold_s, *warm_s, fixed_s + FAR * jitter_s)
    far = max(2 * longest, horizons * limit_s)
    step = max(min(limit_s / CELLS, max(*cold_s, *warm_s) / FINE), 1.01 * far / MOST_CELLS)
    cold, warm = (of_values(times, step_s=step) for times in (cold_s, warm_s))
    service = mixed([(1 - warm_share, cold), (warm_share, warm)])
    busy = utilization(arrival_rate=arrival_rate, service_s=service.mean_s, servers=1)
    waits = mg1_waits(arrival_rate=arrival_rate, service=service, horizon_s=horizons * limit_s)
    before = in_sum([waits, outside_times(fixed_s=fixed_s, jitter_s=jitter_s, step_s=step)])
    late, early = in_sum([before, cold]), in_sum([before, warm])
    return Composed(busy, waits, late, early, mixed([(1 - warm_share, late), (warm_share, early)]))


def fewest_replicas(*, arrival_rate: float, limit_s: float, target_share: float, **replica: object) -> int | None:
    """The fewest equal replicas whose requests come within a limit often enough, by `compose`.

    Parameters
    ----------
    arrival_rate : float
        Requests per second to all of them together; each gets an equal share at random.
    limit_s : float
        On the time to first token, seconds.
    target_share : float
        Share of requests that must meet it.
    **replica
        The other arguments of `compose`.

    Returns
    -------
    int or None
        None where even an idle replica misses too often, or just often enough to leave no room for a wait.

    Raises
    ------
    CalcError
        If more than a few thousand would be needed.

    Examples
    --------
    >>> parts = {"cold_s": [0.1], "warm_s": [0.02], "warm_share": 0.5, "fixed_s": 0.04, "jitter_s": 0}
    >>> fewest_replicas(arrival_rate=40, limit_s=0.5, target_share=0.95, **parts)
    4
    """
    probability("target_share", target_share)

    def meets(replicas: int) -> bool:
        try:
            made = compose(arrival_rate=arrival_rate / replicas, limit_s=limit_s, **replica)
        except Unstable:
            return False
        return made.every.within(limit_s) >= target_share

    idle = compose(arrival_rate=0, limit_s=limit_s, **replica)
    if idle.every.within(limit_s) <= target_share + NEGLIGIBLE:  # no room for a wait, whatever rounding says
        return None
    mean = (1 - replica["warm_share"]) * sum(replica["cold_s"]) / len(replica["cold_s"])
    mean += replica["warm_share"] * sum(replica["warm_s"]) / len(replica["warm_s"])
    low = ceil(arrival_rate * mean * (1 - 1e-9)) - 1  # these can't keep up
    high = max(low, 0) + 1
    while not meets(high):
        low, high = high, 2 * high
        if high > MOST_REPLICAS:
            raise CalcError(f"more than {MOST_REPLICAS:,} replicas would be needed: raise the limit or lower the load")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high
