"""The start of a replica as a graph: where the weights come from, what the engine does, and what must wait."""

from __future__ import annotations

from dataclasses import dataclass

from calc.adapters import move_seconds
from calc.startup._formulas import link_bytes, pieces, pipelined_seconds, probe_wait, reached_rate, read_bytes
from calc.startup._graph import Phase
from calc.units import UNITS, CalcError, plain

WEIGHTS_FROM = {
    "object storage": "fetched to the local disk, read from it, copied to the GPUs",
    "disk": "read from the local disk, copied to the GPUs",
    "host memory": "in the page cache already, copied to the GPUs",
}
ORDERS = {
    "one after another": "as most engines start: weights first, then compilation and graphs",
    "side by side": "a phase waits only for what it needs: weights come beside set-up and compilation",
}
FETCH, READ, COPY = "fetch weights", "read weights", "copy weights"
STREAM = "stream weights"
WEIGHT_PHASES = (FETCH, READ, COPY, STREAM)
_READ = (READ, "disk to host")
_SECONDS = ("imports_s", "ranks_s", "trace_s", "compile_s", "layout_s", "capture_s", "warmup_s", "probe_period_s")


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of the weights.

    Attributes
    ----------
    name, way : str
        The phase's name, and from where to where.
    moved_bytes : float
        Bytes that pass it.
    rate : float
        Bytes per second that it reaches.
    seconds : float
        Its floor.
    """

    name: str
    way: str
    moved_bytes: float
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """Everything that decides a start.

    Attributes
    ----------
    checkpoint_bytes : float
        Bytes of all weights.
    ranks : int
        Tensor-parallel ranks, each on a GPU with a host link of its own.
    weights_from : str
        A key of `WEIGHTS_FROM`.
    streamed : bool
        Whether the hops work at the same time, piece by piece; from object storage it leaves out the disk.
    every_rank_reads_all : bool
        Whether each rank reads the whole checkpoint instead of its share.
    piece_bytes : float
        Bytes of one piece of a stream.
    object_rate, disk_rate, link_rate : float
        Printed rates, B/s: object storage to the node, its disks together, the host link of one GPU.
    reached : float
        Share of those rates that arrives.
    image_bytes, image_rate : float
        The container image, and the rate at which it is pulled and unpacked. No bytes: it is there.
    imports_s : float
        Process start and imports.
    ranks_s : float
        Device contexts, communicators, and the check which GPUs reach each other.
    trace_s, compile_s : float
        Tracing the model, and compiling what was traced.
    layout_s : float
        Profiling the memory and laying out the cache.
    capture_s : float
        Capturing execution graphs.
    warmup_s : float
        Warm-up requests.
    probe_period_s : float
        Seconds between health checks.
    order : str
        A key of `ORDERS`.
    """

    checkpoint_bytes: float
    ranks: int
    weights_from: str = "object storage"
    streamed: bool = False
    every_rank_reads_all: bool = False
    piece_bytes: float = 64 * UNITS["MiB"].factor
    object_rate: float
    disk_rate: float
    link_rate: float
    reached: float = 1.0
    image_bytes: float = 0.0
    image_rate: float = UNITS["GB/s"].factor
    imports_s: float = 0.0
    ranks_s: float = 0.0
    trace_s: float = 0.0
    compile_s: float = 0.0
    layout_s: float = 0.0
    capture_s: float = 0.0
    warmup_s: float = 0.0
    probe_period_s: float = 0.0
    order: str = "one after another"

    def __post_init__(self) -> None:
        for name in ("checkpoint_bytes", "piece_bytes", "object_rate", "disk_rate", "link_rate", "image_rate"):
            plain("StartUp", name, getattr(self, name), ">0")
        for name in ("image_bytes", *_SECONDS):
            plain("StartUp", name, getattr(self, name), "")
        plain("StartUp", "ranks", self.ranks, "count>0")
        reached_rate(nominal_rate=1.0, reached=self.reached)
        for name, choices in (("weights_from", WEIGHTS_FROM), ("order", ORDERS)):
            if getattr(self, name) not in choices:
                raise CalcError(f"{name} is {getattr(self, name)!r:.60}, wanted one of {', '.join(choices)}")

    @property
    def readers(self) -> int:
        """How many times storage delivers the whole checkpoint."""
        return self.ranks if self.every_rank_reads_all else 1


def hops(start: StartUp) -> tuple[Hop, ...]:
    """The hops of the weights, in order, each with its own floor.

    Parameters
    ----------
    start : StartUp

    Returns
    -------
    tuple of Hop

    Notes
    -----
    A download to the disk is made once for the node, and no faster than the disk writes; reading and writing are
    taken as equally fast. The hop after it, out of storage into the ranks, is the one that ranks may repeat.

    Examples
    --------
    >>> start = StartUp(checkpoint_bytes=140e9, ranks=8, object_rate=2e9, disk_rate=7e9, link_rate=50e9)
    >>> [(hop.name, hop.seconds) for hop in hops(start)]
    [('fetch weights', 70.0), ('read weights', 20.0), ('copy weights', 0.35)]
    """
    whole = start.checkpoint_bytes
    repeated = read_bytes(checkpoint_bytes=whole, readers=start.readers)
    past_disk = start.streamed and start.weights_from == "object storage"
    streamed = (FETCH, "object storage to host", start.object_rate, repeated)
    staged = (FETCH, "object storage to disk", min(start.object_rate, start.disk_rate), whole)
    ways = {
        "object storage": [streamed] if past_disk else [staged, (*_READ, start.disk_rate, repeated)],
        "disk": [(*_READ, start.disk_rate, repeated)],
        "host memory": [],
    }[start.weights_from]
    share = link_bytes(checkpoint_bytes=whole, ranks=start.ranks)
    found = []
    for name, way, nominal, moved in [*ways, (COPY, "host to GPU, each over its link", start.link_rate, share)]:
        rate = reached_rate(nominal_rate=nominal, reached=start.reached)
        found.append(Hop(name, way, moved, rate, move_seconds(moved_bytes=moved, bytes_per_second=rate)))
    return tuple(found)


def stream_seconds(start: StartUp) -> float:
    """Time of the hops together, passing on piece after piece.

    Parameters
    ----------
    start : StartUp

    Returns
    -------
    float
        Seconds: the slowest hop, and the fill of one piece.

    Examples
    --------
    >>> start = StartUp(checkpoint_bytes=140e9, ranks=8, streamed=True, object_rate=2e9, disk_rate=7e9, link_rate=50e9)
    >>> round(stream_seconds(start), 4)
    70.0002
    """
    count = pieces(checkpoint_bytes=start.checkpoint_bytes, piece_bytes=start.piece_bytes)
    each = [hop.seconds / count for hop in hops(start)]
    return pipelined_seconds(fill_seconds=sum(each), pieces=count, slowest_seconds=max(each))


def phases(start: StartUp) -> tuple[Phase, ...]:
    """The start as phases that wait for one another.

    Parameters
    ----------
    start : StartUp

    Returns
    -------
    tuple of Phase
        From the image to the health check that finds the server ready.

    Notes
    -----
    "One after another" has the order of most engines today: each phase waits for the one before. "Side by side"
    keeps only what cannot be otherwise. A download and a read need no engine; the copy needs the device. Tracing
    and capturing need the shapes and addresses of the weights, not their values; warm-up needs everything. A stream
    is the engine's own and waits for it.

    Examples
    --------
    >>> start = StartUp(checkpoint_bytes=140e9, ranks=8, object_rate=2e9, disk_rate=7e9, link_rate=50e9, compile_s=30)
    >>> from calc.startup import schedule
    >>> schedule(phases(start)).total_s
    120.35
    """
    moves = hops(start)
    if start.streamed and len(moves) > 1:
        weights = [(STREAM, stream_seconds(start))]
    else:
        weights = [(hop.name, hop.seconds) for hop in moves]
    image = move_seconds(moved_bytes=start.image_bytes, bytes_per_second=start.image_rate)
    setup = [("image pull", image), ("process, imports", start.imports_s), ("rank set-up", start.ranks_s)]
    engine = [("trace", start.trace_s), ("compile", start.compile_s), ("cache layout", start.layout_s)]
    engine += [("graph capture", start.capture_s)]
    last = [("warm-up", start.warmup_s), ("health check", probe_wait(probe_period=start.probe_period_s))]
    if start.order == "one after another":
        return _row([*setup, *weights, *engine, *last])
    beside = list(_row(weights))
    on_device = next(i for i, phase in enumerate(beside) if phase.name in (COPY, STREAM))
    device = beside[on_device]
    beside[on_device] = Phase(device.name, device.seconds, (*device.after, setup[-1][0]))
    ready = (engine[-1][0], beside[-1].name)
    return (*_row([*setup, *engine]), *beside, Phase(*last[0], ready), Phase(*last[1], (last[0][0],)))


def _row(named: list[tuple[str, float]]) -> tuple[Phase, ...]:
    """Phases of which each waits for the one before."""
    before = [(), *((name,) for name, _ in named)]
    return tuple(Phase(name, seconds, after) for (name, seconds), after in zip(named, before, strict=False))
