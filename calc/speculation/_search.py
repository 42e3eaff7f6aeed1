"""What has no closed form: tokens by position, the acceptance that breaks even, the best draft length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calc.speculation._formulas import expected_tokens, round_speedup
from calc.units import CalcError, plain, significant

_HALVINGS = 100  # of the interval from 0 to 1: as exact as a float can be


def expected_tokens_by_position(reached: Sequence[float]) -> float:
    """Tokens that a round emits on average, from how often each position of the draft is reached and accepted.

    Parameters
    ----------
    reached : sequence of float
        For each position of the draft, the share of rounds that accept it and all before it: what vLLM prints
        as per-position acceptance rate. It can't rise.

    Returns
    -------
    float
        1 and the sum of the shares.

    Raises
    ------
    CalcError
        If a share is not between 0 and 1, or is above the one before it.

    Notes
    -----
    Exact whatever the positions have to do with each other: a mean of counts is the sum of the shares.

    Examples
    --------
    >>> round(expected_tokens_by_position([0.543, 0.357, 0.264]), 3)
    2.164
    """
    before = 1.0
    for share in reached:
        if not plain("expected_tokens_by_position", "a share", share, "") <= before:
            raise CalcError(
                f"a share of {significant(share)} after {significant(before)}: wanted shares from 0 to 1 that don't "
                "rise, for a position is reached only if the one before it was accepted"
            )
        before = share
    return 1 + sum(reached)


def by_position(lengths: Mapping[int, float]) -> dict[int, tuple[float, float]]:
    """What acceptance lengths at growing draft lengths say about each position of the draft.

    Parameters
    ----------
    lengths : mapping of int to float
        Draft length, from 1 without gaps → mean tokens of a round.

    Returns
    -------
    dict of int to (float, float)
        Position → the share of rounds that reach and accept it, and its acceptance given that all before it
        were accepted. Noise can make them leave the range from 0 to 1.

    Raises
    ------
    CalcError
        If the draft lengths have gaps, or a length is below 1.

    Notes
    -----
    A difference of two lengths that were measured in two runs: exact only if the drafter proposes the same
    first tokens whatever follows, and both runs saw the same text.

    Examples
    --------
    >>> {k: (round(a, 2), round(b, 2)) for k, (a, b) in by_position({1: 1.8, 2: 2.4}).items()}
    {1: (0.8, 0.8), 2: (0.6, 0.75)}
    """
    if sorted(lengths) != list(range(1, len(lengths) + 1)):
        raise CalcError(f"draft lengths are {', '.join(map(str, lengths))}, wanted 1, 2, 3 and so on without gaps")
    if min(lengths.values(), default=1) < 1:
        raise CalcError("a mean of fewer than 1 token in a round: every round emits at least one")
    shares, before, length = {}, 1.0, 1.0
    for k in range(1, len(lengths) + 1):
        share = lengths[k] - length
        shares[k] = share, share / before if before > 0 else 0.0
        before, length = share, lengths[k]
    return shares


def acceptance_for(*, tokens_per_round: float, draft_tokens: int) -> float:
    """The acceptance at which a draft of this length emits so many tokens: `expected_tokens` turned around.

    Parameters
    ----------
    tokens_per_round : float
        Mean tokens of a round, from 1 to below `draft_tokens` + 1.
    draft_tokens : int
        Tokens drafted in a round, at least 1.

    Returns
    -------
    float
        From 0 to below 1.

    Raises
    ------
    CalcError
        If no acceptance gives so many tokens.

    Examples
    --------
    >>> round(acceptance_for(tokens_per_round=1.41, draft_tokens=3), 2)
    0.3
    """
    plain("acceptance_for", "draft_tokens", draft_tokens, "count>0")
    plain("acceptance_for", "tokens_per_round", tokens_per_round, ">0")
    if not 1 <= tokens_per_round < draft_tokens + 1:
        raise CalcError(
            f"{significant(tokens_per_round)} tokens a round can't come of drafts of {draft_tokens}: wanted from 1 to "
            f"below {draft_tokens + 1}"
        )
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if expected_tokens(acceptance=middle, draft_tokens=draft_tokens) < tokens_per_round:
            low = middle
        else:
            high = middle
    return low


def break_even_acceptance(*, round_cost: float, draft_tokens: int) -> float | None:
    """The acceptance above which a round beats the plain steps it takes as long as.

    Parameters
    ----------
    round_cost : float
        Time of a round over the time of a plain step.
    draft_tokens : int
        Tokens drafted in a round, at least 1.

    Returns
    -------
    float or None
        From 0 to below 1; None where even a perfect draft would lose or come out even.

    Raises
    ------
    CalcError
        If an argument is not positive or the draft is not whole.

    Examples
    --------
    >>> round(break_even_acceptance(round_cost=1.5, draft_tokens=3), 3)
    0.343
    >>> break_even_acceptance(round_cost=4, draft_tokens=3) is None
    True
    """
    plain("break_even_acceptance", "draft_tokens", draft_tokens, "count>0")
    plain("break_even_acceptance", "round_cost", round_cost, ">0")
    if round_cost <= 1:
        return 0.0
    if round_cost >= draft_tokens + 1:
        return None
    return acceptance_for(tokens_per_round=round_cost, draft_tokens=draft_tokens)


def best_draft_length(*, tokens: Mapping[int, float], costs: Mapping[int, float]) -> int:
    """The draft length with the largest speed-up; the shortest of several.

    Parameters
    ----------
    tokens : mapping of int to float
        Draft length → mean tokens of a round.
    costs : mapping of int to float
        Draft length → time of a round over the time of a plain step.

    Returns
    -------
    int
        0 where no draft is faster than none.

    Raises
    ------
    CalcError
        If the two don't hold the same draft lengths.

    Notes
    -----
    For one batch size, to which the costs belong.

    Examples
    --------
    >>> tokens = {k: expected_tokens(acceptance=0.7, draft_tokens=k) for k in range(1, 9)}
    >>> best_draft_length(tokens=tokens, costs={k: 1 + 0.1 * k for k in tokens})
    4
    """
    if tokens.keys() != costs.keys():
        raise CalcError("tokens and costs are of different draft lengths: give both for each")
    best, most = 0, 1.0
    for k in sorted(tokens):
        gain = round_speedup(tokens_per_round=tokens[k], round_cost=costs[k])
        if k and gain > most:
            best, most = k, gain
    return best
