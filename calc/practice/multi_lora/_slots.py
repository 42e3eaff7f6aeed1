"""Problems about what adapters take on a GPU, and what a step reads of them."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import adapters
from calc import kv_cache as kv
from calc.adapters import Reservation
from calc.models import FullAttention
from calc.parameters import count
from calc.practice._problem import Problem
from calc.practice.multi_lora._model import (
    IN_WORDS,
    MIB,
    PROJECTIONS,
    SHARE,
    SLOTS,
    STEP,
    described,
    geometry,
    made,
)
from calc.units import format_bytes, format_percent, significant
from calc.working import working

DEALT = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen2.5-72b", "mistral-nemo")


def _shared(n: Numbers, fully_sharded: bool = False) -> int:
    """Bytes of the adapter on one GPU."""
    return 2 * made(n.model, n.rank, n.targets).on_rank(ranks=n.ranks, fully_sharded=fully_sharded)


def _widths(n: Numbers) -> list[str]:
    """What one GPU holds of each pair of a layer."""
    lines = []
    for s in made(n.model, n.rank, n.targets).sites[: len(set(made(n.model, n.rank, n.targets).targets))]:
        a, b = s.held(ranks=n.ranks, fully_sharded=False)
        how = "outputs are split: A is copied" if s.split == "column" else "inputs are split: B is copied"
        lines.append(f"{s.name}: {how}, {n.rank} · ({a:,} + {b:,}) = {n.rank * (a + b):,}.")
    return lines


on_gpu = Problem(
    id="multi_lora/on-gpu",
    title="Half of a pair is copied",
    level=3,
    step=SHARE,
    printed={"model": "qwen2.5-72b", "rank": 32, "targets": "all-linear", "ranks": 4},
    choices={
        "model": DEALT,
        "rank": (8, 16, 32, 64),
        "targets": ("all-linear", "attention"),
        "ranks": (2, 4, 8),
    },
    ask=lambda n: (
        f"{described(n)}. It runs on {n.ranks} tensor-parallel GPUs. An adapter of rank {n.rank} in bf16 changes "
        f"{IN_WORDS[n.targets]}. Where the base matrix is split by outputs, the engine splits B and copies A to every "
        "GPU; where it is split by inputs (o_proj and down_proj), it splits A and copies B. "
        "How much of the adapter is on each GPU?"
    ),
    per=("GPU", "rank"),
    answer=_shared,
    mistakes={
        "divides both matrices": lambda n: _shared(n, fully_sharded=True),
        "copies the whole adapter": lambda n: made(n.model, n.rank, n.targets).stored_bytes,
        "counts one layer": lambda n: _shared(n) / len(geometry(n.model).layers),
        "keeps four bytes per element": lambda n: 2 * _shared(n),
    },
    hint="Go through one layer matrix by matrix and write down the two widths that one GPU holds.",
    solution=lambda n: [
        *_widths(n),
        f"All layers: {_shared(n) // 2:,} parameters of two bytes, {_shared(n):,} B = {format_bytes(_shared(n))}.",
    ],
)


def _reservation(n: Numbers, rank: int | None = None) -> Reservation:
    return adapters.reserve(geometry(n.model), slots=n.slots, rank=rank or n.slot_rank, targets=PROJECTIONS)


reserved = Problem(
    id="multi_lora/reserved",
    title="Reserved, not loaded",
    level=2,
    step=SLOTS,
    printed={"model": "llama-3.1-8b", "rank": 16, "slots": 8, "slot_rank": 64, "loaded": 3},
    choices={
        "model": ("llama-3.1-8b", "qwen2.5-7b", "mistral-nemo", "llama-3.1-70b"),
        "rank": (8, 16, 32),
        "slots": (4, 8, 16, 32),
        "slot_rank": (64, 128, 256),
        "loaded": (1, 2, 3),
    },
    ask=lambda n: (
        f"An engine serves {geometry(n.model).name} on one GPU with {n.slots} slots for adapters. Each slot has room "
        f"for rank {n.slot_rank} on all seven projections and for nothing else, in bf16. "
        f"{n.loaded} adapter{'s' * (n.loaded > 1)} of rank {n.rank}, "
        f"{format_bytes(made(n.model, n.rank, 'all-linear').stored_bytes)} each, "
        f"{'are' if n.loaded > 1 else 'is'} loaded. How much memory is taken for adapters?"
    ),
    answer=lambda n: _reservation(n).bytes_per_gpu,
    mistakes={
        "counts what is loaded": lambda n: n.loaded * made(n.model, n.rank, "all-linear").stored_bytes,
        "counts the slots that are in use": lambda n: n.loaded * _reservation(n).slot_bytes,
        "gives every slot the adapters' own rank": lambda n: _reservation(n, rank=n.rank).bytes_per_gpu,
        "counts one slot": lambda n: _reservation(n).slot_bytes,
    },
    hint="Slots are made when the engine starts. They know nothing of the adapters that will come.",
    solution=lambda n: [
        f"Two bytes a parameter: an adapter has {_reservation(n).slot_parameters * n.rank // n.slot_rank:,} of them. A "
        f"slot has {n.slot_rank // n.rank} times the rank, so {_reservation(n).slot_parameters:,}.",
        working(
            adapters.reserved_bytes, slots=n.slots, slot_parameters=_reservation(n).slot_parameters, element_bytes=2
        ),
    ],
)


def _tokens(n: Numbers, slots: int | None = None, ranks: int | None = None, query_heads: bool = False) -> int:
    """Cache positions whose memory the slots take."""
    model = geometry(n.model)
    position = kv.layout(model, ranks=ranks or n.ranks).bytes_per_position
    mixer = model.layers[0].mixer
    if query_heads and isinstance(mixer, FullAttention):
        position = position * mixer.query_heads / mixer.kv_heads
    return int(kv.positions_that_fit(memory_bytes=(slots or n.slots) * n.slot_mib * MIB, bytes_per_position=position))


displaced = Problem(
    id="multi_lora/displaced",
    title="What slots displace",
    level=2,
    step=SLOTS,
    printed={"model": "qwen2.5-72b", "ranks": 4, "slots": 16, "slot_mib": 360},
    choices={
        "model": ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b", "llama-3.1-405b"),
        "ranks": (2, 4, 8),
        "slots": (2, 4, 8, 16),
        "slot_mib": (90, 180, 360, 720),
    },
    ask=lambda n: (
        f"{geometry(n.model).name} runs on {n.ranks} tensor-parallel GPUs with a cache in bf16; one token takes "
        f"{format_bytes(kv.layout(geometry(n.model)).bytes_per_position)} in the whole model. On each GPU {n.slots} "
        "slots of "
        f"{n.slot_mib} MiB are reserved for adapters. How many tokens of cache would fit in that memory?"
    ),
    unit="tokens",
    answer=_tokens,
    mistakes={
        "sizes a token by the whole model": lambda n: _tokens(n, ranks=1),
        "counts one slot": lambda n: _tokens(n, slots=1),
        "counts query heads": lambda n: _tokens(n, query_heads=True),
    },
    hint="Compare what one GPU reserves with what one token takes on that GPU.",
    solution=lambda n: [
        f"On each GPU a token takes {format_bytes(kv.layout(geometry(n.model), ranks=n.ranks).bytes_per_position)}, "
        "and "
        f"the slots {format_bytes(n.slots * n.slot_mib * MIB)}.",
        working(
            kv.positions_that_fit,
            memory_bytes=n.slots * n.slot_mib * MIB,
            bytes_per_position=kv.layout(geometry(n.model), ranks=n.ranks).bytes_per_position,
        ),
    ],
)


def _read(n: Numbers) -> int:
    """Parameters that a step reads: of the embedding it looks up rows."""
    return count(geometry(n.model)).active_excluding_embedding


def _more(n: Numbers, active: int | None = None) -> float:
    """Adapter bytes of a step over the bytes of the weights, both in bf16."""
    one = made(n.model, n.rank, "all-linear").low_rank_parameters
    read = adapters.step_bytes(active=active or n.active, parameters_held=one, element_bytes=2)
    return read / (2 * _read(n))


step_share = Problem(
    id="multi_lora/step-share",
    title="What a step reads more",
    level=2,
    step=STEP,
    printed={"model": "qwen2.5-7b", "rank": 16, "active": 16, "rows": 64},
    choices={
        "model": ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "qwen2.5-72b"),
        "rank": (8, 16, 32, 64),
        "active": (4, 8, 16, 32),
        "rows": (48, 64, 128),
    },
    ask=lambda n: (
        f"A decode step of {geometry(n.model).name} has {n.rows} rows of {n.active} different adapters, each of rank "
        f"{n.rank} on all projections with {made(n.model, n.rank, 'all-linear').low_rank_parameters:,} parameters. The "
        f"model has {count(geometry(n.model)).total:,}; a step reads {_read(n):,} of "
        "them, for of the embedding it looks up rows. Everything is bf16, and rows of one adapter share one "
        "reading. By how much do the adapters raise the bytes of weights that the step reads?"
    ),
    unit="x",
    answer=_more,
    mistakes={
        "reads an adapter for every row": lambda n: _more(n, active=n.rows),
        "counts one adapter": lambda n: _more(n, active=1),
        "adds the weights themselves": lambda n: 1 + _more(n),
        "reads the whole embedding too": lambda n: _more(n) * _read(n) / count(geometry(n.model)).total,
    },
    hint="The weights are read once, and so is each adapter in the batch. Rows don't count.",
    solution=lambda n: [
        working(
            adapters.step_bytes,
            active=n.active,
            parameters_held=made(n.model, n.rank, "all-linear").low_rank_parameters,
            element_bytes=2,
        ),
        f"Over the weights that a step reads, {format_bytes(2 * _read(n))}: {significant(_more(n))}, or "
        f"{format_percent(_more(n))}.",
    ],
)
