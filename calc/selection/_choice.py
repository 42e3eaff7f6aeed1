"""Two candidates that pass and answer alike: which costs less, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from calc.selection._money import (
    break_even_demand,
    break_even_price_ratio,
    cost_per_million,
    fleet_cost,
    machines,
    payback_hours,
)
from calc.units import CalcError, plain

MONTH_HOURS = 730  # a year of 8,760 hours in twelve parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An engine on a machine, as it was measured, and what it takes to run it.

    Attributes
    ----------
    name : str
    good_rate : float
        Good tokens a second of a machine at the load that was tested.
    price_hour : float
        Price of the machine for an hour.
    busy_share : float
        Share of the paid hours with that load.
    upkeep_month : float
        What the engine takes besides, in a month.
    """

    name: str
    good_rate: float
    price_hour: float
    busy_share: float
    upkeep_month: float = 0.0

    def __post_init__(self) -> None:
        for value in (self.good_rate, self.price_hour):
            plain("Candidate", "good tokens a second and the price of an hour", value, ">0")
        if not 0 < self.busy_share <= 1:
            raise CalcError(f"utilization is {self.busy_share!r:.20}, wanted a share above 0 and at most 1")

    @property
    def cost_per_million(self) -> float:
        """Price of a million good tokens, machines alone."""
        return cost_per_million(price_hour=self.price_hour, good_rate=self.good_rate, busy_share=self.busy_share)

    def fleet(self, demand: float) -> tuple[int, float]:
        """Machines for a demand, and the cost of an hour with upkeep.

        Parameters
        ----------
        demand : float
            Good tokens a second.
        """
        count = machines(demand=demand, good_rate=self.good_rate, busy_share=self.busy_share)
        cost = fleet_cost(
            machines=count, price_hour=self.price_hour, upkeep_month=self.upkeep_month, month_hours=MONTH_HOURS
        )
        return count, cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The cheaper of two candidates for a demand, and where the choice would flip.

    Attributes
    ----------
    chosen, other : Candidate
        The cheaper by the hour; the first where both cost the same.
    chosen_machines, other_machines : int
    chosen_hour, other_hour : float
        Cost of an hour, upkeep included.
    rate_to_tie : float
        Good tokens a second of the other's machine from which on its fleet costs no more, whole machines;
        infinite where its upkeep and one machine cost more already.
    price_to_tie : float
        Price of the other's machine at which its fleet would cost as much; below 0 where none does.
    ratio : float
        The chosen one's good tokens for each of the other's.
    demand_to_tie : float or None
        Good tokens a second at which both cost the same, machines divisible: whole ones flip back and forth near it.
        None where one is cheaper in tokens and in upkeep.
    payback_hours : float or None
        Hours until a change to the chosen one has paid; None where nothing is saved.
    """

    chosen: Candidate
    other: Candidate
    chosen_machines: int
    other_machines: int
    chosen_hour: float
    other_hour: float
    rate_to_tie: float
    price_to_tie: float
    ratio: float
    demand_to_tie: float | None
    payback_hours: float | None


def decide(first: Candidate, second: Candidate, *, demand: float, switch_cost: float = 0.0) -> Decision:
    """Choose between two candidates for a demand.

    Parameters
    ----------
    first, second : Candidate
        Both must have passed the filter and answered alike: cost is the last question.
    demand : float
        Good tokens a second that are wanted, averaged over the month.
    switch_cost : float
        What a change costs once.

    Returns
    -------
    Decision

    Raises
    ------
    CalcError
        If a number is out of range.

    Examples
    --------
    >>> fast = Candidate(name="A", good_rate=1500, price_hour=4, busy_share=0.5, upkeep_month=7300)
    >>> plain = Candidate(name="B", good_rate=1000, price_hour=4, busy_share=0.5)
    >>> [decide(fast, plain, demand=d).chosen.name for d in (1000, 10_000)]
    ['B', 'A']
    >>> round(decide(fast, plain, demand=10_000).demand_to_tie)
    3750
    """
    demand = plain("decide", "demand", demand, "1/second>0")
    (n1, c1), (n2, c2) = first.fleet(demand), second.fleet(demand)
    chosen, other = (first, second) if c1 <= c2 else (second, first)
    (chosen_n, chosen_c), (other_n, other_c) = ((n1, c1), (n2, c2)) if c1 <= c2 else ((n2, c2), (n1, c1))
    room = chosen_c - other.upkeep_month / MONTH_HOURS  # what the other's machines may cost
    paid = affordable(other, chosen_c)
    saved = other_c - chosen_c
    return Decision(
        chosen=chosen,
        other=other,
        chosen_machines=chosen_n,
        other_machines=other_n,
        chosen_hour=chosen_c,
        other_hour=other_c,
        rate_to_tie=demand / (other.busy_share * paid) if paid else float("inf"),
        price_to_tie=room / other_n,
        ratio=break_even_price_ratio(first_good_rate=chosen.good_rate, second_good_rate=other.good_rate),
        demand_to_tie=_demand_to_tie(first, second),
        payback_hours=payback_hours(switch_cost=switch_cost, saved_hour=saved) if saved > 0 else None,
    )


def affordable(candidate: Candidate, hour: float) -> int:
    """Whole machines that an hour's money pays for, after the upkeep.

    Parameters
    ----------
    candidate : Candidate
    hour : float
        Money for an hour.

    Returns
    -------
    int
        0 where the upkeep takes it all.

    Examples
    --------
    >>> affordable(Candidate(name="A", good_rate=1000, price_hour=4, busy_share=0.5, upkeep_month=7300), 23)
    3
    """
    left = hour - candidate.upkeep_month / MONTH_HOURS
    return max(0, floor(left / candidate.price_hour * (1 + 1e-12) + 1e-9))


def _demand_to_tie(first: Candidate, second: Candidate) -> float | None:
    """Where the one with the cheaper tokens and the costlier upkeep begins to win."""
    cheap, dear = sorted((first, second), key=lambda c: c.cost_per_million)
    gap, saved = cheap.upkeep_month - dear.upkeep_month, (dear.cost_per_million - cheap.cost_per_million) / 1e6
    if gap <= 0 or saved <= 0:
        return None
    return break_even_demand(upkeep_gap=gap, month_hours=MONTH_HOURS, saved_token=saved)
