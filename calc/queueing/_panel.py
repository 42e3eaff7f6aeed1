"""The live panel of the chapter on a first-token budget."""

from __future__ import annotations

from calc.hardware import accelerator
from calc.models import load
from calc.panel import Panel, Row, between
from calc.queueing._budget import mixed_seconds
from calc.queueing._checks import Unstable
from calc.queueing._compose import Composed, compose, fewest_replicas, prefill_times, typical_lengths
from calc.queueing._formulas import mg1_wait
from calc.queueing._service import Service, mixture, recorded
from calc.sources import load_json
from calc.units import CalcError, counted, format_count, format_percent, format_seconds, plain, significant
from calc.working import working

TARGET = 95  # percent of requests that must meet the limit
FAR = 4  # limits within which a percentile is looked for


def first_token_panel(
    *,
    model: str,
    accelerator_slug: str,
    ranks: int,
    replicas: int,
    arrival_rate: float,
    warm_percent: float,
    hit_percent: float,
    efficiency_percent: float,
    limit_ms: float,
) -> Panel:
    """Panel of the chapter on a first-token budget: a replica's queue, and the replicas that a limit needs.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    accelerator_slug : str
        A slug of `calc.hardware.accelerators`.
    ranks, replicas : int
        GPUs of a replica, and replicas.
    arrival_rate : float
        Requests per second to all of them together.
    warm_percent, hit_percent : float
        Requests whose prefix is cached, and the part of their prompt that is.
    efficiency_percent : float
        Share of the floor's rate that prefill is taken to reach.
    limit_ms : float
        On the time to first token.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    for name, value in (("warm_percent", warm_percent), ("hit_percent", hit_percent)):
        between(name, value, 0, 100)
    between("efficiency_percent", efficiency_percent, 0.1, 100)
    between("arrival_rate", arrival_rate, 0.001, 1_000_000)
    between("limit_ms", limit_ms, 1, 1_000_000)
    plain("first_token_panel", "replicas", replicas, "count>0")
    geometry, chip, limit_s = load(model), accelerator(accelerator_slug), limit_ms / 1000
    prompts = typical_lengths(load_json("length_tables.json")["azure_2023_conversation"]["prompt_tokens"])
    made = {"ranks": ranks, "prompts": prompts, "efficiency": efficiency_percent / 100}
    cold = prefill_times(geometry, chip, **made)
    warm = prefill_times(geometry, chip, hit_share=hit_percent / 100, **made)
    share = warm_percent / 100
    service = mixture([(1 - share, recorded(cold)), (share, recorded(warm))])
    parts = {"cold_s": cold, "warm_s": warm, "warm_share": share, "fixed_s": 0.0, "jitter_s": 0.0, "limit_s": limit_s}
    each = arrival_rate / replicas
    needed = fewest_replicas(arrival_rate=arrival_rate, target_share=TARGET / 100, **parts)
    rows = [
        Row("Mean prefill, cold", format_seconds(recorded(cold).mean_s)),
        Row("Mean prefill, warm", format_seconds(recorded(warm).mean_s)),
        Row("Busy with prompts", format_percent(each * service.mean_s)),
    ]
    means = {"cold_s": recorded(cold).mean_s, "warm_s": recorded(warm).mean_s}
    lines = working(mixed_seconds, warm_share=share, **means).text.splitlines()
    try:
        replica = compose(arrival_rate=each, horizons=FAR, **parts)
        queue = {"arrival_rate": each, "service_s": service.mean_s, "service_scv": service.scv}
        rows += _waits(replica, mg1_wait(**queue), limit_s)
        lines += working(mg1_wait, **queue).text.splitlines()
        met = replica.every.within(limit_s)
    except Unstable:
        met = 0.0
        rows.append(Row("Mean wait", "grows without end"))
    fleet = "none" if needed is None else f"{format_count(needed)}, {counted(needed * ranks, 'GPU')}"
    rows.append(Row(f"Fewest replicas with {TARGET}% inside the limit", fleet, keep=True))
    return Panel(tuple(rows), tuple(lines), _meaning(met, needed, replicas, service, each), _LEFT_OUT)


def _waits(replica: Composed, mean: float, limit_s: float) -> list[Row]:
    rows = [Row("Mean wait", format_seconds(mean))]
    for name, times in (("cold", replica.cold), ("warm", replica.warm), ("all requests", replica.every)):
        try:
            text = format_seconds(times.percentile(TARGET))
        except CalcError:
            text = f"more than {format_seconds(FAR * limit_s)}"
        rows.append(Row(f"p{TARGET} of wait and prefill, {name}", text))
    inside = 100 * replica.every.within(limit_s)
    rows.append(Row("Inside the limit", f"{significant(inside, 3)}%", keep=True))
    return rows


def _meaning(met: float, needed: int | None, replicas: int, service: Service, each: float) -> str:
    if needed is None:
        return (
            f"Even an idle replica is too slow for {100 - TARGET}% of the prompts or more: no number of replicas "
            "helps. Use more GPUs for each, shorter prompts, or a longer limit."
        )
    if each * service.mean_s >= 1:
        return (
            "Prompts arrive faster than they are computed, so the wait has no steady value. "
            f"It takes {counted(needed, 'replica')} to meet the limit."
        )
    verdict = "meet" if replicas > 1 else "meets"
    if met >= TARGET / 100:
        spare = replicas - needed
        more = f" {counted(spare, 'replica')} more than needed." if spare > 0 else " One fewer would not."
        if needed == 1 and not spare:
            more = ""
        return f"{counted(replicas, 'replica')} {verdict} the limit.{more}"
    return f"{counted(replicas, 'replica')} {'miss' if replicas > 1 else 'misses'} the limit; {needed} would meet it."


_LEFT_OUT = (
    "Network, gateway and tokenizer; the room in the cache; decoding that shares the steps, and the step that a prompt "
    "finds in progress, which all make it later; routing that knows prefixes or queues. Prompt lengths are those of "
    "one public trace. The efficiency is assumed, and prefill above its floor by just that much."
)
