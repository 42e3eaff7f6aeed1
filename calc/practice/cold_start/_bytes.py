"""Problems about bytes and rates: a hop, a log, ranks that read, page faults, hops that work at the same time."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import startup
from calc.adapters import move_seconds
from calc.practice._problem import Problem
from calc.practice.cold_start._model import GB, GIB, HOPS, MODELS, PIECES, READERS, described, weights
from calc.units import UNITS, format_decimal, format_percent, format_seconds, significant
from calc.working import working

MS = UNITS["ms"].factor
PAGE = 4 * UNITS["KiB"].factor


def _moved(n: Numbers) -> dict[str, float]:
    return {"moved_bytes": weights(n.model), "bytes_per_second": n.rate * GB}


one_hop = Problem(
    id="cold_start/one-hop",
    title="One hop",
    level=1,
    step=HOPS,
    printed={"model": "qwen2.5-72b", "rate": 3.2},
    choices={"model": MODELS, "rate": (0.8, 1.25, 3.2, 6.8, 12.5, 26)},
    ask=lambda n: (
        f"{described(n.model)}. A disk delivers {n.rate:g} GB/s to the node, as measured. What is the floor of reading "
        "the weights from it once?"
    ),
    unit="s",
    answer=lambda n: move_seconds(**_moved(n)),
    mistakes={
        "counts one byte for a parameter": lambda n: move_seconds(**_moved(n)) / 2,
        "reads GB/s as GiB/s": lambda n: move_seconds(**_moved(n)) * GB / GIB,
        "reads GB/s as Gbit/s": lambda n: 8 * move_seconds(**_moved(n)),
    },
    hint="Parameters times bytes, over bytes per second. Rates are decimal.",
    solution=lambda n: [
        f"Two bytes a parameter: {weights(n.model):,} B.",
        working(move_seconds, **_moved(n)),
    ],
)


def _share(n: Numbers) -> float:
    return startup.average_rate(moved_bytes=n.gib * GIB, elapsed=n.seconds) / (n.printed_rate * GB)


from_a_log = Problem(
    id="cold_start/from-a-log",
    title="What arrived",
    level=1,
    step=HOPS,
    printed={"gib": 26.5, "seconds": 9.2, "printed_rate": 14.0},
    choices={
        "gib": (3.4, 7.6, 15.0, 26.5, 61.0),
        "seconds": (4.4, 9.2, 14.5, 38.0),
        "printed_rate": (14.0, 29.4, 64.0),
    },
    possible=lambda n: 0.01 < _share(n) < 0.8,
    ask=lambda n: (
        f"A log says that {n.gib:g} GiB of weights were loaded in {n.seconds:g} s. The disks are sold with "
        f"{n.printed_rate:g} GB/s. What share of the printed rate arrived?"
    ),
    unit="x",
    answer=_share,
    mistakes={
        "reads GiB as GB": lambda n: _share(n) * GB / GIB,
        "turns the ratio around": lambda n: 1 / _share(n),
        "reads the printed rate as bits": lambda n: 8 * _share(n),
    },
    hint="Bytes over seconds first; then over the printed rate, both in the same unit.",
    solution=lambda n: [
        working(startup.average_rate, moved_bytes=n.gib * GIB, elapsed=n.seconds),
        f"Over {n.printed_rate:g} GB/s that is {significant(_share(n))}, or {format_percent(_share(n))}.",
    ],
)


def _read(n: Numbers) -> float:
    return startup.read_bytes(checkpoint_bytes=weights(n.model), readers=n.ranks)


every_rank = Problem(
    id="cold_start/every-rank",
    title="Every rank reads",
    level=1,
    step=READERS,
    printed={"model": "qwen2.5-72b", "ranks": 4},
    choices={"model": MODELS, "ranks": (2, 4, 8, 16)},
    ask=lambda n: (
        f"{described(n.model)}. Each of {n.ranks} tensor-parallel ranks reads the whole checkpoint from a network disk "
        "that nothing caches, and keeps its share. How many bytes does the disk deliver?"
    ),
    answer=_read,
    mistakes={
        "reads each byte once": lambda n: weights(n.model),
        "counts the share of one rank": lambda n: startup.link_bytes(checkpoint_bytes=weights(n.model), ranks=n.ranks),
        "counts one byte for a parameter": lambda n: _read(n) / 2,
        "adds a copy for the node": lambda n: _read(n) * (n.ranks + 1) / n.ranks,
    },
    hint="What a rank throws away has been read all the same.",
    solution=lambda n: [
        f"Two bytes a parameter: {weights(n.model):,} B.",
        working(startup.read_bytes, checkpoint_bytes=weights(n.model), readers=n.ranks),
    ],
)


def _faults(n: Numbers) -> dict[str, float]:
    return {"request_bytes": PAGE, "delay": n.delay_ms * MS, "nominal_rate": n.rate * GB}


def _by_faults(n: Numbers, pages: int = 1) -> float:
    changed = _faults(n) | {"request_bytes": pages * PAGE}
    return n.gb * GB / startup.request_rate(**changed)


page_faults = Problem(
    id="cold_start/page-faults",
    title="Page by page",
    level=2,
    step=HOPS,
    printed={"gb": 16, "delay_ms": 0.4, "rate": 2.5},
    choices={
        "gb": (3, 16, 28, 64, 140),
        "delay_ms": (0.1, 0.25, 0.4, 0.8, 2.0),
        "rate": (1.2, 2.5, 5.0),
    },
    ask=lambda n: (
        f"A checkpoint of {n.gb} GB is memory-mapped from a network disk. Each page of 4 KiB is asked for when it is "
        f"touched, one after the other. A page takes {n.delay_ms:g} ms until its first byte and then flows at "
        f"{n.rate:g} GB/s. How long does touching the whole file take?"
    ),
    unit="s",
    answer=_by_faults,
    mistakes={
        "divides by the printed rate": lambda n: n.gb * GB / (n.rate * GB),
        "takes pages of 4 kB": lambda n: n.gb * GB / startup.request_rate(**_faults(n) | {"request_bytes": 4000}),
        "asks for 64 pages at a time": lambda n: _by_faults(n, pages=64),
        "counts a byte for a page": lambda n: n.gb * GB * n.delay_ms * MS,
    },
    hint="One page: its delay, and its bytes over the rate. Then as many pages as the file has.",
    solution=lambda n: [
        working(startup.request_rate, **_faults(n)),
        f"{n.gb} GB at {format_decimal(startup.request_rate(**_faults(n)), 'B/s')} take "
        f"{format_seconds(_by_faults(n))}.",
    ],
)


def _each(n: Numbers) -> list[float]:
    return [n.gb / n.count / rate for rate in (n.network, n.disk, n.links)]


def _passed_on(n: Numbers) -> float:
    each = _each(n)
    return startup.pipelined_seconds(fill_seconds=sum(each), pieces=n.count, slowest_seconds=max(each))


passing_on = Problem(
    id="cold_start/passing-on",
    title="Piece by piece",
    level=2,
    step=PIECES,
    printed={"gb": 60, "count": 8, "network": 2, "disk": 5, "links": 20},
    choices={
        "gb": (16, 60, 144),
        "count": (4, 6, 8, 12, 20),
        "network": (1, 2, 4, 10),
        "disk": (3, 5, 12),
        "links": (20, 40),
    },
    ask=lambda n: (
        f"{n.gb} GB come in {n.count} equal pieces from object storage at {n.network} GB/s, go through a disk at "
        f"{n.disk} GB/s and into the GPUs at {n.links} GB/s. Each hop takes one piece at a time, and all hops work at "
        "the same time. When has the last piece arrived?"
    ),
    unit="s",
    answer=_passed_on,
    mistakes={
        "lets each hop wait for the one before": lambda n: n.count * sum(_each(n)),
        "counts the slowest hop and no fill": lambda n: n.count * max(_each(n)),
        "lets the fastest hop set the pace": lambda n: startup.pipelined_seconds(
            fill_seconds=sum(_each(n)), pieces=n.count, slowest_seconds=min(_each(n))
        ),
        "fills, and then counts every piece again": lambda n: sum(_each(n)) + n.count * max(_each(n)),
    },
    hint="The first piece goes through all hops. The others follow at the pace of the slowest.",
    solution=lambda n: [
        f"One piece takes {', '.join(format_seconds(seconds) for seconds in _each(n))} on the three hops.",
        working(startup.pipelined_seconds, fill_seconds=sum(_each(n)), pieces=n.count, slowest_seconds=max(_each(n))),
        f"The last piece arrives after {format_seconds(_passed_on(n))}.",
    ],
)
