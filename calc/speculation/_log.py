"""What a log of rounds says, in the words of every engine: one log, many "acceptance rates"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from calc.sources import load_json
from calc.speculation._formulas import acceptance_length, accepted_share, accepted_when_tested
from calc.units import CalcError, plain


@dataclass(frozen=True, slots=True)
class AcceptanceLog:
    """Rounds of speculation, request by request.

    Attributes
    ----------
    accepted, drafted : tuple of tuple of int
        For each request, the draft tokens accepted and proposed in each of its rounds.
    output_tokens : tuple of int
        Tokens of each answer, the one that prefill samples among them.
    """

    accepted: tuple[tuple[int, ...], ...]
    drafted: tuple[tuple[int, ...], ...]
    output_tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.accepted) == len(self.drafted) == len(self.output_tokens):
            raise CalcError("accepted, drafted and output_tokens are of different numbers of requests")
        for took, proposed in zip(self.accepted, self.drafted, strict=True):
            if len(took) != len(proposed) or any(a > d for a, d in zip(took, proposed, strict=True)):
                raise CalcError("a round accepts more than it drafts, or one of the two is missing: the log is damaged")
        if not self.rounds:
            raise CalcError("no round of speculation in this log")
        if not self.tokens_drafted:
            raise CalcError("nothing was drafted in this log")

    @classmethod
    def of(cls, requests: Iterable[tuple[Sequence[int], Sequence[int], int]]) -> AcceptanceLog:
        """Collect requests, each as (accepted, drafted, output tokens)."""
        accepted, drafted, output = [], [], []
        for took, proposed, tokens in requests:
            for count in (*took, *proposed, tokens):
                plain("AcceptanceLog", "a count", count, "count")
            accepted.append(tuple(took))
            drafted.append(tuple(proposed))
            output.append(tokens)
        return cls(tuple(accepted), tuple(drafted), tuple(output))

    @property
    def rounds(self) -> int:
        """Rounds of all requests."""
        return sum(map(len, self.accepted))

    @property
    def tokens_accepted(self) -> int:
        """Draft tokens accepted."""
        return sum(map(sum, self.accepted))

    @property
    def tokens_drafted(self) -> int:
        """Draft tokens proposed."""
        return sum(map(sum, self.drafted))

    @property
    def draft_tokens(self) -> int:
        """The longest draft."""
        return max(max(row, default=0) for row in self.drafted)

    @property
    def rejected(self) -> int:
        """Rounds that ended in a rejection."""
        return sum(a < d for took, proposed in _pairs(self) for a, d in zip(took, proposed, strict=True))

    @property
    def reached(self) -> tuple[float, ...]:
        """For each position of the draft, the share of rounds that accept it and all before it."""
        counts = [sum(a >= i for row in self.accepted for a in row) for i in range(1, self.draft_tokens + 1)]
        return tuple(count / self.rounds for count in counts)

    @property
    def conditional(self) -> tuple[float | None, ...]:
        """For each position, the share of those tested there that pass; None where none was tested."""
        rounds = [(a, d) for took, proposed in _pairs(self) for a, d in zip(took, proposed, strict=True)]
        shares = []
        for i in range(self.draft_tokens):
            tested = [a > i for a, d in rounds if a >= i and d > i]
            shares.append(sum(tested) / len(tested) if tested else None)
        return tuple(shares)


def _pairs(log: AcceptanceLog) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    return zip(log.accepted, log.drafted, strict=True)


def _mean(log: AcceptanceLog, value: Callable[[int, int, int], float]) -> float:
    """Mean over requests that speculated of a function of their tokens, rounds and accepted drafts."""
    found = [
        value(tokens, len(took), sum(took))
        for tokens, took in zip(log.output_tokens, log.accepted, strict=True)
        if took
    ]
    return sum(found) / len(found)


MEASURES: dict[str, Callable[[AcceptanceLog], float]] = {
    "leviathan-alpha": lambda log: accepted_when_tested(accepted=log.tokens_accepted, rejected=log.rejected),
    "vllm-rate": lambda log: accepted_share(accepted=log.tokens_accepted, drafted=log.tokens_drafted),
    "vllm-length": lambda log: acceptance_length(accepted=log.tokens_accepted, rounds=log.rounds),
    "vllm-first": lambda log: log.reached[0],
    "vllm-last": lambda log: log.reached[-1],
    "sglang-rate": lambda log: (log.tokens_accepted + log.rounds) / (log.rounds * (log.draft_tokens + 1)),
    "sglang-length": lambda log: acceptance_length(accepted=log.tokens_accepted, rounds=log.rounds),
    "sglang-request-rate": lambda log: _mean(log, lambda n, r, a: a / (r * log.draft_tokens)),
    "sglang-request-length": lambda log: _mean(log, lambda n, r, a: n / r),
    "trtllm-rate": lambda log: _mean(log, lambda n, r, a: (n - r - 2) / ((r + 2) * log.draft_tokens)),
    "trtllm-length": lambda log: sum(log.output_tokens) / (log.rounds + 2 * len(log.output_tokens)),
    "llamacpp-rate": lambda log: accepted_share(accepted=log.tokens_accepted, drafted=log.tokens_drafted),
    "llamacpp-length": lambda log: acceptance_length(accepted=log.tokens_accepted, rounds=log.rounds),
    "eagle-first": lambda log: log.conditional[0],
    "eagle-last": lambda log: next(share for share in reversed(log.conditional) if share is not None),
    "eagle-tau": lambda log: acceptance_length(accepted=log.tokens_accepted, rounds=log.rounds),
    "medusa-acceleration": lambda log: acceptance_length(accepted=log.tokens_accepted, rounds=log.rounds),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One engine's or paper's number about acceptance: its name there, its definition, and where it was read.

    Attributes
    ----------
    key : str
        A key of `MEASURES`.
    engine, version, name : str
        Who prints it, in which version, under which name.
    kind : str
        "share" or "tokens": what it counts.
    definition : str
        In words.
    sources : tuple of mapping
        What was read: file, address, date.
    """

    key: str
    engine: str
    version: str
    name: str
    kind: str
    definition: str
    sources: tuple[MappingProxyType[str, str], ...]

    def measure(self, log: AcceptanceLog) -> float:
        """The number that it prints for a log."""
        return MEASURES[self.key](log)


def conventions() -> tuple[Convention, ...]:
    """Every convention of data/acceptance_conventions.json, in file order.

    Examples
    --------
    >>> log = AcceptanceLog.of([([3, 0, 2, 1], [3, 3, 3, 3], 11)])
    >>> {c.key: round(c.measure(log), 3) for c in conventions() if c.engine == "vLLM"}
    {'vllm-rate': 0.5, 'vllm-length': 2.5, 'vllm-first': 0.75, 'vllm-last': 0.25}
    """
    facts = load_json("acceptance_conventions.json")
    return tuple(
        Convention(
            key=key,
            **{name: row[name] for name in ("engine", "version", "name", "kind", "definition")},
            sources=tuple(MappingProxyType(facts["sources"][source]) for source in row["sources"]),
        )
        for key, row in facts["conventions"].items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLengths:
    """Mean tokens of a round that somebody measured at growing draft lengths.

    Attributes
    ----------
    slug, name : str
    lengths : mapping of int to float
        Draft length → mean tokens of a round, the correction or bonus included.
    source, url, checked : str
    """

    slug: str
    name: str
    lengths: MappingProxyType[int, float]
    source: str
    url: str
    checked: str


def published_lengths(slug: str) -> PublishedLengths:
    """Acceptance lengths of a real model and drafter.

    Parameters
    ----------
    slug : str
        One of data/acceptance_lengths.json.

    Raises
    ------
    CalcError
        If there is none of that name; the message lists those there are.

    Examples
    --------
    >>> published_lengths("qwen3.5-mtp").lengths[1]
    1.93
    """
    runs = load_json("acceptance_lengths.json")["runs"]
    if slug not in runs:
        raise CalcError(f"no acceptance lengths of {slug!r:.40}: there is {', '.join(runs)}")
    run = runs[slug]
    return PublishedLengths(
        slug=slug,
        lengths=MappingProxyType({int(k): length for k, length in run["lengths"].items()}),
        **{name: run[name] for name in ("name", "source", "url", "checked")},
    )
