"""Steps as an engine logged them, and step-time models fitted to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from calc.queueing import SingularMatrix, eliminated
from calc.roofline import positions_read
from calc.scheduling._clock import Affine
from calc.scheduling._ledger import Step
from calc.scheduling._requests import SchedulingError
from calc.workload import Fields, read_recording

_MADE_BY = "recording of data/measured with an engine's steps, schema 1, made by `make measure`"


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step of an engine.

    Attributes
    ----------
    at_s : float
        When its result was logged, from the start of the run.
    elapsed_s : float
        How long the model ran.
    prefill_requests, prefill_tokens : int
        Prompts in it that are not done before it, and their tokens.
    decode_requests, decode_tokens : int
        Requests that decode, and their tokens.
    """

    at_s: float
    elapsed_s: float
    prefill_requests: int
    prefill_tokens: int
    decode_requests: int
    decode_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The steps of one accepted repeat.

    Attributes
    ----------
    setup, name : str
        The engine's setting and the load.
    number : int
        Which repeat.
    parameters : mapping
        What distinguishes the load from the others of its recording.
    iterations : tuple of Iteration
        In order of time.
    """

    setup: str
    name: str
    number: int
    parameters: MappingProxyType[str, Any]
    iterations: tuple[Iteration, ...]


def read_iterations(path: str | Path) -> tuple[Log, ...]:
    """The engine's own steps in a recording of data/measured.

    Parameters
    ----------
    path : path
        A file of data/measured, gzipped or not.

    Returns
    -------
    tuple of Log
        Accepted repeats, in the order of the recording.

    Raises
    ------
    ReadError
        With the line, if the file is cut off, of another schema, or holds no steps.
    """
    recording = read_recording(path, _MADE_BY, "steps")
    logs = {row.count("run"): row for row in recording.rows["steps"]}
    return tuple(
        Log(
            setup=run.text("setup"),
            name=run.text("name"),
            number=run.count("repeat"),
            parameters=MappingProxyType(dict(run.fields("parameters").data)),
            iterations=_iterations(logs[number]),
        )
        for number, run in recording.runs.items()
        if number in logs
    )


def _iterations(row: Fields) -> tuple[Iteration, ...]:
    counts = ("prefill_requests", "prefill_tokens", "decode_requests", "decode_tokens")
    columns = [list(accumulate(row.numbers("at_us"))), row.numbers("elapsed_us"), *map(row.numbers, counts)]
    if len({len(column) for column in columns}) > 1:
        raise row.wrong("at_us", "columns of equal length")
    return tuple(
        Iteration(at / 1e6, elapsed / 1e6, *map(int, rest)) for at, elapsed, *rest in zip(*columns, strict=True)
    )


# --- models of a step ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The load of a step and its time.

    Attributes
    ----------
    time_s : float
        Seconds, above 0.
    prefill_tokens : int
        Prompt tokens.
    prefix_positions : int
        Positions that stood in the cache before them.
    decode_sequences, decode_positions : int
        Sequences that decode, and the positions that they read together.
    """

    time_s: float
    prefill_tokens: int = 0
    prefix_positions: int = 0
    decode_sequences: int = 0
    decode_positions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadratic:
    """A step time that also grows with the pairs of positions that prompts attend to.

    Attributes
    ----------
    base_s, prefill_token_s, decode_sequence_s : float
        As in `Affine`.
    cached_token_s : float
        Seconds for each position that a decoding sequence reads.
    pair_s : float
        Seconds for each pair of a prompt token and a position it attends to.

    Notes
    -----
    A chunk's attention grows with its prefix and with its own length. `simulate` goes through such steps one by one.

    Examples
    --------
    >>> from calc.scheduling import Row, Step
    >>> step = Step(0, (Row("a", 100, 50, 10),), (), (), ("a",), 0, 90, 90)
    >>> Quadratic(base_s=0.01, pair_s=1e-6)(step)  # 5,000 pairs with the prefix, 5,050 inside
    0.02005
    """

    base_s: float
    prefill_token_s: float = 0.0
    decode_sequence_s: float = 0.0
    cached_token_s: float = 0.0
    pair_s: float = 0.0

    def __call__(self, step: Step) -> float:
        """Seconds of a step."""
        pairs = positions = 0
        for row in step.rows:
            if row.decodes:
                positions += row.computed
            else:
                pairs += positions_read(new=row.tokens, cached=row.computed)
        return (
            self.base_s
            + self.prefill_token_s * step.prefill_tokens
            + self.decode_sequence_s * step.decode_sequences
            + self.cached_token_s * positions
            + self.pair_s * pairs
        )


def step_samples(logs: Iterable[Log]) -> list[Sample]:
    """Loads and times of single steps, from a recording of a grid of them.

    Parameters
    ----------
    logs : iterable of Log
        Of data/measured/steps.jsonl.gz: prompts one at a time, and batches that decode at a known context.

    Returns
    -------
    list of Sample
        One for each prompt, and for each batch the median of its steps.

    Raises
    ------
    SchedulingError
        If no batch decodes.

    Notes
    -----
    A decode step takes the time from one result to the next. A prompt's step stands alone, so it takes what the model
    ran and, on top, what decode steps take beyond that: scheduling, sampling and sending.
    """
    prompts, decodes, beyond = [], [], []
    for log in logs:
        if "batch" not in log.parameters:
            prompts += [i for i in log.iterations if i.prefill_requests == 1 and not i.decode_requests]
            continue
        batch, context = log.parameters["batch"], log.parameters["context_tokens"]
        steps = [
            (context + place, one.at_s - before.at_s, one.elapsed_s)
            for place, (before, one) in enumerate(pairwise(log.iterations), start=1)
            if before.decode_requests == one.decode_requests == batch and not one.prefill_requests
        ]
        if steps:
            positions, times, _ = zip(*steps, strict=True)
            beyond += [time - ran for _, time, ran in steps]
            decodes.append(
                Sample(time_s=median(times), decode_sequences=batch, decode_positions=round(batch * median(positions)))
            )
    if not decodes:
        raise SchedulingError("no batch decodes in this recording: give that of a grid of steps")
    extra = median(beyond)
    return [Sample(time_s=i.elapsed_s + extra, prefill_tokens=i.prefill_tokens) for i in prompts] + decodes


def fit_affine(samples: Iterable[Sample]) -> Affine:
    """The affine step time that is least far off, in relative terms.

    Parameters
    ----------
    samples : iterable of Sample
        Steps of different loads.

    Returns
    -------
    Affine
        No coefficient is below 0. One that the samples can't tell is 0.

    Raises
    ------
    SchedulingError
        If there is no sample, or a time is not above 0.

    Examples
    --------
    >>> steps = [Sample(time_s=0.010 + n * 1e-5, prefill_tokens=n) for n in (16, 256, 2048)]
    >>> fitted = fit_affine(steps)
    >>> round(fitted.base_s, 6), round(fitted.prefill_token_s, 9)
    (0.01, 1e-05)
    """
    base, prefill, decode, cached = _fit(
        samples,
        lambda s: (1, s.prefill_tokens, s.decode_sequences, s.prefix_positions + s.decode_positions),
    )
    return Affine(base_s=base, prefill_token_s=prefill, decode_sequence_s=decode, cached_token_s=cached)


def fit_quadratic(samples: Iterable[Sample]) -> Quadratic:
    """The step time with pairs that is least far off, in relative terms.

    Parameters
    ----------
    samples : iterable of Sample
        Steps of different loads, prompts of several lengths among them.

    Returns
    -------
    Quadratic
        No coefficient is below 0. One that the samples can't tell is 0.

    Raises
    ------
    SchedulingError
        If there is no sample, or a time is not above 0.

    Examples
    --------
    >>> times = {n: 0.010 + n * 1e-5 + n * (n + 1) / 2 * 1e-8 for n in (16, 256, 2048)}
    >>> fitted = fit_quadratic(Sample(time_s=t, prefill_tokens=n) for n, t in times.items())
    >>> round(fitted.prefill_token_s, 9), round(fitted.pair_s, 12)
    (1e-05, 1e-08)
    """
    base, prefill, decode, cached, pair = _fit(
        samples,
        lambda s: (
            1,
            s.prefill_tokens,
            s.decode_sequences,
            s.decode_positions,
            positions_read(new=s.prefill_tokens, cached=s.prefix_positions),
        ),
    )
    return Quadratic(base_s=base, prefill_token_s=prefill, decode_sequence_s=decode, cached_token_s=cached, pair_s=pair)


def _fit(samples: Iterable[Sample], parts: Any) -> list[float]:
    """Coefficients of at least 0 with the least sum of squared relative errors.

    With so few of them every choice of those above 0 can be tried.
    """
    samples = list(samples)
    if not samples or any(sample.time_s <= 0 for sample in samples):
        raise SchedulingError("a fit needs samples of steps, each with a time above 0 s")
    rows = [[part / sample.time_s for part in parts(sample)] for sample in samples]
    width = len(rows[0])
    scale = [max(row[i] for row in rows) or 1.0 for i in range(width)]
    rows = [[value / size for value, size in zip(row, scale, strict=True)] for row in rows]
    best, found = float("inf"), [0.0] * width
    for count in range(1, width + 1):
        for chosen in combinations(range(width), count):
            solved = _solve([[row[i] for i in chosen] for row in rows])
            if solved is None or min(solved) < 0:
                continue
            error = sum((sum(c * row[i] for c, i in zip(solved, chosen, strict=True)) - 1) ** 2 for row in rows)
            if error < best - 1e-15:
                best, found = error, [0.0] * width
                for coefficient, i in zip(solved, chosen, strict=True):
                    found[i] = coefficient / scale[i]
    return found


def _solve(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Least squares for a right side of ones, by the normal equations; None where columns depend on each other."""
    columns = range(len(rows[0]))
    table = [[*(sum(r[i] * r[j] for r in rows) for j in columns), sum(r[i] for r in rows)] for i in columns]
    try:
        return [solved for (solved,) in eliminated(table)]
    except SingularMatrix:
        return None
