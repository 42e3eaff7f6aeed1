"""Problems about the two pools: ratio, one line or two, overlap, what is counted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Numbers

from calc import disaggregation as d
from calc import queueing as q
from calc.practice._problem import Problem
from calc.practice.disaggregation._model import FLEET, POOLING, RATIO
from calc.units import format_count, format_seconds, significant
from calc.working import Working, working


def _decode(n: Numbers) -> float:
    return n.output * n.step / 1000 / n.batch


balance = Problem(
    id="disaggregation/balance",
    title="How many of each",
    level=2,
    step=RATIO,
    printed={"prompt": 420, "output": 300, "step": 20, "batch": 48},
    choices={
        "prompt": (90, 200, 420, 800),
        "output": (100, 300, 700),
        "step": (15, 20, 30),
        "batch": (16, 48, 96),
    },
    ask=lambda n: (
        f"A prefill worker needs {n.prompt} ms for a prompt. A decode worker runs {n.batch} sequences in steps of "
        f"{n.step} ms, and a response has {n.output} tokens. How many prefill workers for each decode worker keep both "
        "sides equally busy?"
    ),
    unit="x",
    answer=lambda n: d.prefill_per_decode(prompt_s=n.prompt / 1000, decode_s=_decode(n)),
    mistakes={
        "lets a request have a decode worker to itself": lambda n: n.prompt / (n.output * n.step),
        "gives decode workers for each prefill worker": lambda n: 1000 * _decode(n) / n.prompt,
        "takes one token for the response": lambda n: n.prompt * n.batch / n.step,
    },
    hint="Time of a worker that one request takes on either side. Those who decode together share a step.",
    solution=lambda n: [
        f"On the decode side a request takes {n.output} × {n.step} ms / {n.batch} = {format_seconds(_decode(n))}.",
        working(d.prefill_per_decode, prompt_s=n.prompt / 1000, decode_s=_decode(n)),
    ],
)


def _waits(n: Numbers) -> tuple[float, float]:
    service = n.service / 1000
    apart = q.mm1_wait(arrival_rate=n.percent / 100 / service, service_s=service)
    both = q.mmc(arrival_rate=2 * n.percent / 100 / service, service_s=service, servers=2)
    return apart, both.wait_s


def _own_line(n: Numbers) -> Working:
    """The wait alone: how busy the server is was given."""
    whole = working(q.mm1_wait, arrival_rate=n.percent / 100 / (n.service / 1000), service_s=n.service / 1000)
    return replace(whole, steps=whole.steps[1:])


one_line = Problem(
    id="disaggregation/one-line",
    title="Two lines or one",
    level=2,
    step=POOLING,
    printed={"service": 300, "percent": 70},
    choices={"service": (100, 200, 300, 500), "percent": (25, 40, 50, 60, 70, 80, 90)},
    ask=lambda n: (
        f"Jobs of one kind take {n.service} ms on average, exponentially distributed, and come at random. They are "
        f"dealt out at random to two servers, each with its own line and {n.percent}% busy. How long would a job wait "
        "on average with one line before both?"
    ),
    unit="s",
    answer=lambda n: _waits(n)[1],
    mistakes={
        "keeps the wait of two lines": lambda n: _waits(n)[0],
        "halves the wait of two lines": lambda n: _waits(n)[0] / 2,
        "takes one server of twice the speed": lambda n: (
            q.mm1_wait(arrival_rate=2 * n.percent / 100 / (n.service / 1000), service_s=n.service / 2000)
            if n.percent < 100
            else None
        ),
    },
    hint="The wait of one of the two queues first. The ratio of both waits depends on the load alone.",
    solution=lambda n: [
        f"In a line of its own, {n.percent}% busy, a job waits:",
        _own_line(n),
        "Two lines wait so many times as long as one:",
        working(d.apart_over_pooled, utilization=n.percent / 100),
        f"With one line a job waits {format_seconds(_waits(n)[0])} over that: {format_seconds(_waits(n)[1])}.",
    ],
)


def _overlap(n: Numbers) -> float:
    return d.overlap_share(prompt_s=n.prompt / 1000, step_s=n.step / 1000, mixed_s=n.mixed / 1000)


overlap = Problem(
    id="disaggregation/overlap",
    title="What a mixed step hides",
    level=2,
    step=FLEET,
    printed={"prompt": 52, "step": 20, "mixed": 58},
    choices={"prompt": (30, 52, 80), "step": (16, 20, 24), "mixed": (34, 45, 58, 66, 86, 95)},
    possible=lambda n: max(n.prompt, n.step) < n.mixed < n.prompt + n.step,
    ask=lambda n: (
        f"A step with a chunk of a prompt takes {n.prompt} ms, one with the decoding sequences {n.step} ms, and one "
        f"with both {n.mixed} ms. What share of the shorter job does the step with both hide?"
    ),
    unit="x",
    answer=_overlap,
    mistakes={
        "gives the share that is not hidden": lambda n: 1 - _overlap(n),
        "divides by the longer job": lambda n: (n.prompt + n.step - n.mixed) / max(n.prompt, n.step),
        "divides by both": lambda n: (n.prompt + n.step - n.mixed) / (n.prompt + n.step),
    },
    hint="Both in turn would take their sum. The difference is hidden; compare it with the shorter one.",
    solution=lambda n: [
        working(d.overlap_share, prompt_s=n.prompt / 1000, step_s=n.step / 1000, mixed_s=n.mixed / 1000),
    ],
)


def _hourly(n: Numbers, percent: float) -> float:
    return d.qualified_per_gpu_hour(arrival_rate=n.rate, qualified_share=percent / 100, gpus=n.gpus, hour_s=3600)


counted = Problem(
    id="disaggregation/counted",
    title="What a split is worth",
    level=2,
    step=FLEET,
    printed={"rate": 30, "gpus": 24, "pool": 78, "split": 91},
    choices={"rate": (12, 30, 50), "gpus": (8, 16, 24), "pool": (70, 78, 85), "split": (88, 91, 97)},
    ask=lambda n: (
        f"{n.rate} requests a second are served on {n.gpus} GPUs. {n.pool}% of them keep both limits in one pool, and "
        f"{n.split}% in a split one. How many qualified requests does the split bring more, for each GPU and hour?"
    ),
    unit="requests",
    per=("GPU-hour", "GPU hour", "GPU and hour", "hour and GPU"),
    answer=lambda n: _hourly(n, n.split) - _hourly(n, n.pool),
    mistakes={
        "gives all of the split's": lambda n: _hourly(n, n.split),
        "counts every request": lambda n: _hourly(n, 100),
        "forgets to divide by the GPUs": lambda n: n.gpus * (_hourly(n, n.split) - _hourly(n, n.pool)),
    },
    hint="Only requests that keep both limits count. How many does either design bring in an hour, to how many GPUs?",
    solution=lambda n: [
        working(d.qualified_per_gpu_hour, arrival_rate=n.rate, qualified_share=n.split / 100, gpus=n.gpus, hour_s=3600),
        working(d.qualified_per_gpu_hour, arrival_rate=n.rate, qualified_share=n.pool / 100, gpus=n.gpus, hour_s=3600),
        f"The difference is {format_count(_hourly(n, n.split) - _hourly(n, n.pool))} requests per GPU-hour.",
    ],
)


def _kinds(n: Numbers) -> d.TwoKinds:
    return d.TwoKinds(short_s=n.short / 1000, long_s=n.long / 1000, short_share=n.share / 100)


def _rate(n: Numbers) -> float:
    """Jobs per second at which both servers of one line are this busy."""
    return _kinds(n).rate(n.percent / 100)


def _part(percent: float) -> str:
    return f"{percent / 100:g}"


def _busy_long(n: Numbers) -> float:
    return _rate(n) * (1 - n.share / 100) * n.long / 1000


stranded = Problem(
    id="disaggregation/stranded",
    title="The busy half",
    level=3,
    step=POOLING,
    printed={"short": 20, "long": 150, "share": 80, "percent": 60},
    choices={"short": (10, 20, 40), "long": (100, 150, 300), "share": (60, 80, 90), "percent": (30, 45, 60)},
    possible=lambda n: _busy_long(n) < 0.97 and abs(_kinds(n).short_load - 0.5) > 0.03,
    ask=lambda n: (
        f"{n.share}% of the jobs take {n.short} ms on average, the others {n.long} ms. One line before two servers "
        f"keeps each {n.percent}% busy. Now one server takes the short jobs and the other the long ones. How busy is "
        "the one with the long jobs?"
    ),
    unit="x",
    answer=_busy_long,
    mistakes={
        "keeps both equally busy": lambda n: n.percent / 100,
        "takes the server with the short jobs": lambda n: 2 * n.percent / 100 - _busy_long(n),
        "splits the load by the number of jobs": lambda n: 2 * n.percent / 100 * (1 - n.share / 100),
        "forgets that there are two servers": lambda n: _busy_long(n) / 2,
    },
    hint="The rate of all jobs from their mean time and the load of both servers. Then the long ones' work.",
    solution=lambda n: [
        f"A job takes {_part(n.share)} · {n.short} ms + {_part(100 - n.share)} · {n.long} ms = "
        f"{format_seconds(_kinds(n).mean_s)} on average. Two servers {n.percent}% busy do 2 · {_part(n.percent)} = "
        f"{_part(2 * n.percent)} s of work in a second, so {_part(2 * n.percent)} / {format_seconds(_kinds(n).mean_s)} "
        f"= {significant(_rate(n), 5)} jobs come a second. Long ones are {_part(100 - n.share)} · "
        f"{significant(_rate(n), 5)} = {significant(_rate(n) * (1 - n.share / 100))} of them:",
        working(q.utilization, arrival_rate=_rate(n) * (1 - n.share / 100), service_s=n.long / 1000, servers=1),
    ],
)
