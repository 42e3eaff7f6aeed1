"""The formulas of agreement: what equal answers prove, and how soon answers part."""

from calc.units import CalcError, dimensions


@dimensions("", samples="count>0", confidence=">0")
def agreement_bound(*, samples, confidence):
    """Largest share of different answers that agreement in every sample still allows.

    Parameters
    ----------
    samples : int
        Independent samples, all of which agreed.
    confidence : float
        Above 0, below 1: with a larger share, all of them agree with a probability of less than the rest.

    Returns
    -------
    float
        A share, 0 to 1.

    Raises
    ------
    CalcError
        If an argument is out of range.

    Notes
    -----
    One-sided Clopper–Pearson bound for no event. Requests like those that were tested; other prompts, longer
    answers and other loads are other populations.

    References
    ----------
    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26, 1934.

    Examples
    --------
    >>> round(agreement_bound(samples=36, confidence=0.95), 4)
    0.0798
    """
    if confidence >= 1:
        raise CalcError(f"agreement_bound: confidence is {confidence:g}, wanted a share below 1")
    agreement_bound = 1 - (1 - confidence) ** (1 / samples)
    return agreement_bound


@dimensions("", samples="count>0")
def rule_of_three(*, samples):
    """The same bound at a confidence of 95%, in the head: three over the samples.

    Parameters
    ----------
    samples : int
        Independent samples, all of which agreed.

    Returns
    -------
    float
        A share; of use from about 20 samples on.

    Raises
    ------
    CalcError
        If there is no sample.

    References
    ----------
    Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983.

    Examples
    --------
    >>> rule_of_three(samples=300)
    0.01
    """
    rule_of_three = 3 / samples
    return rule_of_three


@dimensions("", flips="count", compared_tokens="count>0")
def flip_rate(*, flips, compared_tokens):
    """Probability that the next greedy token differs although all tokens before it are equal.

    Parameters
    ----------
    flips : int
        Pairs of answers that diverge.
    compared_tokens : int
        Tokens up to and including the first different one, of all pairs: what follows it answers another prompt.

    Returns
    -------
    float
        A probability for each token.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or no token was compared.

    Notes
    -----
    The maximum-likelihood estimate where every token has the same chance to flip. Real flips come where two
    candidates are nearly tied, so they cluster in some prompts.

    Examples
    --------
    >>> flip_rate(flips=4, compared_tokens=1000)
    0.004
    """
    flip_rate = flips / compared_tokens
    return flip_rate


@dimensions("", flip_rate="", answer_tokens="count")
def equal_share(*, flip_rate, answer_tokens):
    """Share of answers that are equal from the first token to the last.

    Parameters
    ----------
    flip_rate : float
        Probability that a token is the first different one, at most 1.
    answer_tokens : int
        Tokens of an answer.

    Returns
    -------
    float
        A share, 0 to 1.

    Raises
    ------
    CalcError
        If an argument is negative, or the tokens are not whole.

    Notes
    -----
    Every token has the same chance, whatever came before.

    Examples
    --------
    >>> [round(equal_share(flip_rate=0.004, answer_tokens=n), 3) for n in (28, 500)]
    [0.894, 0.135]
    """
    equal_share = (1 - flip_rate) ** answer_tokens
    return equal_share
