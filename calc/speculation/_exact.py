"""Speculative sampling on a small vocabulary, by enumeration: every draft, every verdict, every replacement.

A model here is a table: row `t` holds the chances of the next token after token `t`. With fractions the
results are exact, so that "the same distribution" means equal, not close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from calc.units import CalcError

Chances = Sequence[Fraction]
LARGEST_VOCABULARY, LONGEST_DRAFT = 5, 4  # the outcomes of a round grow with their power


def chances(weights: Sequence[int]) -> tuple[Fraction, ...]:
    """Whole weights as exact chances.

    Raises
    ------
    CalcError
        If a weight is negative or not whole, or all are 0.

    Examples
    --------
    >>> chances([1, 3])
    (Fraction(1, 4), Fraction(3, 4))
    """
    if any(isinstance(w, bool) or not isinstance(w, int) or w < 0 for w in weights) or not sum(weights):
        raise CalcError(f"weights are {list(weights)}, wanted whole numbers of at least 0, not all of them 0")
    total = sum(weights)
    return tuple(Fraction(weight, total) for weight in weights)


def overlap(target: Chances, draft: Chances) -> Fraction:
    """Chance that a token of the drafter is accepted: what the two distributions have in common.

    Examples
    --------
    >>> overlap(chances([1, 1]), chances([3, 1]))
    Fraction(3, 4)
    """
    return sum((min(p, q) for p, q in zip(target, draft, strict=True)), Fraction(0))


def distance(first: Chances, second: Chances) -> Fraction:
    """Total variation distance: the largest difference in the chance of any event.

    Examples
    --------
    >>> distance(chances([1, 1]), chances([3, 1]))
    Fraction(1, 4)
    """
    return sum((abs(a - b) for a, b in zip(first, second, strict=True)), Fraction(0)) / 2


def residual(target: Chances, draft: Chances) -> tuple[Fraction, ...]:
    """What the target gives and the drafter does not, as a distribution: a rejected token's replacement.

    Where the two are equal nothing is ever rejected, and this is the target itself.

    Examples
    --------
    >>> residual(chances([1, 1]), chances([3, 1]))
    (Fraction(0, 1), Fraction(1, 1))
    """
    left = [max(p - q, Fraction(0)) for p, q in zip(target, draft, strict=True)]
    total = sum(left)
    return tuple(part / total for part in left) if total else tuple(target)


def ratio(p: Fraction, q: Fraction) -> Fraction:
    return min(Fraction(1), p / q) if q else Fraction(1)


def _others(target: Chances, token: int) -> tuple[Fraction, ...]:
    """The target's own draw, given that it is not this token."""
    rest = 1 - target[token]
    return tuple(Fraction(0) if t == token else p / rest for t, p in enumerate(target)) if rest else tuple(target)


def _most_likely(draft: Chances) -> tuple[Fraction, ...]:
    best = max(range(len(draft)), key=lambda token: draft[token])
    return tuple(Fraction(token == best) for token in range(len(draft)))


@dataclass(frozen=True, slots=True)
class Rule:
    """How a draft token is proposed, tested and replaced.

    Attributes
    ----------
    name : str
    propose : callable
        The drafter's chances → those with which it really draws.
    accept : callable
        Target, draft, token → the chance that the token is accepted.
    replace : callable
        Target, draft, rejected token → the chances of its replacement.
    """

    name: str
    propose: Callable[[Chances], Chances]
    accept: Callable[[Chances, Chances, int], Fraction]
    replace: Callable[[Chances, Chances, int], Chances]


RULES: dict[str, Rule] = {
    "speculative": Rule(
        "speculative sampling", lambda q: q, lambda p, q, t: ratio(p[t], q[t]), lambda p, q, t: residual(p, q)
    ),
    "match": Rule("match a draw of the target", lambda q: q, lambda p, q, t: p[t], lambda p, q, t: _others(p, t)),
    "threshold": Rule(
        "accept only where p ≥ q", lambda q: q, lambda p, q, t: Fraction(p[t] >= q[t]), lambda p, q, t: residual(p, q)
    ),
    "resample": Rule(
        "replace from p, not from the residual", lambda q: q, lambda p, q, t: ratio(p[t], q[t]), lambda p, q, t: p
    ),
    "greedy": Rule(
        "draft the likeliest token, test with q", _most_likely, lambda p, q, t: ratio(p[t], q[t]),
        lambda p, q, t: residual(p, q),
    ),
}  # fmt: skip


def _rule(name: str) -> Rule:
    if name not in RULES:
        raise CalcError(f"rule is {name!r:.40}, wanted one of {', '.join(RULES)}")
    return RULES[name]


@dataclass(frozen=True, slots=True)
class Emitted:
    """One position under a rule: the chances of the token that comes out, and of acceptance."""

    chances: tuple[Fraction, ...]
    acceptance: Fraction


def one_position(target: Chances, draft: Chances, rule: str = "speculative") -> Emitted:
    """Enumerate one position: each proposal, its verdict, each replacement.

    Parameters
    ----------
    target, draft : sequence of Fraction
        Chances of the next token, by both models.
    rule : str
        A key of `RULES`.

    Returns
    -------
    Emitted

    Raises
    ------
    CalcError
        If the rule is unknown, or the two differ in length or don't sum to 1.

    Examples
    --------
    >>> one_position(chances([1, 1]), chances([3, 1])).chances
    (Fraction(1, 2), Fraction(1, 2))
    >>> one_position(chances([1, 1]), chances([3, 1]), "resample").chances
    (Fraction(5, 8), Fraction(3, 8))
    """
    _check(target, draft)
    how = _rule(rule)
    out, acceptance = [Fraction(0)] * len(target), Fraction(0)
    for token, proposed in enumerate(how.propose(draft)):
        if proposed:
            kept = proposed * how.accept(target, draft, token)
            acceptance += kept
            out[token] += kept
            if proposed > kept:
                for other, chance in enumerate(how.replace(target, draft, token)):
                    out[other] += (proposed - kept) * chance
    return Emitted(tuple(out), acceptance)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way a round can end.

    Attributes
    ----------
    tokens : tuple of int
        What it emits: the accepted prefix, then the correction or the bonus.
    accepted : int
        Draft tokens accepted.
    chance : Fraction
    """

    tokens: tuple[int, ...]
    accepted: int
    chance: Fraction


def round_outcomes(
    target: Sequence[Chances], draft: Sequence[Chances], *, last: int, draft_tokens: int, rule: str = "speculative"
) -> tuple[Outcome, ...]:
    """Every way a round can end, with its chance.

    Parameters
    ----------
    target, draft : sequence of sequence of Fraction
        Row `t` holds the chances after token `t`.
    last : int
        The newest token before the round.
    draft_tokens : int
        Tokens drafted, 0 to `LONGEST_DRAFT`.
    rule : str
        A key of `RULES`.

    Returns
    -------
    tuple of Outcome
        Their chances sum to 1.

    Raises
    ------
    CalcError
        If a table is not square or a row no distribution, or there is too much to enumerate.

    Examples
    --------
    >>> rows = [chances([1, 1]), chances([1, 1])]
    >>> ends = round_outcomes(rows, [chances([3, 1])] * 2, last=0, draft_tokens=1)
    >>> sum(end.chance for end in ends), len(ends)
    (Fraction(1, 1), 5)
    """
    check_tables(target, draft, last)
    if isinstance(draft_tokens, bool) or draft_tokens not in range(LONGEST_DRAFT + 1):
        raise CalcError(f"a draft of {draft_tokens!r:.20} tokens is too much to enumerate: wanted 0 to {LONGEST_DRAFT}")
    how, ends = _rule(rule), {}

    def end(tokens: tuple[int, ...], accepted: int, chance: Fraction) -> None:
        ends[tokens, accepted] = ends.get((tokens, accepted), Fraction(0)) + chance

    def go(prefix: tuple[int, ...], chance: Fraction) -> None:
        p, q = (rows[prefix[-1] if prefix else last] for rows in (target, draft))
        if len(prefix) == draft_tokens:  # all accepted: the target's step has computed one position more
            for token, bonus in enumerate(p):
                if bonus:
                    end((*prefix, token), len(prefix), chance * bonus)
            return
        for token, proposed in enumerate(how.propose(q)):
            kept = proposed * how.accept(p, q, token) if proposed else Fraction(0)
            if kept:
                go((*prefix, token), chance * kept)
            if proposed > kept:
                for other, replacement in enumerate(how.replace(p, q, token)):
                    if replacement:
                        end((*prefix, other), len(prefix), chance * (proposed - kept) * replacement)

    go((), Fraction(1))
    return tuple(Outcome(tokens, accepted, chance) for (tokens, accepted), chance in ends.items())


def sequences(
    target: Sequence[Chances],
    draft: Sequence[Chances],
    *,
    last: int,
    draft_tokens: int,
    length: int,
    rule: str = "speculative",
) -> dict[tuple[int, ...], Fraction]:
    """Chances of every sequence that rounds emit, cut to one length.

    Parameters
    ----------
    target, draft, last, draft_tokens, rule
        As in `round_outcomes`; a draft of 0 gives the target's own sequences.
    length : int
        Tokens of a sequence, 1 to `LONGEST_DRAFT` + 1.

    Returns
    -------
    dict of tuple to Fraction

    Raises
    ------
    CalcError
        As `round_outcomes`, or if the length is out of range.

    Examples
    --------
    >>> rows, wrong = [chances([1, 2]), chances([3, 1])], [chances([5, 1]), chances([1, 1])]
    >>> plain = sequences(rows, wrong, last=0, draft_tokens=0, length=3)
    >>> sequences(rows, wrong, last=0, draft_tokens=2, length=3) == plain
    True
    """
    if isinstance(length, bool) or length not in range(1, LONGEST_DRAFT + 2):
        raise CalcError(f"{length!r:.20} tokens are too many to enumerate: wanted 1 to {LONGEST_DRAFT + 1}")
    after: dict[int, tuple[Outcome, ...]] = {}
    done: dict[tuple[int, ...], Fraction] = {}
    open_: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    while open_:
        text, chance = open_.popitem()
        newest = text[-1] if text else last
        if newest not in after:
            after[newest] = round_outcomes(target, draft, last=newest, draft_tokens=draft_tokens, rule=rule)
        for outcome in after[newest]:
            longer = (*text, *outcome.tokens)[:length]
            where = done if len(longer) == length else open_
            where[longer] = where.get(longer, Fraction(0)) + chance * outcome.chance
    return done


def _check(target: Chances, draft: Chances, size: int | None = None) -> None:
    sizes = {len(target), len(draft), size or len(target)}
    if len(sizes) != 1 or any(sum(row) != 1 or min(row) < 0 for row in (target, draft)):
        raise CalcError("a row is no distribution: wanted one chance for each token, together exactly 1")


def check_tables(target: Sequence[Chances], draft: Sequence[Chances], last: int) -> None:
    size = len(target)
    if not 1 <= size <= LARGEST_VOCABULARY or len(draft) != size:
        raise CalcError(f"{size} and {len(draft)} rows: wanted as many of both, 1 to {LARGEST_VOCABULARY}")
    for p, q in zip(target, draft, strict=True):
        _check(p, q, size)
    if last not in range(size):
        raise CalcError(f"the last token is {last!r:.20}, wanted 0 to {size - 1}")
