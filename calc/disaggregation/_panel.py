"""The live panel of the chapter on split and combined pools."""

from __future__ import annotations

import functools
from random import Random
from statistics import fmean

from calc.disaggregation._fleet import Handoff, Outcome, Worker, worker
from calc.disaggregation._formulas import qualified_per_gpu_hour, transfer_seconds
from calc.disaggregation._race import Comparison, compare
from calc.hardware import accelerator
from calc.latency import Objectives
from calc.models import load
from calc.panel import Panel, Row, between
from calc.queueing import Interval, typical_lengths
from calc.scheduling import Request, length_at
from calc.sources import load_json
from calc.units import counted, format_count, format_percent, format_seconds, plain, significant
from calc.working import working
from calc.workload import arrivals

REQUESTS = 360
SEEDS = 1, 2  # of the lengths and of the arrivals
BUDGETS = 256, 512, 1024, 16384  # the last one cuts no prompt
HOUR = 3600
GBIT = 1e9 / 8
ASSUMED = {"prefill_efficiency": 0.5, "read_efficiency": 0.7, "memory_fraction": 0.9, "other_bytes": 3 * 1024**3}
WIRE = 0.8  # of the nominal speed, with large pieces
CONTROL_S = 0.05
MOST = 1_000_000  # requests or Gbit a second


def disaggregation_panel(
    *,
    model: str,
    accelerator_slug: str,
    workers: int,
    arrival_rate: float,
    overlap_percent: float,
    nic_gbit: float,
    descriptor_us: float,
    first_ms: float,
    pace_ms: float,
) -> Panel:
    """Panel of the chapter: one pool with the best budget against a split with the best ratio, at one load.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    accelerator_slug : str
        A slug of `calc.hardware.accelerators`; a worker has four of them.
    workers : int
        At least 2.
    arrival_rate : float
        Requests per second, to all workers.
    overlap_percent : float
        How much of the shorter job a step hides that does both, a chunk and decoding.
    nic_gbit : float
        Nominal speed of the link of each GPU, Gbit/s.
    descriptor_us : float
        Posting one descriptor, microseconds.
    first_ms, pace_ms : float
        Limits on time to first token and time per output token.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    between("overlap_percent", overlap_percent, 0, 100)
    between("arrival_rate", arrival_rate, 0.001, MOST)
    between("nic_gbit", nic_gbit, 0.001, MOST)
    plain("disaggregation_panel", "descriptor_us", descriptor_us, "")
    for name, value in (("first_ms", first_ms), ("pace_ms", pace_ms)):
        plain("disaggregation_panel", name, value, ">0")
    requests = _drawn()
    one = worker(
        load(model),
        accelerator(accelerator_slug),
        ranks=4,
        prompts=typical_lengths(_table()["prompt_tokens"]),
        overlap=overlap_percent / 100,
        **ASSUMED,
    )
    way = Handoff(wire_rate=WIRE * nic_gbit * GBIT, descriptor_s=descriptor_us / 1e6, control_s=CONTROL_S)
    limits = Objectives(ttft_s=first_ms / 1000, tpot_s=pace_ms / 1000)
    given = {"workers": workers, "worker": one, "handoff": way, "budgets": BUDGETS, "limits": limits}
    found = compare(requests, arrival_rate=arrival_rate, **given)
    pool, split = found.pool, found.split
    cut = "whole prompts" if pool.setting == BUDGETS[-1] else f"{format_count(pool.setting)} tokens a step"
    prompt = round(fmean(r.prompt_tokens for r in requests))
    rows = [
        Row("Best pool", cut),
        Row("Best split", f"{split.setting} prefill, {workers - split.setting} decode"),
        Row("Pool: inside both limits", format_percent(pool.share(limits))),
        Row("Split: inside both limits", format_percent(split.share(limits))),
        Row("Pool: qualified per GPU-hour", _hourly(pool, arrival_rate, limits)),
        Row("Split: qualified per GPU-hour", _hourly(split, arrival_rate, limits)),
        Row(f"Handoff of {counted(prompt, 'token')}", format_seconds(way.exposed_s(one, prompt) + CONTROL_S)),
        Row("Split less pool, 95% interval", _difference(found.ahead())),
        Row("Ahead", {"neither": "not told apart"}.get(found.winner, found.winner), keep=True),
    ]
    lines = working(
        transfer_seconds,
        cache_bytes=prompt * one.rank_bytes,
        wire_rate=way.wire_rate,
        descriptors=way.pieces(one, prompt),
        descriptor_s=way.descriptor_s,
    ).text.splitlines()
    best = max(pool, split, key=lambda outcome: outcome.share(limits))
    lines += working(
        qualified_per_gpu_hour,
        arrival_rate=arrival_rate,
        qualified_share=float(f"{best.share(limits):.4g}"),
        gpus=best.gpus,
        hour_s=HOUR,
    ).text.splitlines()
    return Panel(tuple(rows), tuple(lines), _meaning(found, one), _LEFT_OUT)


def _table() -> dict:
    return load_json("length_tables.json")["azure_2023_conversation"]


@functools.cache
def _drawn() -> tuple[Request, ...]:
    """The panel's requests, at one a second."""
    draw, table = Random(SEEDS[0]), _table()
    lengths = [
        tuple(max(round(length_at(table[part], draw.random())), 1) for part in ("prompt_tokens", "output_tokens"))
        for _ in range(REQUESTS)
    ]
    times = arrivals(per_second=1, requests=REQUESTS, seed=SEEDS[1])
    return tuple(Request(i, *pair, at) for i, (pair, at) in enumerate(zip(lengths, times, strict=True)))


def _difference(gain: Interval) -> str:
    mean, low, high = (significant(100 * value, 2) for value in (gain.mean, gain.low, gain.high))
    return f"{mean} points ({low} to {high})"


def _hourly(outcome: Outcome, rate: float, limits: Objectives) -> str:
    share = outcome.share(limits)
    made = qualified_per_gpu_hour(arrival_rate=rate, qualified_share=share, gpus=outcome.gpus, hour_s=HOUR)
    return format_count(round(made))


def _meaning(found: Comparison, one: Worker) -> str:
    pool, split, limits = found.pool, found.split, found.limits
    said = {
        "split": "The split keeps more requests inside both limits.",
        "pool": "The pool keeps more requests inside both limits.",
        "neither": "These requests don't tell the two apart.",
    }[found.winner]
    parts = []
    for name, outcome in (("pool", pool), ("split", split)):
        first, pace = (format_percent(share, 2) for share in _late(outcome, limits))
        parts.append(f"in the {name} {first} of the first tokens are late and {pace} of the responses too slow")
    if one.read_s > limits.tpot_s:
        said += " Reading the weights alone takes longer than the limit on the pace, so no response of several tokens "
        said += "keeps it."
    return f"{said} Of all requests, {parts[0]}; {parts[1]}."


def _late(outcome: Outcome, limits: Objectives) -> tuple[float, float]:
    count = len(outcome.ttft_s)
    return (
        sum(time > limits.ttft_s for time in outcome.ttft_s) / count,
        sum(time > limits.tpot_s for time in outcome.tpot_s) / count,
    )


_LEFT_OUT = (
    f"One draw of {REQUESTS} requests with the lengths of one public trace, dealt out in turn; workers of four GPUs; "
    "half of the floor's rate for prefill, 70% of the bandwidth for reading, 80% of the link and "
    f"{format_seconds(CONTROL_S)} of control, all assumed. Not modeled: prefix caching, unlike workers or parallelism "
    "on the two sides, what a transfer takes from the steps, a step slowed where both jobs take about as long, and "
    "the memory that holds a cache until it is fetched."
)
