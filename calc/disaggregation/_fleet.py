"""The same GPUs as one pool and as two: requests with real lengths through either, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from calc import kv_cache, scheduling
from calc.capacity import plan
from calc.disaggregation._formulas import descriptors, exposed_seconds, transfer_seconds
from calc.hardware import Accelerator
from calc.latency import Objectives
from calc.models import LatentAttention, LatentWindowAttention, ModelGeometry
from calc.parallel import Parallel
from calc.queueing import fifo_waits, prefill_times
from calc.roofline import decode_floor
from calc.scheduling import Affine, Largest, SchedulerConfig, StepTime, simulate
from calc.units import CalcError, plain

BATCH = 32  # decoding sequences for which a step's bytes are counted
FAR = 1024  # positions apart at which a step is looked at, for what one more costs
WARM_UP = 10  # a tenth of the requests found the workers too empty
ROOM = 1 << 40  # tokens in a step that nothing holds back


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """A step's time where it may do both phases: `both_seconds` of what each takes alone, and one alone as it is.

    Attributes
    ----------
    prompt, decode : calc.scheduling.StepTime
        Of the prompts' tokens alone, and of the decoding sequences alone.
    overlap : float
        How much of the shorter of the two a step with both hides, 0 to 1.

    Notes
    -----
    The longer one and what is not hidden of the shorter one: the largest of both orders, so straight lines stay lines.

    Examples
    --------
    >>> both = Mixed(prompt=Affine(base_s=0, prefill_token_s=1e-4), decode=Affine(base_s=0.02), overlap=0.75)
    >>> [max(fixed for fixed, _ in both.lines(*load)) / 1e15 for load in ((1000, 0), (0, 8), (1000, 8))]
    [0.1, 0.02, 0.105]
    """

    prompt: StepTime
    decode: StepTime
    overlap: float
    _known: dict = field(init=False, repr=False, compare=False, default_factory=dict)  # the same few loads return

    def lines(self, prefill_tokens: int, decode_sequences: int) -> tuple[tuple[int, int], ...]:
        """The lines of one phase alone, or of both in either order."""
        load = prefill_tokens, decode_sequences
        found = self._known.get(load)
        if found is None:
            found = self._known[load] = self._lines(*load)
        return found

    def _lines(self, prefill_tokens: int, decode_sequences: int) -> tuple[tuple[int, int], ...]:
        prompt = tuple(self.prompt.lines(prefill_tokens, 0)) if prefill_tokens else ()
        decode = tuple(self.decode.lines(0, decode_sequences)) if decode_sequences else ()
        if not (prompt and decode):
            return prompt or decode
        apart = 1 - self.overlap
        orders = (*product(prompt, decode), *product(decode, prompt))
        highest: dict[int, int] = {}  # of lines of one slope, only the highest counts
        for (a, c), (b, d) in orders:
            fixed, slope = a + round(apart * b), c + round(apart * d)
            highest[slope] = max(fixed, highest.get(slope, 0))
        return tuple((fixed, slope) for slope, fixed in highest.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What one worker needs for its steps, and what it holds: the same in either pool.

    Attributes
    ----------
    gpus : int
    blocks : int
        Blocks of its cache.
    read_s : float
        Reading all weights once, seconds: a decode step's least.
    position_s : float
        Reading one position of the cache.
    token_s : float
        Computing one token.
    overlap : float
        How much of the shorter job a step hides that does both: a prompt's chunk, and decoding. 0 to 1.
    layers, tensors : int
        Layers that keep a cache, and tensors that each keeps apart.
    rank_bytes : float
        Cache bytes that a position leaves on one GPU.
    """

    gpus: int
    blocks: int
    read_s: float
    position_s: float
    token_s: float
    overlap: float
    layers: int
    tensors: int
    rank_bytes: float

    def decode_time(self) -> Largest:
        """Time of a step without prompts: the longer of reading weights and caches, and computing the tokens."""
        reading = Affine(base_s=self.read_s, cached_token_s=self.position_s)
        return Largest((reading, Affine(base_s=0, decode_sequence_s=self.token_s)))

    def step_time(self) -> Mixed:
        """Time of a step that may hold prompts and decoding sequences.

        What a chunk reads of its prompt's earlier chunks counts with the caches, and not at all in a step of its own.
        """
        prompt = Largest((Affine(base_s=self.read_s), Affine(base_s=0, prefill_token_s=self.token_s)))
        return Mixed(prompt=prompt, decode=self.decode_time(), overlap=self.overlap)

    def prompt_s(self, tokens: float) -> float:
        """A step with nothing but one prompt, or a chunk of one: the longer of reading and computing, seconds."""
        return max(self.read_s, tokens * self.token_s)

    def decode_s(self, sequences: float, positions: float) -> float:
        """A step with nothing but decoding sequences, which hold so many positions together, seconds."""
        return max(self.read_s + positions * self.position_s, sequences * self.token_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """How a prompt's cache gets from one worker to the other.

    Attributes
    ----------
    wire_rate : float
        What each GPU's link reaches with large pieces, B/s.
    descriptor_s : float
        Posting one descriptor, seconds.
    control_s : float
        Messages between router and workers, seconds.
    layer_by_layer : bool
        Whether each layer is sent as soon as it is computed.
    block_tokens : int
        Positions that lie together in one tensor of one layer.
    """

    wire_rate: float
    descriptor_s: float
    control_s: float
    layer_by_layer: bool = False
    block_tokens: int = 16

    def __post_init__(self) -> None:
        plain("Handoff", "wire_rate", self.wire_rate, "byte/second>0")
        plain("Handoff", "descriptor_s", self.descriptor_s, "second")
        plain("Handoff", "control_s", self.control_s, "second")
        plain("Handoff", "block_tokens", self.block_tokens, "count>0")

    def pieces(self, worker: Worker, tokens: int) -> int:
        """Descriptors of one GPU for a prompt."""
        blocks = -(-tokens // self.block_tokens)
        return descriptors.formula(blocks=blocks, layers=worker.layers, tensors=worker.tensors)

    def transfer_s(self, worker: Worker, tokens: int) -> float:
        """Time that a GPU's link is busy with a prompt's cache, seconds."""
        return transfer_seconds.formula(
            cache_bytes=tokens * worker.rank_bytes,
            wire_rate=self.wire_rate,
            descriptors=self.pieces(worker, tokens),
            descriptor_s=self.descriptor_s,
        )

    def exposed_s(self, worker: Worker, tokens: int) -> float:
        """What of it is left when the prompt is computed, seconds, control apart."""
        transfer = self.transfer_s(worker, tokens)
        if not self.layer_by_layer:
            return transfer
        return exposed_seconds.formula(transfer_s=transfer, prompt_s=worker.prompt_s(tokens), layers=worker.layers)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of each request, in the order of arrival.

    Attributes
    ----------
    gpus : int
        Of all workers.
    setting : int
        The token budget of a pool, or the prefill workers of a split.
    ttft_s, tpot_s : list of float
        Of each request, seconds.
    queued_s, moved_s : list of float
        Wait for a prefill worker, and time from the end of the prompt until its cache was in place; empty in a pool.
    prefill_busy : float
        Share of the time in which a prefill worker computes; 0 in a pool, which has none.
    """

    gpus: int
    setting: int
    ttft_s: list[float]
    tpot_s: list[float]
    queued_s: list[float]
    moved_s: list[float]
    prefill_busy: float = 0.0

    def kept(self, limits: Objectives) -> list[float]:
        """1 for each request inside every limit and 0 for the others, those of the warm-up left out."""
        far = float("inf")
        first, pace = limits.ttft_s or far, limits.tpot_s or far
        seen = list(zip(self.ttft_s, self.tpot_s, strict=True))
        return [float(ttft <= first and tpot <= pace) for ttft, tpot in seen[len(seen) // WARM_UP :]]

    def share(self, limits: Objectives) -> float:
        """Share of the requests inside every limit."""
        kept = self.kept(limits)
        return sum(kept) / len(kept)


def worker(
    model: ModelGeometry,
    chip: Accelerator,
    *,
    ranks: int,
    prompts: Sequence[int],
    prefill_efficiency: float,
    read_efficiency: float,
    overlap: float,
    memory_fraction: float,
    other_bytes: float,
) -> Worker:
    """A worker from the floors of its model and chip, and the shares of their rates that are assumed.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
    ranks : int
        GPUs that share every layer.
    prompts : sequence of int
        Typical prompts; the time of a token is their mean.
    prefill_efficiency, read_efficiency : float
        Share of the floor's rate that computing and reading reach, above 0 and at most 1.
    overlap : float
        Share of the shorter job that a step with both hides: `overlap_share` of three measured steps.
    memory_fraction, other_bytes : float
        Share of a GPU's memory that the engine may use, and what of it holds neither weights nor cache.

    Returns
    -------
    Worker

    Raises
    ------
    CalcError
        If the model doesn't fit, or a share is out of range.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> assumed = {"prefill_efficiency": 0.5, "read_efficiency": 0.7, "overlap": 0.7}
    >>> memory = {"memory_fraction": 0.9, "other_bytes": 3 * 1024**3}
    >>> one = worker(load("llama-3.1-70b"), accelerator("h100-sxm"), ranks=4, prompts=[1000], **assumed, **memory)
    >>> round(1000 * one.read_s, 1), round(1e6 * one.token_s)
    (14.8, 88)
    """
    if any(isinstance(mixer, LatentWindowAttention) for mixer, _ in model.kinds()):
        raise CalcError(
            f"{model.name} keeps most of its cache for a few positions only: a hand-over by position is not known here"
        )
    for name, value in (("read efficiency", read_efficiency), ("overlap", overlap)):
        if not 0 <= value <= 1 or (name == "read efficiency" and not value):
            raise CalcError(f"the {name} is {value!r:.40}, wanted a share of at most 1")
    blocks = plan(
        model,
        Parallel(tensor=ranks),
        total_bytes=chip.memory_bytes.value,
        fraction=memory_fraction,
        activation_bytes=other_bytes,
    ).blocks
    near, far = (decode_floor(model, chip, ranks=ranks, sequences=BATCH, cached=held).move_s for held in (1, 1 + FAR))
    times = prefill_times(model, chip, ranks=ranks, prompts=prompts, efficiency=prefill_efficiency)
    latent = all(isinstance(mixer, LatentAttention) for mixer, _ in model.kinds() if mixer is not None)
    return Worker(
        gpus=ranks,
        blocks=blocks,
        read_s=near / read_efficiency,
        position_s=(far - near) / FAR / BATCH / read_efficiency,
        token_s=sum(times) / sum(prompts),
        overlap=overlap,
        layers=sum(count for mixer, count in model.kinds() if mixer is not None),
        tensors=1 if latent else 2,
        rank_bytes=kv_cache.layout(model, ranks=ranks).bytes_per_position,
    )


def simulate_pool(requests: Sequence[scheduling.Request], *, workers: int, worker: Worker, budget: int) -> Outcome:
    """Every worker does both phases, in chunks of a budget; requests are dealt out in turn.

    Parameters
    ----------
    requests : sequence of calc.scheduling.Request
        In order of arrival.
    workers : int
    worker : Worker
    budget : int
        Tokens in one step.

    Returns
    -------
    Outcome

    Raises
    ------
    SchedulingError
        If a request never fits.

    Examples
    --------
    >>> one = Worker(gpus=1, blocks=5000, read_s=0.01, position_s=0, token_s=1e-4, overlap=1, layers=1, tensors=2,
    ...     rank_bytes=1e5)
    >>> simulate_pool([scheduling.Request(0, 500, 3)], workers=2, worker=one, budget=2048).ttft_s
    [0.05]
    """
    ttft, tpot = [0.0] * len(requests), [0.0] * len(requests)
    config = SchedulerConfig(blocks=worker.blocks, token_budget=budget)
    for turn in range(workers):
        times = simulate(requests[turn::workers], config, worker.step_time())
        ttft[turn::workers], tpot[turn::workers] = times.ttft_s(), times.tpot_s()
    return Outcome(workers * worker.gpus, budget, ttft, tpot, [], [])


def simulate_split(
    requests: Sequence[scheduling.Request], *, prefill: int, decode: int, worker: Worker, handoff: Handoff
) -> Outcome:
    """Some workers compute prompts one by one, the others decode; requests are dealt out in turn on both sides.

    Parameters
    ----------
    requests : sequence of calc.scheduling.Request
        In order of arrival.
    prefill, decode : int
        Workers on each side.
    worker : Worker
    handoff : Handoff

    Returns
    -------
    Outcome
        The first token is the one that the decode worker samples, so all of the handoff lies before it.

    Raises
    ------
    CalcError
        If a side has no worker, or a request never fits.

    Notes
    -----
    A prefill worker's line, then its links' line, then a decode worker's scheduler, which takes a request in where
    its cache has room. A prefill worker's memory for caches that wait to be fetched is not counted, and neither is
    what a transfer takes from the steps of either side.

    Examples
    --------
    >>> one = Worker(gpus=1, blocks=5000, read_s=0.01, position_s=0, token_s=1e-4, overlap=1, layers=1, tensors=2,
    ...     rank_bytes=1e5)
    >>> way = Handoff(wire_rate=1e10, descriptor_s=0, control_s=0.002)
    >>> split = simulate_split([scheduling.Request(0, 500, 3)], prefill=1, decode=1, worker=one, handoff=way)
    >>> [round(time, 6) for time in (*split.ttft_s, *split.moved_s)]  # 50 ms, 5 ms and 2 ms, 10 ms
    [0.067, 0.007]
    """
    for side, number in (("prefill", prefill), ("decode", decode)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise CalcError(f"{number!r:.40} {side} workers: a split needs at least one on each side")
    ready, queued, moved = ([0.0] * len(requests) for _ in range(3))
    work = 0.0
    for turn in range(prefill):
        mine = requests[turn::prefill]
        arrive = [request.arrival_s for request in mine]
        prompts = [worker.prompt_s(request.prompt_tokens) for request in mine]
        waits = fifo_waits(arrive, prompts)
        done = [sum(parts) for parts in zip(arrive, waits, prompts, strict=True)]
        wires = [handoff.transfer_s(worker, request.prompt_tokens) for request in mine]
        spans = [late + handoff.control_s for late in _late_on_wire(done, prompts, wires, worker, handoff)]
        ready[turn::prefill] = [a + b for a, b in zip(done, spans, strict=True)]
        queued[turn::prefill], moved[turn::prefill] = waits, spans
        work += sum(prompts)
    order = sorted(range(len(requests)), key=ready.__getitem__)
    config = SchedulerConfig(blocks=worker.blocks, token_budget=ROOM)
    ttft, tpot = [0.0] * len(requests), [0.0] * len(requests)
    for turn in range(decode):
        mine = order[turn::decode]
        handed = [scheduling.Request(i, requests[i].prompt, requests[i].output, ready[i]) for i in mine]
        times = simulate(handed, config, worker.decode_time())
        for i, first, pace in zip(mine, times.ttft_s(), times.tpot_s(), strict=True):
            ttft[i], tpot[i] = ready[i] - requests[i].arrival_s + first, pace
    span = max(ready) - requests[0].arrival_s
    busy = work / prefill / span if span else 0.0
    return Outcome((prefill + decode) * worker.gpus, prefill, ttft, tpot, queued, moved, busy)


def _late_on_wire(
    done: list[float], prompts: list[float], wires: list[float], worker: Worker, handoff: Handoff
) -> list[float]:
    """From each computed prompt until its cache is over, on a link that carries one cache at a time, seconds."""
    layers = worker.layers if handoff.layer_by_layer else 1
    free, late = 0.0, []
    for end, prompt, wire in zip(done, prompts, wires, strict=True):
        first = end - prompt * (layers - 1) / layers  # the first layer is computed
        free = max(max(free, first) + wire, end + wire / layers)
        late.append(free - end)
    return late
