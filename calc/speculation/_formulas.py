"""The formulas of speculation, one function each: tokens of a round, its cost, and what both come to."""

from calc.units import CalcError, dimensions


@dimensions("", acceptance="", draft_tokens="count")
def expected_tokens(*, acceptance, draft_tokens):
    """Tokens that a round emits on average, where every draft token is accepted with one probability.

    The accepted prefix and one token more: the correction after a rejection, or the bonus after a draft
    that passed whole. A geometric series, cut off after the draft.

    Parameters
    ----------
    acceptance : float
        Probability that a draft token is accepted, given that all before it were. Below 1.
    draft_tokens : int
        Tokens drafted in a round; 0 is plain decoding.

    Returns
    -------
    float
        From 1 to `draft_tokens` + 1.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, the draft is not whole, or the acceptance is 1 or more.

    Notes
    -----
    Independent positions with equal chances. Real drafts get worse along the way: see
    `expected_tokens_by_position`.

    References
    ----------
    Leviathan, Kalman and Matias, ICML 2023, equation 1.

    Examples
    --------
    >>> round(expected_tokens(acceptance=0.7, draft_tokens=3), 3)
    2.533
    """
    if acceptance >= 1:
        raise CalcError("the acceptance must be below 1: at 1 a round emits the whole draft and one token more")
    expected_tokens = (1 - acceptance ** (draft_tokens + 1)) / (1 - acceptance)
    return expected_tokens


@dimensions("", acceptance="", draft_tokens="count")
def expected_accepted(*, acceptance, draft_tokens):
    """Draft tokens that a round accepts on average, where every one is accepted with one probability.

    Parameters
    ----------
    acceptance : float
        Probability that a draft token is accepted, given that all before it were. Below 1.
    draft_tokens : int
        Tokens drafted in a round.

    Returns
    -------
    float
        From 0 to `draft_tokens`: one less than `expected_tokens`.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, the draft is not whole, or the acceptance is 1 or more.

    Notes
    -----
    Over the draft it is what engines print as acceptance rate, which is below the probability.

    Examples
    --------
    >>> round(expected_accepted(acceptance=0.8, draft_tokens=8), 2)
    3.33
    """
    if acceptance >= 1:
        raise CalcError("the acceptance must be below 1: at 1 a round accepts the whole draft")
    expected_accepted = acceptance * (1 - acceptance**draft_tokens) / (1 - acceptance)
    return expected_accepted


@dimensions("", accepted="count", rounds="count>0")
def acceptance_length(*, accepted, rounds):
    """Tokens per round from an engine's counters: accepted drafts, and one token more each time.

    Parameters
    ----------
    accepted : int
        Draft tokens accepted in all rounds.
    rounds : int
        Rounds, each of one request.

    Returns
    -------
    float
        Tokens.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or there is no round.

    Notes
    -----
    The last round of a request may be cut by its limit; the counters don't show it.

    Examples
    --------
    >>> round(acceptance_length(accepted=150, rounds=129), 2)
    2.16
    """
    acceptance_length = 1 + accepted / rounds
    return acceptance_length


@dimensions("", accepted="count", drafted="count>0")
def accepted_share(*, accepted, drafted):
    """Share of the drafted tokens that were accepted: the "draft acceptance rate" of most engines.

    Parameters
    ----------
    accepted, drafted : int
        Draft tokens accepted, and proposed, in all rounds.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, nothing was drafted, or more was accepted than drafted.

    Notes
    -----
    Counts drafts that nobody looked at, those behind a rejection. So it falls with the draft's length
    even if every token is as good as the first.

    Examples
    --------
    >>> round(accepted_share(accepted=150, drafted=387), 3)
    0.388
    """
    if accepted > drafted:
        raise CalcError(f"accepted_share: {accepted} accepted of {drafted} drafted: wanted both of the same rounds")
    accepted_share = accepted / drafted
    return accepted_share


@dimensions("", accepted="count", rejected="count")
def accepted_when_tested(*, accepted, rejected):
    """Share of the draft tokens that were tested and accepted: the estimate of the acceptance itself.

    Parameters
    ----------
    accepted : int
        Draft tokens accepted in all rounds.
    rejected : int
        Rounds that ended in a rejection: each tested one token more.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or nothing was tested.

    Notes
    -----
    The most likely acceptance if it is the same at every position.

    Examples
    --------
    >>> accepted_when_tested(accepted=7, rejected=3)
    0.7
    """
    if accepted + rejected == 0:
        raise CalcError("no draft token was tested: there is no acceptance to estimate")
    accepted_when_tested = accepted / (accepted + rejected)
    return accepted_when_tested


@dimensions("", draft_tokens="count", draft_cost="", verify_cost=">0")
def round_cost(*, draft_tokens, draft_cost, verify_cost):
    """Time of a round, counted in steps of the target alone.

    Parameters
    ----------
    draft_tokens : int
        Tokens drafted one after the other.
    draft_cost : float
        Time of one draft token over the time of a plain step of the target.
    verify_cost : float
        Time of the step that checks the draft over that of a plain step: 1 if checking is free.

    Returns
    -------
    float
        Plain steps. The round must emit as many tokens to break even.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, the draft is not whole, or checking takes no time.

    Notes
    -----
    Drafting and checking take turns. Heads that draft all tokens at once cost one `draft_cost`.

    References
    ----------
    Leviathan, Kalman and Matias, ICML 2023, theorem 3.8, where checking is free.

    Examples
    --------
    >>> round_cost(draft_tokens=3, draft_cost=0.05, verify_cost=1.25)
    1.4
    """
    round_cost = draft_tokens * draft_cost + verify_cost
    return round_cost


@dimensions("second", draft_tokens="count", draft_s="second", verify_s="second")
def round_seconds(*, draft_tokens, draft_s, verify_s):
    """Time of a round.

    Parameters
    ----------
    draft_tokens : int
        Tokens drafted one after the other.
    draft_s, verify_s : float
        Time of one draft token, and of the step that checks them all, seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the draft is not whole.

    Notes
    -----
    Drafting and checking take turns; sampling and scheduling are in neither.

    Examples
    --------
    >>> round(round_seconds(draft_tokens=3, draft_s=0.001, verify_s=0.012), 3)
    0.015
    """
    round_seconds = draft_tokens * draft_s + verify_s
    return round_seconds


@dimensions("", tokens_per_round=">0", round_cost=">0")
def round_speedup(*, tokens_per_round, round_cost):
    """Speed-up of decoding: tokens of a round over the plain steps it takes as long as.

    Parameters
    ----------
    tokens_per_round : float
        Tokens emitted by a round, on average.
    round_cost : float
        Time of a round over the time of a plain step that would have run instead.

    Returns
    -------
    float
        Above 1 it is faster, below 1 slower.

    Raises
    ------
    CalcError
        If an argument is 0, negative or not finite.

    Notes
    -----
    Of the time between tokens alone; prefill and queueing don't speed up. Both numbers belong to one
    batch size: the cost grows with it.

    Examples
    --------
    >>> round(round_speedup(tokens_per_round=2.1, round_cost=1.4), 3)
    1.5
    """
    round_speedup = tokens_per_round / round_cost
    return round_speedup


@dimensions("", draft_tokens="count", draft_operations="", tokens_per_round=">0")
def operations_factor(*, draft_tokens, draft_operations, tokens_per_round):
    """Arithmetic per emitted token, counted in plain steps of the target.

    Every round computes the whole draft and one position more, used or not.

    Parameters
    ----------
    draft_tokens : int
        Tokens drafted in a round.
    draft_operations : float
        Operations of the drafter for one token over those of the target.
    tokens_per_round : float
        Tokens emitted by a round, on average.

    Returns
    -------
    float
        At least 1: speculation saves time, never arithmetic.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, the draft is not whole, or a round emits nothing.

    References
    ----------
    Leviathan, Kalman and Matias, ICML 2023, theorem 3.11.

    Examples
    --------
    >>> tokens = expected_tokens(acceptance=0.8, draft_tokens=5)
    >>> round(operations_factor(draft_tokens=5, draft_operations=0, tokens_per_round=tokens), 2)
    1.63
    """
    operations_factor = (draft_tokens * draft_operations + draft_tokens + 1) / tokens_per_round
    return operations_factor
