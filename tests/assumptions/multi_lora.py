"""What a reader of memory/multi_lora might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import adapters, hardware, models, parameters
from calc.units import UNITS

from . import Altered


@st.composite
def many_adapters(draw: st.DrawFn) -> dict[str, Any]:
    """Adapters of any shape on any model, with slots that admit them, under any popularity."""
    slug = draw(st.sampled_from(models.catalogue()))
    ranks, sharded = draw(st.sampled_from([1, 1, 2, 2, 4, 8])), draw(st.booleans())
    widest = draw(st.sampled_from([16, 32, 64, 128]))
    rank = ranks * draw(st.integers(1, widest // ranks)) if sharded else draw(st.integers(1, widest))
    names = adapters.buffered(models.load(slug))
    listed = st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)
    targets = draw(st.one_of(st.sampled_from(adapters.GROUPS), listed))
    spare = [name for name in adapters.EMBEDDINGS if name not in targets]
    slots = draw(st.integers(1, 24))
    chips = [slug for slug in hardware.accelerators() if "pcie" in hardware.accelerator(slug).links]
    return {
        "model_slug": slug,
        "lora_rank": rank,
        "target_modules": targets,
        "adapter_element": draw(st.sampled_from(sorted(adapters.ELEMENTS))),
        "saved_modules": draw(st.lists(st.sampled_from(spare), unique=True)) if spare else [],
        "stored_adapters": draw(st.integers(1, 1200)),
        "host_adapters": draw(st.integers(slots, 400)),
        "slots": slots,
        "slot_rank": widest,
        "fully_sharded": sharded,
        "tensor_parallel_ranks": ranks,
        "memory_gib_per_rank": draw(st.one_of(st.integers(10, 180), st.floats(10, 180))),
        "waiting_requests": draw(st.integers(1, 200)),
        "positions_per_request": draw(st.integers(1, 8192)),
        "zipf_exponent": draw(st.floats(0, 2.5)),
        "accelerator_slug": draw(st.sampled_from(chips)),
        "disk_gb_per_s": draw(st.floats(0.1, 14)),
        "adapter_folder": "",
    }


def every_row_agrees(run: Run) -> None:
    """Served through its pair, a row gives what a merged model gives."""
    n = run.namespace
    assert n["agree"].all() and n["untouched"]
    assert f"{len(n['batch'])} of {len(n['batch'])} rows agree" in run.prose


def what_limits_the_batch(run: Run) -> None:
    """Slots, memory or neither, as the queues that were drawn say."""
    n = run.namespace
    popularity = adapters.zipf(adapters=n["stored_adapters"], exponent=n["zipf_exponent"])
    running = adapters.expected_running(popularity, requests=n["waiting_requests"], slots=n["slots"])
    left = n["memory_gib_per_rank"] * UNITS["GiB"].factor - n["held"].bytes_per_gpu
    fits = left // n["request_bytes"]
    if "Slots are the limit" in run.prose:
        assert running < fits and running < n["waiting_requests"] - 0.4
    elif "Memory is the limit" in run.prose:
        assert fits <= running
    else:
        assert "Neither slots nor memory" in run.prose
        assert fits >= n["waiting_requests"] and running > n["waiting_requests"] - 0.6


def sets_of_adapters(run: Run) -> None:
    """What a slot holds is never more than the slot, and padding is at least the ratio of ranks."""
    n = run.namespace
    assert n["filled"] <= n["everywhere"]
    assert n["everywhere"] / n["filled"] >= 0.999999 * n["slot_rank"] / n["lora_rank"]
    assert n["share"] * n["tensor_parallel_ranks"] >= 0.999999 * 2 * n["one"].low_rank_parameters
    assert ("Buffers for routed experts are not in" in run.prose) == any(
        "experts." in name for name in adapters.target_names(n["model"])
    )


def shares_of_requests(run: Run) -> None:
    """Hits on the GPU, loads from the host and loads from the disk are all requests."""
    n = run.namespace
    assert 0 < n["hits"] <= n["host_hits"] + 1e-9 <= 1 + 2e-9
    assert n["distinct"] <= min(n["waiting_requests"], n["stored_adapters"]) * (1 + 1e-9)
    assert n["hits"] <= adapters.pinned_hit_ratio(n["popularity"], slots=n["slots"]) + 0.02  # one is approximated


def a_halved_speed_put_down_to_bytes(run: Run) -> None:
    """69 tokens a second that became 35, over the share of an adapter's bytes: neither is rounded before."""
    mistral = models.load("mistral-7b-v0.1")
    base, pairs = parameters.count(mistral).total, adapters.adapter(mistral, rank=16).low_rank_parameters
    assert f"{(69 / 35 - 1) / (pairs / base):.0f}× too much" in run.prose


ALTERED = Altered(
    sensible=many_adapters(),
    impossible=(
        {"model_slug": "llama-9"},
        {"model_slug": "no/such/config.json"},
        {"lora_rank": 0},
        {"lora_rank": 128},
        {"lora_rank": 12, "fully_sharded": True},
        {"target_modules": "everything"},
        {"target_modules": ["wq"]},
        {"target_modules": []},
        {"adapter_element": "int4"},
        {"saved_modules": ["norm"]},
        {"stored_adapters": 0},
        {"host_adapters": 4},
        {"slots": 0},
        {"slot_rank": 0},
        {"tensor_parallel_ranks": 3},
        {"waiting_requests": 0},
        {"positions_per_request": -1},
        {"memory_gib_per_rank": 1},
        {"memory_gib_per_rank": float("nan")},
        {"zipf_exponent": -1},
        {"zipf_exponent": float("inf")},
        {"accelerator_slug": "h100"},
        {"disk_gb_per_s": 0},
        {"adapter_folder": "no/such/folder"},
        {"model_slug": "mixtral-8x7b", "target_modules": ["experts.down_proj"]},
    ),
    claims=(
        every_row_agrees,
        what_limits_the_batch,
        sets_of_adapters,
        shares_of_requests,
        a_halved_speed_put_down_to_bytes,
    ),
)
