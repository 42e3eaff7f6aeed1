"""What a reader of service/cold_start might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, models, quantization, startup
from calc.units import CalcError

from . import Altered


def _known(slug: str) -> bool:
    """Whether the library knows the matrices of a model, and so its checkpoint."""
    try:
        return quantization.stored(models.load(slug), "bf16").total_bytes > 0
    except CalcError:
        return False


@st.composite
def starts(draw: st.DrawFn) -> dict[str, Any]:
    """Any model on any chip with a host link, from anywhere, with phases of any length."""
    seconds = st.one_of(st.integers(0, 240), st.floats(0.01, 240), st.just(0))
    rates = st.one_of(st.integers(1, 40), st.floats(0.1, 40))
    chips = [slug for slug in hardware.accelerators() if "pcie" in hardware.accelerator(slug).links]
    return {
        "model_slug": draw(st.sampled_from([slug for slug in models.catalogue() if _known(slug)])),
        "stored_as": draw(st.sampled_from(["bf16", "fp8-tensor", "gptq-int4-g128"])),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8, 16])),
        "accelerator_slug": draw(st.sampled_from(chips)),
        "weights_from": draw(st.sampled_from(sorted(startup.WEIGHTS_FROM))),
        "object_gb_per_s": draw(rates),
        "disk_gb_per_s": draw(rates),
        "reached_percent": draw(st.one_of(st.integers(1, 100), st.floats(1, 100))),
        "every_rank_reads_all": draw(st.booleans()),
        "piece_mib": draw(st.sampled_from([1, 16, 64, 1024, 10**6])),
        "image_gb": draw(st.one_of(st.just(0), st.floats(0.1, 40))),
        "image_gb_per_s": draw(st.floats(0.05, 5)),
        "imports_seconds": draw(seconds),
        "rank_setup_seconds": draw(seconds),
        "trace_seconds": draw(seconds),
        "compile_seconds": draw(seconds),
        "layout_seconds": draw(seconds),
        "capture_seconds": draw(seconds),
        "warmup_seconds": draw(seconds),
        "probe_period_seconds": draw(st.one_of(st.just(0), st.floats(0.5, 60))),
        "goal_seconds": draw(st.one_of(st.integers(5, 600), st.floats(5, 600))),
        "compile_kept_seconds": draw(st.one_of(st.just(0), st.floats(0.01, 30))),
        "captures_kept_percent": draw(st.one_of(st.integers(0, 100), st.floats(0.1, 100))),
        "rank_setup_kept_seconds": draw(st.one_of(st.just(0), st.floats(0.01, 30))),
        "arrivals_per_s": draw(st.one_of(st.integers(0, 30), st.floats(0.01, 30))),
        "served_per_s": draw(st.one_of(st.integers(0, 30), st.floats(0.01, 30))),
    }


def _times(run: Run) -> dict[str, float]:
    """The phases, from the assumptions alone."""
    n = run.namespace
    share = n["reached_percent"] / 100
    copies = n["tensor_parallel_ranks"] if n["every_rank_reads_all"] else 1
    fetch = n["checkpoint"] / (min(n["object_gb_per_s"], n["disk_gb_per_s"]) * 1e9 * share)
    read = copies * n["checkpoint"] / (n["disk_gb_per_s"] * 1e9 * share)
    link = n["chip"].link("pcie").bytes_per_second.value
    copy = n["checkpoint"] / n["tensor_parallel_ranks"] / (link * share)
    weights = {"object storage": fetch + read, "disk": read, "host memory": 0}[n["weights_from"]]
    setup = n["image_gb"] / n["image_gb_per_s"] + n["imports_seconds"] + n["rank_setup_seconds"]
    engine = n["trace_seconds"] + n["compile_seconds"] + n["layout_seconds"] + n["capture_seconds"]
    ready = n["warmup_seconds"] + n["probe_period_seconds"] / 2
    return {"weights": weights, "copy": copy, "setup": setup, "engine": engine, "ready": ready}


def both_totals(run: Run) -> None:
    """In a row the start is the sum; side by side it is the longer of two ways to the warm-up."""
    n, t = run.namespace, _times(run)
    assert abs(n["row"].total_s - sum(t.values())) <= 1e-9 * n["row"].total_s
    beside = max(t["setup"] + t["engine"], max(t["weights"], t["setup"]) + t["copy"]) + t["ready"]
    assert abs(n["both"].total_s - beside) <= 1e-9 * n["row"].total_s
    assert ("though no phase became shorter" in run.prose) == (n["row"].total_s - n["both"].total_s > 1e-9)


def slack_is_shared(run: Run) -> None:
    """One phase of those that share it may take all of it; a second more for another one then delays the start."""
    n = run.namespace
    phases, total = startup.phases(n["beside"]), n["both"].total_s
    for names in n["off"].values():
        first, *others = names
        longer = startup.lasting(phases, first, n["both"][first].seconds + n["both"][first].slack_s)
        assert startup.longest_path(longer) <= total * (1 + 1e-9) + 1e-9
        for other in others:
            both = startup.lasting(longer, other, n["both"][other].seconds + 1)
            assert startup.longest_path(both) > total + 0.5
    assert ("together" in run.prose.partition("Slack: ")[2].partition("Sanity")[0]) == any(
        len(names) > 1 for names in n["off"].values()
    )


def who_is_killed(run: Run) -> None:
    """Third failed check: after 120, 130 and 140 s in the container, which runs from the imports to the warm-up."""
    n, t = run.namespace, _times(run)
    in_container = sum(t.values()) - n["image_gb"] / n["image_gb_per_s"] - n["probe_period_seconds"] / 2
    if abs(in_container - 140) > 1e-6:
        assert ("and begun again, and again, if nothing is kept" in run.prose) == (in_container > 140)
    if min(abs(in_container - 120), abs(in_container - 140)) > 1e-6:
        assert ("a check or two fail" in run.prose) == (120 < in_container < 140)


def a_stream_and_its_copies(run: Run) -> None:
    """Read once a stream is never longer than by way of the disk; read by all it moves as many checkpoints."""
    n = run.namespace
    share, size = n["reached_percent"] / 100, n["checkpoint"]
    fetch = size / (min(n["object_gb_per_s"], n["disk_gb_per_s"]) * 1e9 * share)
    by_disk = fetch + size / (n["disk_gb_per_s"] * 1e9 * share) + _times(run)["copy"]
    assert abs(n["by_disk"] - by_disk) <= 1e-9 * by_disk and n["own"] <= by_disk * (1 + 1e-9)
    assert n["every"] >= n["tensor_parallel_ranks"] * size / (n["object_gb_per_s"] * 1e9 * share) * (1 - 1e-9)
    assert ("the stream pays for every copy" in run.prose) == (n["tensor_parallel_ranks"] > 1)


def what_decides(run: Run) -> None:
    """Faster storage gains nothing exactly if the text says so."""
    n = run.namespace
    beside = n["beside"]
    faster = replace(beside, object_rate=2 * beside.object_rate, disk_rate=2 * beside.disk_rate)
    gained = n["both"].total_s - startup.schedule(startup.phases(faster)).total_s
    if "faster storage gains **nothing**" in run.prose:
        assert gained <= 1e-6
    else:
        assert "on the longest path" in run.prose


def levers_keep_their_word(run: Run) -> None:
    """The levers named reach the goal, one fewer does not, and those that gain nothing are named."""
    n = run.namespace
    goal, chosen = n["goal"] * (1 + 1e-6), n["chosen"]

    def total(levers: list) -> float:
        return startup.schedule(startup.phases(startup.apply(n["start"], levers))).total_s

    for lever in chosen or ():
        assert re.search(rf"plausible if (this|all of this) is true: [^.]*{lever.name}", run.prose)
    if chosen is None:
        assert "**not plausible**" in run.prose and total(list(n["levers"])) > goal * (1 - 1e-6)
    else:
        assert total(list(chosen)) <= goal
        for left_out in chosen:
            assert total([lever for lever in chosen if lever != left_out]) > n["goal"] * (1 - 1e-6)
    for lever in n["levers"]:
        pulled = startup.apply(n["beside"], [lever])
        gain = n["both"].total_s - startup.schedule(startup.phases(pulled)).total_s
        if f"“{lever.name}”" in run.prose and lever.name in n["idle"]:
            assert gain <= 1e-6


def a_fresh_node(run: Run) -> None:
    """What a fresh node is said to need is what the best of its levers give, whichever are left out."""
    n = run.namespace

    def total(levers: tuple) -> float:
        return startup.schedule(startup.phases(startup.apply(n["start"], levers))).total_s

    fresh = n["fresh"]
    found = min(total(some) for size in range(len(fresh) + 1) for some in itertools.combinations(fresh, size))
    assert abs(n["best_fresh"] - found) <= 1e-6 * found
    assert ("never ran the model" in run.prose) == (bool(n["chosen"]) and found > n["goal"])
    if n["instead"]:
        assert n["IN_MEMORY"] not in [lever.name for lever in n["instead"]]
        assert total(n["instead"]) <= n["goal"] * (1 + 1e-6)


def the_chain(run: Run) -> None:
    """Piece by piece is no longer than hop after hop and no shorter than the slowest hop; played out it is the same."""
    n = run.namespace
    hops = [hop.seconds for hop in n["moves"]]
    assert max(hops) * 0.999 <= n["chain"] <= sum(hops) * 1.001  # four digits are shown
    assert abs(n["played"] - n["formula"]) <= 1e-6 * n["formula"]


def the_queue(run: Run) -> None:
    """What waits is what arrived less what was served."""
    n = run.namespace
    more = max(0.0, n["arrivals_per_s"] - n["served_per_s"])
    assert abs(n["held"] - more * n["until"]) <= 1e-9 * max(1, n["held"])
    assert abs(n["until"] - n["row"].total_s) <= 0.005 * n["row"].total_s  # three digits are shown
    assert ("nothing piles up" in run.prose) == (n["held"] == 0)
    if n["held"] and 2 * n["served_per_s"] <= n["arrivals_per_s"]:
        assert "the queue never drains" in run.prose


def rates_for_the_goal(run: Run) -> None:
    """Every rate named brings the start to the goal, and is no less than the weights over the goal."""
    n = run.namespace
    for way in n["WAYS"].values():
        for order in startup.ORDERS:
            asked = replace(n["kept"], order=order, **way)
            said = n["rate_for"](way, order)
            left = startup.storage_allowance(asked, goal_s=n["goal"])
            assert (said == "none is enough") == (not left)
            if left:
                moved = sum(h.moved_bytes for h in startup.hops(asked) if h.name != startup.COPY)
                assert moved / left >= n["checkpoint"] / n["goal"] * (1 - 1e-9)


def no_number_is_lost(run: Run) -> None:
    """No table cell is empty, and no time is negative."""
    assert not re.search(r"<td>\s*</td>", run.prose)
    assert not re.search(r"(?<![\w–])-\d[\d.,]* (s|ms)\b", run.prose)


ALTERED = Altered(
    sensible=starts(),
    impossible=(
        {"model_slug": "llama-9"},
        {"model_slug": "no/such/config.json"},
        {"stored_as": "int3"},
        {"tensor_parallel_ranks": 0},
        {"tensor_parallel_ranks": 2.5},
        {"accelerator_slug": "h100"},
        {"weights_from": "tape"},
        {"object_gb_per_s": 0},
        {"disk_gb_per_s": -1},
        {"reached_percent": 0},
        {"reached_percent": 101},
        {"piece_mib": 0},
        {"image_gb": -1},
        {"image_gb_per_s": 0},
        {"imports_seconds": -1},
        {"compile_seconds": float("nan")},
        {"capture_seconds": float("inf")},
        {"goal_seconds": 0},
        {"compile_kept_seconds": -1},
        {"captures_kept_percent": 120},
        {"rank_setup_kept_seconds": -1},
        {"arrivals_per_s": -1},
        {"served_per_s": float("nan")},
    ),
    claims=(
        *(both_totals, what_decides, levers_keep_their_word, a_fresh_node, the_chain, the_queue, rates_for_the_goal),
        *(slack_is_shared, who_is_killed, a_stream_and_its_copies),
        no_number_is_lost,
    ),
)
