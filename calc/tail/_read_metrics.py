"""A page of metrics in Prometheus' text format, and what its histograms say of a percentile."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite, isnan
from pathlib import Path

from calc.tail._clocks import Between
from calc.tail._formulas import bucket_point
from calc.units import CalcError
from calc.workload import ReadError

_MADE_BY = "page of metrics in Prometheus' text format, as a server's /metrics gives it"
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\["\\n])*)"\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations counted in buckets.

    Attributes
    ----------
    bounds : tuple of float
        Upper bounds of the buckets, ascending; the last one is infinite.
    counts : tuple of float
        Observations up to each bound.
    total : float
        Sum of all observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float

    @property
    def count(self) -> float:
        """All observations."""
        return self.counts[-1]

    @property
    def mean(self) -> float:
        """Exact, for sum and count are.

        Raises
        ------
        CalcError
            If nothing was observed.
        """
        if not self.count:
            raise CalcError("the histogram is empty: it has no mean")
        return self.total / self.count

    def percentile(self, p: float) -> Between:
        """The bucket that holds a percentile: all that a histogram knows of it.

        Parameters
        ----------
        p : float
            Percent, 0 to 100.

        Returns
        -------
        Between
            Above the lower bound, up to the upper one, which may be infinite.

        Raises
        ------
        CalcError
            If nothing was observed or `p` is out of range.

        Examples
        --------
        >>> Histogram((0.1, 0.5, 1.0, float("inf")), (40, 98, 100, 100), 21.0).percentile(99)
        Between(low=0.5, high=1.0)
        """
        i = self._bucket(p)
        return Between(self.bounds[i - 1] if i else 0.0, self.bounds[i])

    def interpolated(self, p: float) -> float:
        """What Prometheus' ``histogram_quantile`` answers: a point on a straight line through the bucket.

        Raises
        ------
        CalcError
            If nothing was observed or `p` is out of range.

        Notes
        -----
        As `calc.latency.histogram_percentile`, from counts instead of values. Beyond the last finite bound it is that
        bound, however slow the requests were.

        Examples
        --------
        >>> Histogram((0.1, 0.5, 1.0, float("inf")), (40, 98, 100, 100), 21.0).interpolated(99)
        0.75
        """
        i = self._bucket(p)
        if self.bounds[i] == inf:
            return self.bounds[i - 1] if i else 0.0
        return bucket_point(**self.place(p))

    def minus(self, before: Histogram) -> Histogram:
        """What was observed since an earlier page of the same server: counters only ever rise.

        Raises
        ------
        CalcError
            If the buckets differ, or a count fell: the server was started again.
        """
        if before.bounds != self.bounds:
            raise CalcError("the two pages have different buckets: they are of different servers or versions")
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        if min(counts) < 0 or any(b < a for a, b in pairwise(counts)):
            raise CalcError("a count is lower than before: the server was started again between the two pages")
        return Histogram(self.bounds, counts, self.total - before.total)

    def _bucket(self, p: float) -> int:
        if not 0 <= p <= 100:
            raise CalcError(f"percentile {p}: wanted percent between 0 and 100")
        if not self.count:
            raise CalcError("the histogram is empty: it has no percentile")
        rank = self.count * p / 100
        return next(i for i, n in enumerate(self.counts) if n >= rank and n > 0)

    def place(self, p: float) -> dict[str, float]:
        """The arguments of `bucket_point` for a percentile whose bucket has an upper bound."""
        i = self._bucket(p)
        low, below = (self.bounds[i - 1], self.counts[i - 1]) if i else (0.0, 0.0)
        rank = self.count * p / 100
        return {"lower_s": low, "upper_s": self.bounds[i], "ordinal": rank, "below": below, "up_to": self.counts[i]}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page: its labels, its value, and where it stands."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    where: str

    def label(self, name: str) -> str | None:
        """The value of a label, None where it has none."""
        return dict(self.labels).get(name)


@dataclass(frozen=True, slots=True)
class Metrics:
    """A page of metrics.

    Attributes
    ----------
    kinds : dict
        Type of each family by name, as the page declares it.
    samples : tuple of Sample
        In the order of the page.
    """

    kinds: dict[str, str]
    samples: tuple[Sample, ...]

    def value(self, name: str, **labels: str) -> float:
        """The sum of a counter or gauge over its series.

        Raises
        ------
        ReadError
            If no series has this name and these labels.
        """
        return sum(sample.value for sample in self._chosen(name, labels))

    def histogram(self, name: str, **labels: str) -> Histogram:
        """A histogram, its series added up.

        Parameters
        ----------
        name : str
            Its family, such as "vllm:time_to_first_token_seconds".
        **labels
            Only series that have these.

        Returns
        -------
        Histogram

        Raises
        ------
        ReadError
            If the page has no such histogram, or one of its series is cut off or contradicts itself.
        """
        series: dict[tuple, list[Sample]] = {}
        for sample in self._chosen(f"{name}_bucket", labels):
            rest = tuple(pair for pair in sample.labels if pair[0] != "le")
            series.setdefault(rest, []).append(sample)
        parts = [self._series(name, rest, buckets) for rest, buckets in series.items()]
        if len({part.bounds for part in parts}) > 1:
            raise ReadError(f"{name}: its series have different buckets; name the labels of one")
        counts = tuple(map(sum, zip(*(part.counts for part in parts), strict=True)))
        return Histogram(parts[0].bounds, counts, sum(part.total for part in parts))

    def _series(self, name: str, rest: tuple, buckets: list[Sample]) -> Histogram:
        bounds = [_bound(sample) for sample in buckets]
        counts = [sample.value for sample in buckets]
        where = buckets[-1].where
        for (low, fewer), (high, more), sample in zip(
            zip(bounds, counts, strict=True), zip(bounds[1:], counts[1:], strict=True), buckets[1:], strict=False
        ):
            if high <= low or more < fewer:
                raise ReadError(f"{sample.where}: buckets of {name} must ascend, in bound and in count; it is damaged")
        if bounds[-1] != inf:
            raise ReadError(f"{where}: {name} ends without its +Inf bucket; the page is cut off here")
        total, count = (
            [s.value for s in self.samples if s.name == f"{name}_{part}" and s.labels == rest]
            for part in ("sum", "count")
        )
        if len(total) != 1 or len(count) != 1:
            raise ReadError(f"{where}: {name} has no _sum and _count beside these buckets; the page is cut off")
        if count[0] != counts[-1]:
            raise ReadError(f"{where}: {name}_count is {count[0]:g}, its buckets hold {counts[-1]:g}; it is damaged")
        return Histogram(tuple(bounds), tuple(counts), total[0])

    def _chosen(self, name: str, labels: dict[str, str]) -> list[Sample]:
        found = [s for s in self.samples if s.name == name and labels.items() <= dict(s.labels).items()]
        if not found:
            with_labels = f" with {labels}" if labels else ""
            raise ReadError(f"no {name}{with_labels} on this page; it has {_some(self.kinds)}")
        return found


def read_metrics(path: str | Path) -> Metrics:
    """A page of metrics.

    Parameters
    ----------
    path : path
        What a server's ``/metrics`` answered, also gzipped.

    Returns
    -------
    Metrics

    Raises
    ------
    ReadError
        With the line, if it is no such page, a line is malformed or the last one is cut off.

    Notes
    -----
    A page that is cut off between two lines is found when the histogram there is read, for it lacks its last bucket.

    References
    ----------
    Prometheus documentation, "Exposition formats", text-based format 0.0.4: the last line ends with a line feed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ReadError(f"{path.name}: can't be read ({type(error).__name__}); wanted a {_MADE_BY}") from None
    lines = text.split("\n")
    if lines[-1]:
        raise ReadError(f"{path.name}, line {len(lines)}: no line feed at the end; the page is cut off here")
    kinds: dict[str, str] = {}
    samples = []
    for number, line in enumerate(lines[:-1], start=1):
        where = f"{path.name}, line {number}"
        if line.startswith("# TYPE "):
            words = line.split()
            if len(words) != 4:
                raise ReadError(f"{where}: a TYPE line without a name and a type; wanted a {_MADE_BY}")
            kinds[words[2]] = words[3]
        elif line.strip() and not line.startswith("#"):
            samples.append(_sample(line, where))
    if not samples:
        raise ReadError(f"{path.name}: no sample in it; wanted a {_MADE_BY}")
    return Metrics(kinds, tuple(samples))


def _sample(line: str, where: str) -> Sample:
    match = _SAMPLE.fullmatch(line)
    if not match:
        raise ReadError(f"{where}: {line[:40]!r} is no sample; wanted a {_MADE_BY}")
    name, inside, number = match.groups()
    try:
        value = float(number)
    except ValueError:
        raise ReadError(f"{where}: the value is {number!r}, wanted a number") from None
    if isnan(value):
        raise ReadError(f"{where}: the value is NaN, wanted a number")
    labels, place = [], 0
    while inside and place < len(inside):
        label = _LABEL.match(inside, place)
        if not label:
            raise ReadError(f"{where}: labels {inside[:40]!r} can't be read; wanted a {_MADE_BY}")
        labels.append((label[1], label[2]))
        place = label.end()
    return Sample(name, tuple(labels), value, where)


def _bound(sample: Sample) -> float:
    text = sample.label("le")
    try:
        bound = float(text or "")
    except ValueError:
        raise ReadError(f"{sample.where}: the bucket's bound le is {text!r}, wanted a number") from None
    if isnan(bound) or (not isfinite(bound) and bound < 0):
        raise ReadError(f"{sample.where}: the bucket's bound le is {text!r}, wanted a number")
    return bound


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") or "none"
