"""The live panel of the chapter on continuous batching."""

from __future__ import annotations

import random
from math import ceil, log

from calc.panel import Panel, Row, between
from calc.scheduling._batching import largest_gain, length_at, occupancy, schedule_seconds
from calc.scheduling._compare import continuous_steps, static_steps
from calc.sources import load_json
from calc.units import CalcError, counted, format_count, format_percent, format_seconds, plain, significant
from calc.working import working

MOST = 100_000  # places or requests
LENGTHS = ("Azure conversations", "geometric", "all equal", "one long in each batch")


def batching_panel(
    *,
    places: int,
    requests: int,
    lengths: str,
    mean_output: int,
    prompt: int,
    base_ms: float,
    prefill_us: float,
    decode_us: float,
) -> Panel:
    """Panel of the chapter on continuous batching: one queue, two schedules, steps and seconds.

    Parameters
    ----------
    places, requests : int
        Sequences that run at once, and requests that wait at the start.
    lengths : str
        One of `LENGTHS`: how the lengths of the responses spread.
    mean_output, prompt : int
        Mean tokens of a response, and tokens of each prompt.
    base_ms, prefill_us, decode_us : float
        Time of a step, what a prompt token adds, and what a decoding sequence adds.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If an input is out of range.
    """
    for name, value in (("places", places), ("requests", requests), ("mean_output", mean_output), ("prompt", prompt)):
        plain("batching_panel", name, value, "count>0")
    outputs = output_lengths(lengths, mean_output=mean_output, requests=requests, places=places)
    total = sum(outputs)
    static, continuous = static_steps(outputs, places), continuous_steps(outputs, places)
    load = {
        "prefill_tokens": requests * prompt,
        "prefill_token_s": plain("batching_panel", "prefill_us", prefill_us, "") / 1e6,
        "decode_rows": total - requests,
        "decode_row_s": plain("batching_panel", "decode_us", decode_us, "") / 1e6,
    }
    base_s = plain("batching_panel", "base_ms", base_ms, ">0") / 1e3
    slow, fast = (schedule_seconds(steps=steps, base_s=base_s, **load) for steps in (static, continuous))
    token_s = base_s + places * load["decode_row_s"]
    bound = largest_gain(places=places, all_requests=requests, all_tokens=total)
    gain = static / continuous
    rows = (
        Row("Steps in static batches", format_count(static)),
        Row("Steps in continuous batching", format_count(continuous)),
        Row("Static takes so many times the steps", f"{significant(gain, 3)}×", keep=True),
        Row("… at most, however the tokens are spread", f"{significant(bound, 3)}×"),
        Row("Static takes so many times the time", f"{significant(slow / fast, 3)}×", keep=True),
        *(
            Row(f"Places filled, {name}", format_percent(share))
            for name, share in (
                ("static", occupancy(places=places, steps=static, all_tokens=total)),
                ("continuous", occupancy(places=places, steps=continuous, all_tokens=total)),
            )
        ),
        Row("Output tokens per second, continuous", significant(total / fast, 4)),
        Row("Time per token with every place decoding", format_seconds(token_s)),
    )
    lines = (
        working(largest_gain, places=places, all_requests=requests, all_tokens=total),
        working(schedule_seconds, steps=continuous, base_s=base_s, **load),
    )
    text = tuple("\n".join(line.text for line in lines).splitlines())
    return Panel(rows, text, _meaning(gain, places, requests), _LEFT_OUT)


def output_lengths(lengths: str, *, mean_output: float, requests: int, places: int) -> list[int]:
    """Lengths of responses, the same ones each time.

    Parameters
    ----------
    lengths : str
        One of `LENGTHS`.
    mean_output : float
        Their mean, about: drawn lengths scatter, and none is below one token.
    requests, places : int
        How many, and how many fit in a batch.

    Raises
    ------
    CalcError
        If there is no such way to spread them, or a number is out of range.

    Examples
    --------
    >>> output_lengths("one long in each batch", mean_output=10, requests=5, places=4)
    [37, 1, 1, 1, 37]
    """
    for name, value in (("places", places), ("requests", requests)):
        between(name, plain("output_lengths", name, value, "count"), 1, MOST)
    plain("output_lengths", "mean_output", mean_output, ">0")
    if lengths == "all equal":
        return [round(mean_output)] * requests
    if lengths == "one long in each batch":
        long = places * (round(mean_output) - 1) + 1
        return [1 if i % places else long for i in range(requests)]
    draw = random.Random(0)  # only random() is promised to give the same sequence in every version of Python
    if lengths == "geometric":
        shares = [draw.random() for _ in range(requests)]
        return [_geometric(share, mean_output) for share in shares]
    if lengths == "Azure conversations":
        table = load_json("length_tables.json")["azure_2023_conversation"]["output_tokens"]
        scale = mean_output / (sum(table[:-1]) / 2 + sum(table[1:]) / 2) * (len(table) - 1)
        return [max(round(length_at(table, draw.random()) * scale), 1) for _ in range(requests)]
    raise CalcError(f"lengths is {lengths!r}, wanted one of {', '.join(LENGTHS)}")


def _geometric(share: float, mean: float) -> int:
    """The geometric length that this share does not exceed."""
    return 1 if mean <= 1 else max(ceil(log(1 - share) / log(1 - 1 / mean)), 1)


def _meaning(gain: float, places: int, requests: int) -> str:
    if places == 1:
        return "With one place there is nobody to wait for: both schedules are the same."
    if requests <= places:
        return "All requests fit in one batch: it lasts as long as its longest response under either schedule."
    if gain < 1.0005:
        return "Nobody in a batch waits for anybody: continuous batching gains nothing here."
    return (
        f"A static batch keeps {counted(places, 'place')} until its longest response ends. Refilling them at once "
        f"saves {format_percent(1 - 1 / gain)} of the steps."
    )


_LEFT_OUT = (
    "Arrivals over time, the limit that the cache sets, attention to what is cached, prompts that share a step's time "
    "with streams, and the padding that some static engines compute. All requests wait at the start."
)
