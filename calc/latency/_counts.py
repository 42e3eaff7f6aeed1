"""How many requests a percentile needs: the formulas."""

from math import ceil, log

from calc.units import CalcError, dimensions


@dimensions("count", share=">0", confidence="")
def fewest_requests(*, share, confidence):
    """Fewest requests of which, with this confidence, one at least lies at or above a percentile.

    Parameters
    ----------
    share : float
        The percentile as a share, above 0 and below 1.
    confidence : float
        0 to below 1.

    Returns
    -------
    int
        Requests.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or 1 or more.

    Notes
    -----
    All of n independent requests stay below the percentile with probability shareⁿ.

    Examples
    --------
    >>> fewest_requests(share=0.99, confidence=0.95)
    299
    """
    if share >= 1 or confidence >= 1:
        raise CalcError("fewest_requests: no number of requests is enough for a share or a confidence of 1")
    fewest_requests = ceil(log(1 - confidence) / log(share))
    return fewest_requests


@dimensions("count", deviations="", share="", margin=">0")
def requests_within(*, deviations, share, margin):
    """Requests that pin a percentile down to a margin of rank, by the normal approximation to the binomial.

    Parameters
    ----------
    deviations : float
        Standard deviations of the normal distribution that the confidence asks for: 1.96 for 95%.
    share : float
        The percentile as a share, 0 to 1.
    margin : float
        On either side, as a share: 0.005 places a p99 between the true p98.5 and p99.5.

    Returns
    -------
    int
        Requests.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, the share above 1, or the margin below a hundred-millionth.

    References
    ----------
    Reddi et al., "MLPerf Inference Benchmark", ISCA 2020, arXiv:1911.02549, section III-D, equation 2.

    Examples
    --------
    >>> requests_within(deviations=2, share=0.5, margin=0.25)
    16
    """
    if share > 1:
        raise CalcError("requests_within: a percentile's share is 1 at most")
    if margin < 1e-8:
        raise CalcError(f"requests_within: margin is {margin}, wanted 1e-8 or more: nobody measures 10^16 requests")
    requests_within = ceil(deviations**2 * share * (1 - share) / margin**2)
    return requests_within
