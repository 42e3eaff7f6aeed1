"""The formulas of money: what a good token costs, and where a decision flips.

Money is a plain number in whatever currency the prices are in. Hours and months are plain numbers too.
"""

from math import ceil

from calc.units import dimensions


@dimensions("1/second", token_rate="1/second", good_share="")
def good_rate(*, token_rate, good_share):
    """Output tokens a second that belong to requests which kept every limit.

    Parameters
    ----------
    token_rate : float
        Output tokens of all requests, a second.
    good_share : float
        Share of them in good requests, 0 to 1.

    Returns
    -------
    float
        Good tokens a second.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> good_rate(token_rate=2000, good_share=0.85)
    1700.0
    """
    good_rate = token_rate * good_share
    return good_rate


@dimensions("", price_hour="", good_rate="1/second>0", busy_share=">0")
def cost_per_million(*, price_hour, good_rate, busy_share):
    """Price of a million good tokens on a machine that is not always busy.

    Parameters
    ----------
    price_hour : float
        Price of the machine for an hour, in any currency.
    good_rate : float
        Good tokens a second at the load that was tested.
    busy_share : float
        Share of the paid hours in which that load is there, at most 1: the utilization.

    Returns
    -------
    float
        In the currency of the price, for a million tokens.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing good is made.

    Notes
    -----
    Output tokens only; prompts are paid for in them. An hour without load costs as much as a full one. Upkeep,
    failover and the people are in `fleet_cost`.

    Examples
    --------
    >>> cost_per_million(price_hour=3.6, good_rate=1000, busy_share=0.5)
    2.0
    """
    cost_per_million = 1e6 * price_hour / (3600 * good_rate * busy_share)
    return cost_per_million


@dimensions("", price_hour="", good_rate="1/second>0", target_cost=">0")
def break_even_busy_share(*, price_hour, good_rate, target_cost):
    """Utilization from which on a machine of one's own is cheaper than a price for a million tokens.

    Parameters
    ----------
    price_hour : float
        Price of the machine for an hour.
    good_rate : float
        Good tokens a second at the load that was tested.
    target_cost : float
        The other price, for a million tokens, in the same currency.

    Returns
    -------
    float
        A share; above 1 the machine never gets there.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the other price is 0.

    Examples
    --------
    >>> break_even_busy_share(price_hour=3.6, good_rate=1000, target_cost=2)
    0.5
    """
    break_even_busy_share = 1e6 * price_hour / (3600 * good_rate * target_cost)
    return break_even_busy_share


@dimensions("", first_good_rate="1/second", second_good_rate="1/second>0")
def break_even_price_ratio(*, first_good_rate, second_good_rate):
    """How many times the second machine's price the first one may cost, good token for good token.

    Parameters
    ----------
    first_good_rate, second_good_rate : float
        Good tokens a second of each, at the same utilization.

    Returns
    -------
    float
        A ratio of prices for an hour.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the second makes nothing good.

    Examples
    --------
    >>> break_even_price_ratio(first_good_rate=1700, second_good_rate=1000)
    1.7
    """
    break_even_price_ratio = first_good_rate / second_good_rate
    return break_even_price_ratio


@dimensions("count", demand="1/second", good_rate="1/second>0", busy_share=">0")
def machines(*, demand, good_rate, busy_share):
    """Whole machines for a demand of good tokens.

    Parameters
    ----------
    demand : float
        Good tokens a second, averaged over the month.
    good_rate : float
        Good tokens a second of one machine at the load that was tested.
    busy_share : float
        Share of the hours in which a machine carries that load.

    Returns
    -------
    int
        Machines.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing good is made.

    Notes
    -----
    Spare machines for failures are left out.

    Examples
    --------
    >>> machines(demand=2500, good_rate=1000, busy_share=0.5)
    5
    """
    machines = ceil(demand / (good_rate * busy_share))
    return machines


@dimensions("", machines="count", price_hour="", upkeep_month="", month_hours=">0")
def fleet_cost(*, machines, price_hour, upkeep_month, month_hours):
    """What a fleet costs in an hour, with the people who keep it running.

    Parameters
    ----------
    machines : int
        Machines that are paid for.
    price_hour : float
        Price of one for an hour.
    upkeep_month : float
        What it takes to keep this engine running for a month: upgrades, incidents, tests of its outputs.
    month_hours : float
        Hours in a month.

    Returns
    -------
    float
        In the currency of the prices, for an hour.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> fleet_cost(machines=5, price_hour=3.6, upkeep_month=7300, month_hours=730)
    28.0
    """
    fleet_cost = machines * price_hour + upkeep_month / month_hours
    return fleet_cost


@dimensions("", demand="1/second", target_cost="")
def bought_cost(*, demand, target_cost):
    """What a demand costs in an hour if every good token is bought elsewhere.

    Parameters
    ----------
    demand : float
        Good tokens a second, averaged over the month.
    target_cost : float
        The price elsewhere, for a million tokens.

    Returns
    -------
    float
        In the currency of the price, for an hour.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Output tokens only, and no upkeep: whoever sells them keeps the engine running.

    Examples
    --------
    >>> bought_cost(demand=2500, target_cost=2)
    18.0
    """
    bought_cost = 3600 * demand * target_cost / 1e6
    return bought_cost


@dimensions("", switch_cost="", saved_hour=">0")
def payback_hours(*, switch_cost, saved_hour):
    """Hours until a change has paid for itself.

    Parameters
    ----------
    switch_cost : float
        What the change costs once: porting, tests, running both for a while.
    saved_hour : float
        What it saves in an hour.

    Returns
    -------
    float
        Hours.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing is saved.

    Examples
    --------
    >>> payback_hours(switch_cost=14600, saved_hour=10)
    1460.0
    """
    payback_hours = switch_cost / saved_hour
    return payback_hours


@dimensions("1/second", upkeep_gap="", month_hours=">0", saved_token=">0")
def break_even_demand(*, upkeep_gap, month_hours, saved_token):
    """Demand from which on a cheaper token outweighs a costlier upkeep.

    Parameters
    ----------
    upkeep_gap : float
        Upkeep of the engine with the cheaper tokens less that of the other, for a month.
    month_hours : float
        Hours in a month.
    saved_token : float
        Money saved with each good token.

    Returns
    -------
    float
        Good tokens a second.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing is saved.

    Notes
    -----
    Machines are taken to be divisible.

    Examples
    --------
    >>> round(break_even_demand(upkeep_gap=7300, month_hours=730, saved_token=1e-6), 3)
    2777.778
    """
    break_even_demand = upkeep_gap / (3600 * month_hours * saved_token)
    return break_even_demand
