"""Problems about which adapters requests ask for, and who must wait."""

from __future__ import annotations

import functools
from fractions import Fraction
from itertools import permutations
from types import SimpleNamespace as Numbers

from calc import adapters, kv_cache
from calc.practice._problem import Problem
from calc.practice.multi_lora._model import PROJECTIONS, TRAFFIC, WAIT, described, geometry, made
from calc.units import (
    UNITS,
    counted,
    format_bytes,
    format_decimal,
    format_percent,
    format_seconds,
    relation,
    significant,
)

GIB = UNITS["GiB"].factor


def _queue(n: Numbers) -> list[int | None]:
    return [None if word == "-" else int(word) for word in n.queue.split()]


def _until_the_first_that_waits(n: Numbers) -> int:
    loaded: set[int] = set()
    for place, adapter in enumerate(_queue(n)):
        if adapter is not None and adapter not in loaded:
            if len(loaded) == n.slots:
                return place
            loaded.add(adapter)
    return len(_queue(n))


def _started(n: Numbers) -> tuple[int, ...]:
    return adapters.admitted(_queue(n), slots=n.slots, seats=len(_queue(n)))


starts = Problem(
    id="multi_lora/starts",
    title="Who starts",
    level=1,
    step=WAIT,
    printed={"queue": "- 6 2 6 9 - 2 4 9 6 4 2 -", "slots": 2},
    choices={
        "queue": (
            "1 1 2 3 1 4 2 1 5 1 2 3",
            "7 - 3 3 5 7 2 2 - 3 7 9",
            "1 2 3 4 5 6 1 2 1 1 2 3 1",
            "4 4 4 1 2 4 - 3 1 1 4 5 4 2",
            "2 9 2 6 2 9 1 9 2 2 6 - 1 2 9",
            "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9",
        ),
        "slots": (1, 2, 3, 4),
    },
    ask=lambda n: (
        f"An engine with {n.slots} slot{'s' * (n.slots > 1)} for adapters starts with these requests waiting, first "
        "come "
        f"first; the number is the adapter a request asks for, - is the base model: {n.queue}. There are seats and "
        "cache "
        "for all of them. A request whose adapter gets no slot is passed over. How many requests run in the first step?"
    ),
    unit="requests",
    exact=True,
    answer=lambda n: len(_started(n)),
    mistakes={
        "stops at the first request that has to wait": _until_the_first_that_waits,
        "counts adapters": lambda n: len({_queue(n)[place] for place in _started(n)} - {None}),
        "starts everyone": lambda n: len(_queue(n)),
        "leaves out requests for the base model": lambda n: sum(_queue(n)[place] is not None for place in _started(n)),
    },
    hint="Hand out slots from the left. Then strike out the requests whose adapter got none.",
    solution=lambda n: [
        f"The slots go to adapters {', '.join(dict.fromkeys(str(_queue(n)[p]) for p in _started(n) if _queue(n)[p]))}.",
        f"Of {len(_queue(n))} requests {len(_queue(n)) - len(_started(n))} ask for others and stay behind: "
        f"{len(_started(n))} requests run.",
    ],
)


def _touched(n: Numbers) -> float:
    popularity = adapters.zipf(adapters=n.adapters, exponent=0)
    return adapters.expected_distinct(popularity, requests=n.requests) / n.adapters


touched = Problem(
    id="multi_lora/touched",
    title="How many a batch touches",
    level=3,
    step=WAIT,
    printed={"adapters": 50, "requests": 64},
    choices={"adapters": (20, 50, 100, 200), "requests": (16, 32, 64, 128)},
    ask=lambda n: (
        f"{n.adapters} adapters are equally popular, and {n.requests} requests choose independently. What share of the "
        "adapters do the requests ask for, on average?"
    ),
    unit="x",
    answer=_touched,
    mistakes={
        "gives the share that nobody asks for": lambda n: 1 - _touched(n),
        "lets no two requests ask for the same": lambda n: min(1.0, n.requests / n.adapters),
        "gives a request's share of adapters": lambda n: 1 / n.adapters,
        "gives adapters for each request": lambda n: _touched(n) * n.adapters / n.requests,
    },
    hint="One adapter is left out by one request with 1 − 1/N. By all of them?",
    solution=lambda n: [
        f"A request asks for another adapter with 1 − 1/{n.adapters}; all {n.requests} do with "
        f"(1 − 1/{n.adapters})^{n.requests} = {significant(1 - _touched(n))}.",
        f"So an adapter is asked for with {significant(_touched(n))}: {format_percent(_touched(n))} of them, or "
        f"{significant(_touched(n) * n.adapters, 3)} adapters.",
    ],
)


def _shares(n: Numbers) -> list[float]:
    return [weight / sum(n.weights) for weight in n.weights]


def _left_out(n: Numbers) -> list[str]:
    """The ways to miss with two slots: what was asked for last, the other one before it, and what is asked for now."""
    total = sum(n.weights)
    lines = []
    for i, j, k in permutations(range(3)):
        w = n.weights
        odds = Fraction(w[i], total) * Fraction(w[j], total - w[i]) * Fraction(w[k], total)
        lines.append(
            f"Last {'abc'[i]}, before it {'abc'[j]}, now {'abc'[k]}: "
            f"{w[i]}/{total} · {w[j]}/{total - w[i]} · {w[k]}/{total} = {significant(float(odds))}."
        )
    return lines


def _three(n: Numbers) -> float:
    return adapters.exact_hit_ratio(_shares(n), slots=2)


three = Problem(
    id="multi_lora/three",
    title="Two slots for three",
    level=3,
    step=TRAFFIC,
    printed={"weights": (6, 3, 2)},
    choices={"weights": ((6, 3, 2), (4, 2, 1), (8, 1, 1), (5, 3, 2), (3, 2, 1), (10, 5, 1), (2, 1, 1), (9, 4, 2))},
    ask=lambda n: (
        f"Independent requests ask for adapters a, b and c in the proportion {':'.join(map(str, n.weights))}. Two "
        "can be "
        "resident, and the least recently used one makes room. What share of the requests finds its adapter resident?"
    ),
    unit="x",
    answer=_three,
    mistakes={
        "pins the two most popular": lambda n: adapters.pinned_hit_ratio(_shares(n), slots=2),
        "counts slots over adapters": lambda n: 2 / 3,
        "gives the share of misses": lambda n: 1 - _three(n),
        "keeps one slot": lambda n: adapters.exact_hit_ratio(_shares(n), slots=1),
    },
    hint="A request misses when it asks for the one that is not among the last two different ones.",
    solution=lambda n: [
        *_left_out(n),
        f"Together they miss {significant(1 - _three(n))}, so {significant(_three(n))} hit: "
        f"{format_percent(_three(n))}.",
    ],
)


levels = Problem(
    id="multi_lora/levels",
    title="Two levels of residents",
    level=2,
    step=TRAFFIC,
    printed={"gpu": 25, "host": 74, "slots": 16, "kept": 200},
    choices={
        "gpu": (12, 18, 25, 33, 41),
        "host": (52, 58, 66, 74, 88),
        "slots": (4, 8, 16),
        "kept": (64, 100, 200),
    },
    ask=lambda n: (
        f"A GPU has {n.slots} slots and the host keeps {n.kept} adapters; both drop the least recently used, and every "
        f"request touches both. A set of {n.slots} alone would hit {n.gpu}% of the requests, a set of {n.kept} alone "
        f"{n.host}%. What share of the requests loads its adapter from host memory?"
    ),
    unit="x",
    answer=lambda n: (n.host - n.gpu) / 100,
    mistakes={
        "takes the two sets to be independent": lambda n: (100 - n.gpu) * n.host / 10_000,
        "counts loads from the disk too": lambda n: (100 - n.gpu) / 100,
        "counts what the GPU has as well": lambda n: n.host / 100,
        "gives the loads from the disk": lambda n: (100 - n.host) / 100,
    },
    hint="The last few different adapters are always among the last many. What is on the GPU is in the host too.",
    solution=lambda n: [
        f"Whatever hits {n.slots} slots hits {n.kept} as well, so the rest of the host's hits are loads from host "
        "memory.",
        f"{n.host}% − {n.gpu}% = {n.host - n.gpu}%, or {significant((n.host - n.gpu) / 100)}; the other "
        f"{100 - n.host}% come from the disk.",
    ],
)


# --- an open question ----------------------------------------------------------------------------

DISK = 3e9  # bytes a second from a local drive, assumed as in the chapter


@functools.cache
def _slot_bytes(model: str, rank: int, gpus: int) -> int:
    """Bytes of one slot on one GPU."""
    return adapters.reserve(geometry(model), slots=1, rank=rank, ranks=gpus).bytes_per_gpu


def _slot_told(n: Numbers, rank: int) -> str:
    """One slot on one GPU: its pairs in the layers, and those on embedding and head where the family has buffers."""
    whole = _slot_bytes(n.model, rank, n.gpus)
    layers = adapters.reserve(geometry(n.model), slots=1, rank=rank, ranks=n.gpus, targets=PROJECTIONS).bytes_per_gpu
    if whole == layers:
        return f"takes {format_bytes(whole)} on each GPU, all for pairs in the layers"
    outer = [name for name in adapters.buffered(geometry(n.model)) if name in adapters.EMBEDDINGS]
    return (
        f"takes {format_bytes(layers)} on each GPU for pairs in the layers and {format_bytes(whole - layers)} for the "
        f"buffers that {' and '.join(outer)} get too, {format_bytes(whole)} together"
    )


def _highest_for_all(n: Numbers) -> str:
    """What is left if every slot has the highest rank."""
    taken, seats = _most_asked(n) * _slot_bytes(n.model, n.highest, n.gpus), _seats(n, _most_asked(n), n.highest)
    start = f"{_most_asked(n)} of them would take {format_bytes(taken)}"
    if taken > n.gib * GIB:
        return f"{start}, more than the {n.gib} GiB that a GPU has for slots and cache together."
    return f"{start} of the {n.gib} GiB and leave room for {counted(seats, 'request') if seats else 'no request'}."


HOST = 100  # adapters that the host keeps, assumed as in the chapter


def _kept(n: Numbers, count: int) -> int:
    """Bytes of so many adapters in host memory: the process of every GPU keeps them whole."""
    return n.gpus * count * made(n.model, n.rank, "all-linear").stored_bytes


def _host(n: Numbers) -> str:
    """What the host keeps."""
    one = made(n.model, n.rank, "all-linear").stored_bytes
    sign = relation(format_bytes(one), one)
    some = f"{HOST} take {format_bytes(_kept(n, HOST))}, all" if n.tenants > HOST else "All"
    return (
        f"The host: the process of each GPU keeps adapters whole, so each that is kept takes {n.gpus} · "
        f"{format_bytes(one)} {sign} {format_bytes(_kept(n, 1))}. {some} {n.tenants:,} take "
        f"{format_bytes(_kept(n, n.tenants))}. Keep as many as the host has room for, those asked for last."
    )


def _seats(n: Numbers, slots: int, rank: int) -> int:
    """Requests whose cache fits beside the slots."""
    left = n.gib * GIB - slots * _slot_bytes(n.model, rank, n.gpus)
    one = kv_cache.resident_bytes(kv_cache.layout(geometry(n.model), ranks=n.gpus), positions=n.positions)
    return kv_cache.sequences_that_fit(memory_bytes=max(left, 0), sequence_bytes=one)


def _mean_asked(n: Numbers) -> float:
    """Different adapters that the peak asks for on average."""
    popularity = adapters.zipf(adapters=n.tenants, exponent=1)
    return adapters.expected_distinct(popularity, requests=n.concurrent)


def _most_asked(n: Numbers) -> int:
    """Different adapters that the peak can ask for."""
    return min(n.concurrent, n.tenants)


def _most_slots(n: Numbers) -> int:
    """The most slots of the usual rank beside which the cache of the peak's requests fits."""
    one = kv_cache.resident_bytes(kv_cache.layout(geometry(n.model), ranks=n.gpus), positions=n.positions)
    return int((n.gib * GIB - n.concurrent * one) // _slot_bytes(n.model, n.rank, n.gpus))


def _slots(n: Numbers) -> int:
    """As many slots as the peak can ask for, or fewer where its requests' cache would not fit beside them."""
    return min(_most_asked(n), _most_slots(n))


def _apart(n: Numbers) -> int:
    """The most requests that run at once, each with a slot unless all customers have one already."""
    one = kv_cache.resident_bytes(kv_cache.layout(geometry(n.model), ranks=n.gpus), positions=n.positions)
    both = int(n.gib * GIB // (one + _slot_bytes(n.model, n.rank, n.gpus)))
    return both if both < n.tenants else _seats(n, n.tenants, n.rank)


def _ceiling(n: Numbers) -> str:
    """Why the peak can't ask for more."""
    if n.tenants <= n.concurrent:
        return f"{n.tenants} customers have {n.tenants} adapters"
    return f"{n.concurrent} requests can't ask for more than {n.concurrent} adapters"


def _decision(n: Numbers) -> str:
    """How many slots, and who waits for one."""
    slots, most = _slots(n), _most_slots(n)
    size = format_bytes(slots * _slot_bytes(n.model, n.rank, n.gpus))
    told = f"Decision: {counted(slots, 'slot')} of rank {n.rank}. "
    room = f"{size} on each GPU and leave{'s' * (slots == 1)} room for {_seats(n, slots, n.rank):,} requests."
    room = f"The slot{'s take' if slots > 1 else ' takes'} {room}"
    if most >= _most_asked(n):
        more = min(most, n.tenants)
        return (
            f"{told}{_ceiling(n)}, so none of them waits for a slot. {room}"
            + f" More slots, up to {more:,}, only save loads." * (more > slots)
        )
    mean = _mean_asked(n)
    return (
        f"{told}{room} More slots leave too little for {n.concurrent}, which ask for up to "
        f"{_most_asked(n)} adapters and for {significant(mean, 3)} on average. "
        + (
            "That is more than there are slots: spread the customers over replicas by adapter from the start."
            if mean > slots
            else "Those that find no slot wait."
        )
    )


def _overturned(n: Numbers) -> str:
    """What would make another number of slots right."""
    slots, apart = _slots(n), "Then spread the customers over replicas by adapter."
    if slots == _most_asked(n):
        load = f"more than {_apart(n):,} requests at once"
        load += " with as many adapters" if _apart(n) < n.tenants else ""
        if _seats(n, slots, n.highest) < n.concurrent:
            size = format_bytes(slots * _slot_bytes(n.model, n.highest, n.gpus))
            load += f", or slots of rank {n.highest}: {slots} of those would take {size}"
        return f"What overturns it: {load}. {apart}"
    if _mean_asked(n) > slots:
        return f"What overturns it: queues, measured, that ask for {counted(slots, 'adapter')} or fewer."
    return f"What overturns it: queues, measured, that often ask for more than {counted(slots, 'adapter')}. {apart}"


def _once_a_day(n: Numbers) -> float:
    """Time to load an adapter that is only on the disk: the file, then a share over the link, which is less."""
    return adapters.move_seconds(moved_bytes=made(n.model, n.rank, "all-linear").stored_bytes, bytes_per_second=DISK)


def _checklist(n: Numbers) -> list[str]:
    one = made(n.model, n.rank, "all-linear")
    return [
        f"Sizes one adapter first: {format_bytes(one.stored_bytes)} in bf16, so "
        f"{format_bytes(n.tenants * one.stored_bytes)} "
        f"for {n.tenants}; asks whether files keep fp32 or whole embeddings.",
        f"Counts the host's memory by processes: an adapter kept in {n.gpus} takes {format_bytes(_kept(n, 1))}.",
        "Separates what is stored, what the host keeps, what is resident on the GPU and what one batch can mix.",
        "Sets the slot rank by the highest rank that a replica serves, and knows that every slot pays for it: "
        f"{format_bytes(_slot_bytes(n.model, n.highest, n.gpus))} on each GPU for rank {n.highest}, "
        f"{format_bytes(_slot_bytes(n.model, n.rank, n.gpus))} for rank {n.rank}.",
        f"Gives the few customers of rank {n.highest} a replica of their own, so that all others get small slots.",
        f"Takes slots out of the cache's {n.gib} GiB before counting requests, on each GPU, in the engine's own "
        "layout.",
        f"Bounds the slots before it measures popularity: {_ceiling(n)}. Fewer slots make some requests wait, more "
        "only save loads.",
        "Says who waits when slots run out, and gives a favorite adapter no right to starve the others.",
        "Estimates misses from the hit ratio and the link, and says whether a load stalls the whole batch.",
        "Routes requests for one adapter to the same replica instead of spreading all adapters over all replicas.",
        "Merges the few adapters with steady traffic of their own into replicas, and says what that costs in memory.",
        f"Promises the customer who calls once a day a cold start, {format_seconds(_once_a_day(n))} at least from a "
        f"disk{', and a longest wait for a slot' * (_slots(n) < _most_asked(n))}; not the first token of a customer "
        "whose adapter is resident.",
        "Watches adapters in use, waiting for a slot, load time, time to first token by adapter.",
    ]


tenants = Problem(
    id="multi_lora/tenants",
    title="Many tenants",
    level="design",
    step=WAIT,
    printed={
        "model": "llama-3.1-70b",
        "tenants": 500,
        "rank": 16,
        "highest": 64,
        "concurrent": 64,
        "gpus": 8,
        "gib": 30,
        "positions": 2048,
    },
    choices={
        "model": ("llama-3.1-70b", "llama-3.1-8b", "qwen2.5-72b"),
        "tenants": (50, 500, 5000),
        "rank": (8, 16, 32),
        "highest": (64, 128, 256),
        "concurrent": (32, 64, 256),
        "gpus": (2, 4, 8),
        "gib": (20, 30, 50),
        "positions": (1024, 2048, 4096),
    },
    possible=lambda n: _seats(n, 1, n.highest) >= n.concurrent,
    ask=lambda n: (
        f"{described(n)}; its vocabulary has {geometry(n.model).vocab:,} tokens. {n.tenants:,} customers have "
        "fine-tuned it with LoRA, all seven projections, most with "
        f"rank {n.rank}, a few with rank {n.highest}. A replica is {n.gpus} tensor-parallel GPUs and has {n.gib} GiB "
        f"on each for adapters and a bf16 cache. At the peak a replica runs {n.concurrent} requests at once, up to "
        f"{n.positions:,} positions each. Some customers send most of the traffic. How do you lay out storage, host "
        "memory, slots and replicas, and what do you promise a customer who calls once a day?"
    ),
    checklist=_checklist,
    hint="Bytes of one adapter first. Then ask what is stored, kept, resident and active.",
    solution=lambda n: [
        f"One adapter of rank {n.rank}: {format_bytes(made(n.model, n.rank, 'all-linear').stored_bytes)}. "
        f"All {n.tenants:,}: {format_bytes(n.tenants * made(n.model, n.rank, 'all-linear').stored_bytes)} on disk.",
        f"If popularity follows Zipf with exponent 1, {n.concurrent} requests ask for {significant(_mean_asked(n), 3)} "
        f"different adapters on average. That is a mean: many queues ask for more. But {_ceiling(n)}.",
        f"A slot of rank {n.highest} {_slot_told(n, n.highest)}. {_highest_for_all(n)}",
        ("So the" if _seats(n, _most_asked(n), n.highest) < n.concurrent else "That is enough. Yet it pays if the")
        + f" few of rank {n.highest} get a replica of their own, with few slots. For all others a slot of rank "
        f"{n.rank} {_slot_told(n, n.rank)}.",
        _decision(n),
        _host(n),
        "The customer who calls once a day is not in a slot, and in the host's memory only if that keeps all of them. "
        f"Reading the file takes {format_seconds(_once_a_day(n))} from a disk of {format_decimal(DISK, 'B/s')}, "
        "assumed. "
        + (
            "Then the request waits for a slot as all do. Promise that start, measured, and a limit on that wait."
            if _slots(n) < _most_asked(n)
            else "Then the request takes a slot that no running one uses. Promise that start, measured."
        ),
        _overturned(n),
    ],
)
