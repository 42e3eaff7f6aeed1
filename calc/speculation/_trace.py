"""One round of speculative sampling with its chance written out: drafts and numbers drawn are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from calc.speculation._exact import Chances, check_tables, ratio, residual
from calc.units import CalcError


@dataclass(frozen=True, slots=True)
class Tested:
    """One draft token under the target's eyes.

    Attributes
    ----------
    token : int
    draft, target : Fraction
        Its chance by both models.
    keep : Fraction
        The chance to accept it.
    coin : Fraction
        A number drawn evenly from 0 to 1: below `keep` the token is accepted.
    accepted : bool or None
        None where it was not tested, because one before it was rejected.
    """

    token: int
    draft: Fraction
    target: Fraction
    keep: Fraction
    coin: Fraction
    accepted: bool | None


@dataclass(frozen=True, slots=True)
class Trace:
    """One round, token by token: the tests, and where its last token came from."""

    tests: tuple[Tested, ...]
    source: tuple[Fraction, ...]  # chances of the last token: the residual, or the target's where all passed
    last: int

    @property
    def accepted(self) -> int:
        """Draft tokens accepted."""
        return sum(test.accepted is True for test in self.tests)

    @property
    def tokens(self) -> tuple[int, ...]:
        """What the round emits."""
        return (*(test.token for test in self.tests[: self.accepted]), self.last)


def trace_round(
    target: Sequence[Chances],
    draft: Sequence[Chances],
    *,
    last: int,
    drafted: Sequence[int],
    coins: Sequence[Fraction],
) -> Trace:
    """One round of speculative sampling with its chance written out: drafts and coins are given.

    Parameters
    ----------
    target, draft : sequence of sequence of Fraction
        Row `t` holds the chances after token `t`.
    last : int
        The newest token before the round.
    drafted : sequence of int
        What the drafter drew.
    coins : sequence of Fraction
        One number from 0 to below 1 for each draft token, and one for the last token of the round.

    Returns
    -------
    Trace

    Raises
    ------
    CalcError
        If there are not enough coins, or the drafter could not have drawn a token.

    Examples
    --------
    >>> from calc.speculation import chances
    >>> rows, wrong = [chances([1, 1])] * 2, [chances([3, 1])] * 2
    >>> trace_round(rows, wrong, last=0, drafted=[1, 0], coins=[Fraction(9, 10)] * 3).tokens
    (1, 1)
    """
    check_tables(target, draft, last)
    if len(coins) != len(drafted) + 1 or not all(0 <= coin < 1 for coin in coins):
        raise CalcError(f"{len(coins)} coins for {len(drafted)} draft tokens: wanted one more, each from 0 to below 1")
    tests, newest, rejected = [], last, None
    for token, coin in zip(drafted, coins[:-1], strict=True):
        p, q = target[newest], draft[newest]
        if not q[token]:
            raise CalcError("the drafter gives a drawn token no chance: draw one with a weight above 0")
        keep = ratio(p[token], q[token])
        verdict = None if rejected else coin < keep
        tests.append(Tested(token, q[token], p[token], keep, coin, verdict))
        if verdict is False:
            rejected = residual(p, q)
        newest = token
    source = rejected or tuple(target[newest])
    return Trace(tuple(tests), source, pick(source, coins[-1]))


def pick(distribution: Chances, coin: Fraction) -> int:
    """The token on which an even number from 0 to 1 falls, tokens side by side in the order of the vocabulary.

    Examples
    --------
    >>> from calc.speculation import chances
    >>> pick(chances([1, 2, 1]), Fraction(1, 2))
    1
    """
    total = Fraction(0)
    for token, chance in enumerate(distribution):
        total += chance
        if coin < total:
            return token
    raise CalcError("the number is not below 1: wanted from 0 to below 1")
