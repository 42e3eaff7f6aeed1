"""Compare the answers of two engines to the same prompts, and say what the comparison proves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from calc.latency import binomial_cdf
from calc.selection._formulas import flip_rate
from calc.units import CalcError


def first_divergence(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Position, from 0, of the first token that differs; None where the answers are equal.

    Parameters
    ----------
    one, other : sequence of int
        Token ids of two answers to one prompt.

    Returns
    -------
    int or None
        An answer that ends early diverges where it ends.

    Examples
    --------
    >>> first_divergence([5, 7, 9], [5, 8, 9]), first_divergence([5, 7], [5, 7]), first_divergence([5], [5, 7])
    (1, None, 1)
    """
    for position, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


@dataclass(frozen=True)
class Agreement:
    """Two sets of answers to the same prompts.

    Attributes
    ----------
    divergences : tuple of (int or None)
        First different position for each prompt, None where equal.
    lengths : tuple of int
        Tokens of the longer answer to each prompt.
    """

    divergences: tuple[int | None, ...]
    lengths: tuple[int, ...]

    @property
    def compared(self) -> int:
        """Prompts."""
        return len(self.divergences)

    @property
    def equal(self) -> int:
        """Prompts with the same answer from the first token to the last."""
        return sum(d is None for d in self.divergences)

    @property
    def different(self) -> int:
        """The others."""
        return self.compared - self.equal

    @property
    def share_equal(self) -> float:
        """Share of equal answers."""
        return self.equal / self.compared

    @cached_property
    def tokens_compared(self) -> int:
        """Tokens up to and including the first different one, all prompts together."""
        pairs = zip(self.divergences, self.lengths, strict=True)
        return sum(length if at is None else at + 1 for at, length in pairs)

    @property
    def flip_rate(self) -> float:
        """Chance that a token is the first different one, estimated from all prompts."""
        return flip_rate(flips=self.different, compared_tokens=self.tokens_compared)


def agreement(one: Mapping[Hashable, Sequence[int]], other: Mapping[Hashable, Sequence[int]]) -> Agreement:
    """Compare answers prompt by prompt.

    Parameters
    ----------
    one, other : mapping of prompt to token ids
        The same prompts in both.

    Returns
    -------
    Agreement

    Raises
    ------
    CalcError
        If the prompts differ, or there is none.

    Examples
    --------
    >>> found = agreement({"a": [1, 2], "b": [3, 4]}, {"a": [1, 2], "b": [3, 5]})
    >>> found.equal, found.divergences, found.tokens_compared
    (1, (None, 1), 4)
    """
    if not one or one.keys() != other.keys():
        raise CalcError(
            f"agreement: {len(one)} and {len(other)} prompts, {len(one.keys() & other.keys())} of them in both; "
            "compare answers to the same prompts"
        )
    return Agreement(
        tuple(first_divergence(one[prompt], other[prompt]) for prompt in one),
        tuple(max(len(one[prompt]), len(other[prompt])) for prompt in one),
    )


def share_interval(happened: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson interval of a share: what so many of so many allow.

    Parameters
    ----------
    happened, samples : int
        Events, and independent samples.
    confidence : float
        Between 0 and 1; half of the rest lies on each side.

    Returns
    -------
    (float, float)
        Lower and upper limit, 0 to 1.

    Raises
    ------
    CalcError
        If the counts make no sense or the confidence is out of range.

    References
    ----------
    Clopper and Pearson, Biometrika 26, 1934: never covers less than the confidence, often more.

    Examples
    --------
    >>> [round(limit, 4) for limit in share_interval(0, 10)], [round(limit, 4) for limit in share_interval(15, 40)]
    ([0.0, 0.3085], [0.2273, 0.542])
    """
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (happened, samples))
    if not whole or not 0 <= happened <= samples or not samples:
        raise CalcError(f"share_interval: {happened} of {samples} is no share: give whole numbers, at least one sample")
    if not 0 < confidence < 1:
        raise CalcError(f"confidence is {confidence}, wanted a number between 0 and 1")
    tail = (1 - confidence) / 2
    lower = _root(lambda p: 1 - binomial_cdf(samples, p, happened - 1) - tail) if happened else 0.0
    upper = _root(lambda p: tail - binomial_cdf(samples, p, happened)) if happened < samples else 1.0
    return lower, upper


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function of a share crosses 0."""
    low, high = 0.0, 1.0
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
