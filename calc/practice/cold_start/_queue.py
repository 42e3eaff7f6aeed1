"""Problems about requests that queue while a replica starts, and a design."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace as Numbers

from calc import startup
from calc.hardware import accelerator
from calc.latency import requests_to_prove
from calc.practice._problem import Problem
from calc.practice.cold_start._model import GB, LEVERS, QUEUE, described, geometry, weights
from calc.units import counted, format_bytes, format_count, format_seconds
from calc.working import Working, working

TRAFFIC = {
    "arrive": (5, 7, 9, 12),
    "each": (2, 3, 4),
    "replicas": (1, 2, 3),
    "start": (45, 80, 150, 240),
}


def _served(n: Numbers, more: int = 0) -> float:
    return (n.replicas + more) * n.each


def _waiting(n: Numbers) -> dict[str, float]:
    return {"arrival_rate": n.arrive, "served_rate": _served(n), "start_seconds": n.start}


def _told(n: Numbers) -> str:
    running = "One replica runs, good" if n.replicas == 1 else f"{n.replicas} replicas run, each good"
    return (
        f"{running} for {n.each} requests a second. From one moment on, {n.arrive} requests a second "
        f"arrive, and a further replica is started at once. It is ready after {n.start} s"
    )


waiting = Problem(
    id="cold_start/waiting",
    title="Who waits for the new replica",
    level=2,
    step=QUEUE,
    printed={"arrive": 9, "each": 4, "replicas": 2, "start": 150},
    choices=TRAFFIC,
    possible=lambda n: n.arrive > _served(n),
    ask=lambda n: f"{_told(n)}. How many requests wait at that moment, taken as a flow?",
    unit="requests",
    answer=lambda n: startup.backlog(**_waiting(n)),
    mistakes={
        "forgets what is served meanwhile": lambda n: n.arrive * n.start,
        "counts what is served": lambda n: _served(n) * n.start,
        "lets the new replica serve from the beginning": lambda n: (
            max(0, n.arrive - _served(n, more=1)) * n.start or None
        ),
    },
    hint="Each second adds what arrives and takes away what is served.",
    solution=lambda n: [
        f"Until then {_served(n)} requests a second are served.",
        working(startup.backlog, **_waiting(n)),
    ],
)


def _drained(n: Numbers) -> float:
    queue = startup.backlog(**_waiting(n))
    return startup.drain_seconds(backlog=queue, served_rate=_served(n, more=1), arrival_rate=n.arrive)


drained = Problem(
    id="cold_start/drained",
    title="Until the queue is gone",
    level=3,
    step=QUEUE,
    printed={"arrive": 5, "each": 3, "replicas": 1, "start": 240},
    choices=TRAFFIC,
    possible=lambda n: _served(n) < n.arrive < _served(n, more=1),
    ask=lambda n: f"{_told(n)}. How long after it is ready is the queue worked off, taken as a flow?",
    unit="s",
    answer=_drained,
    mistakes={
        "forgets that requests go on arriving": lambda n: startup.backlog(**_waiting(n)) / _served(n, more=1),
        "lets only the new replica work on it": lambda n: startup.backlog(**_waiting(n)) / n.each,
        "counts from the beginning of the start": lambda n: _drained(n) + n.start,
    },
    hint="First the queue. Then what all replicas serve beyond what arrives.",
    solution=lambda n: [
        working(startup.backlog, **_waiting(n)),
        working(
            startup.drain_seconds,
            backlog=startup.backlog(**_waiting(n)),
            served_rate=_served(n, more=1),
            arrival_rate=n.arrive,
        ),
    ],
)


CHAPTER = {  # what the chapter assumes beside the weights and object storage
    "disk_rate": 7 * GB * 0.5,
    "link_rate": accelerator("h100-sxm").link("pcie").bytes_per_second.value * 0.5,
    "image_bytes": 10 * GB,
    "image_rate": 0.5 * GB,
    "imports_s": 15,
    "ranks_s": 60,
    "trace_s": 15,
    "compile_s": 70,
    "layout_s": 5,
    "capture_s": 60,
    "warmup_s": 5,
    "probe_period_s": 10,
}
KEPT = {"compile_kept_s": 3.03, "captures_kept": 0.2, "ranks_kept_s": 5}
RANKS = 8
PROMISED = 95  # percent of the starts
CONFIDENCE = 95  # percent
KEPT_SEEN_S = 25  # printed: the chapter's 70B model that was traced anew with its code kept


def _lasts(start: startup.StartUp, levers: Iterable[startup.Lever] = ()) -> float:
    return startup.schedule(startup.phases(startup.apply(start, tuple(levers)))).total_s


def _listed(levers: Iterable[startup.Lever]) -> str:
    return ", ".join(lever.name for lever in levers)


def _scale_up(n: Numbers) -> list[str | Working]:
    start = startup.StartUp(checkpoint_bytes=weights(n.model), ranks=RANKS, object_rate=n.network * GB, **CHAPTER)
    levers = [x for x in startup.usual_levers(start, **KEPT) if x.name != "storage twice as fast"]
    fresh = startup.shortest_set(start, [x for x in levers if not x.name.startswith(("image kept", "weights kept"))])
    used = startup.shortest_set(start, levers)
    anywhere, at_best = _lasts(start, fresh), _lasts(start, used)
    floor = weights(n.model) / start.object_rate
    levers_used = fresh if anywhere <= n.goal else used
    kept = at_best <= n.goal  # the goal, if only on some nodes
    lasts = n.goal if kept else float(f"{at_best:.3g}")
    queue = startup.backlog(arrival_rate=n.peak, served_rate=1, start_seconds=lasts)
    more = n.peak  # one fewer serve what arrives, and no more
    share = f"{PROMISED}% of measured starts"
    if anywhere <= n.goal:
        promise, spare = f"promise {n.goal} s from any node, for {share}", n.goal - anywhere
    elif kept:
        promise = f"promise {n.goal} s only from nodes that have run the model, for {share}, and choose those first"
        spare = n.goal - at_best
    else:
        promise, spare = f"don't promise {n.goal} s; pay for {n.peak} replicas that wait for the peak", at_best - n.goal
    return [
        f"{geometry(n.model).name}: {format_bytes(weights(n.model))}, which is {format_seconds(floor)} at {n.network} "
        f"GB/s, where {n.goal} s are allowed.",
        f"With the chapter's other assumptions on {RANKS} ranks a start in a row takes {_three(_lasts(start))}: in it "
        f"the download lands on a disk that reads and writes {start.disk_rate / GB:g} GB/s. A new node can do it in "
        f"{_three(anywhere)}: {_listed(fresh)}. One that has run the model can do it in {_three(at_best)}: "
        f"{_listed(used)}.",
        f"Say one replica serves the base of 1 request a second. At {n.peak}× that load, while replicas start in "
        f"{_three(lasts)}, the queue grows to:",
        working(startup.backlog, arrival_rate=n.peak, served_rate=1, start_seconds=lasts),
        f"{counted(more - 1, 'replica')} more would then serve what arrives, {n.peak} a second, and the queue would "
        f"stay. {more} more, {more + 1} in all, work it off in:",
        working(startup.drain_seconds, backlog=queue, served_rate=1 + more, arrival_rate=n.peak),
        f"Decision: {f'with those levers, start {more} more at once, and ' if kept else ''}{promise}. "
        + (
            f"The queue of {format_count(queue)} is the price of having no idle GPU."
            if kept
            else f"Started when the peak comes, even on nodes that have run the model, they leave that queue of "
            f"{format_count(queue)}."
        ),
        _measured(anywhere if anywhere <= n.goal else at_best, n.goal, kept=kept),
        "What overturns it: phases of a measured start on the longest path that take "
        f"{_three(spare)} {'more' if kept else 'less'} than these"
        + (f", or {more} starts at once that slow each other down" if kept else "")
        + "."
        + (_kept_code(startup.apply(start, levers_used), n.goal) if kept else ""),
    ]


def _measured(modelled: float, goal: float, *, kept: bool) -> str:
    """What a modelled start is worth, and how many measured ones it takes instead."""
    told = f"The {_three(modelled)} are a model on assumed rates, with no percentile. "
    starts = format_count(requests_to_prove(PROMISED, 0, confidence=CONFIDENCE / 100))
    if not kept:
        return told + "Measure starts before you buy replicas that wait."
    return told + (
        f"That {PROMISED}% are ready within {goal} s takes {starts} measured starts of which none is late, to be shown "
        f"with {CONFIDENCE}% confidence."
    )


def _kept_code(start: startup.StartUp, goal: float) -> str:
    """How long tracing and compilation may take with the code kept, beside what the chapter has seen."""
    whole = startup.schedule(startup.phases(start))
    if start.compile_s != KEPT["compile_kept_s"]:
        return ""
    slack, most = whole["compile"].slack_s, startup.allowance(startup.phases(start), "compile", goal)
    anew = CHAPTER["trace_s"] + CHAPTER["compile_s"]
    if most >= anew:
        return f" Even code compiled anew, in {anew} s, would be in time."
    off_path = f", {_three(slack)} of it hidden behind the weights' path" if slack > 0.05 else ""
    told = f" Kept code may take {_three(most - start.compile_s)} more than {start.compile_s:g} s{off_path}. "
    return told + (
        f"Step 7 has a 70B model that took {KEPT_SEEN_S} s: so long a time "
        f"{'breaks the promise' if most < KEPT_SEEN_S else 'would still be in time'}."
    )


def _three(seconds: float) -> str:
    return format_seconds(seconds, 3)


def _checklist(n: Numbers) -> list[str]:
    floor = weights(n.model) / (n.network * GB)
    return [
        f"Sizes the weights first: {format_bytes(weights(n.model))}, so {format_seconds(floor)} from object storage at "
        f"{n.network} GB/s, before anything is lost on the way.",
        "Draws the start as phases that wait for one another, and says which of them only follow by habit.",
        "Measures every phase of a real start, imports and process start included, not the engine's log alone.",
        f"Compares the floor with the {n.goal} s allowed, and says what all other phases may take together.",
        "Finds the critical path before choosing a lever, and ranks levers by what they take off it.",
        "Keeps what is costly to make again: the image, the compiled code, the weights on the disk or in host memory.",
        "Says what each costs: disks and memory that wait, caches that must match driver, GPU and version.",
        "Lets ranks share the reading, and checks that the loader really does.",
        "Counts the requests that queue during a start and says who waits: hold, refuse, or keep spare capacity.",
        "Starts more replicas than the load alone needs, or the queue never drains, and says how long that takes.",
        "Promises a percentile of measured starts, and says how many starts show it.",
        "Sets probes from measured starts, so that a slow start is not killed, and warms up before traffic comes.",
        "Watches time to ready by phase, cache hits of the compiled code, the share of printed rates that arrives.",
    ]


scale_up = Problem(
    id="cold_start/scale-up",
    title="Scaling up in time",
    level="design",
    step=LEVERS,
    printed={"model": "qwen2.5-72b", "network": 5, "goal": 90, "peak": 4},
    choices={
        "model": ("qwen2.5-72b", "llama-3.1-8b", "llama-3.1-405b"),
        "network": (1, 5, 12),
        "goal": (30, 90, 180),
        "peak": (2, 4, 10),
    },
    ask=lambda n: (
        f"{described(n.model)}. Traffic is {n.peak} times as high in some minutes as in others, and nobody pays for "
        f"idle GPUs. A new replica must answer {n.goal} s after it was asked for. Object storage gives a node "
        f"{n.network} GB/s. How do you start replicas, what do you keep warm, and what do you promise?"
    ),
    checklist=_checklist,
    hint="Bytes over the rate first. Then ask what else happens in a start, and what of it can be kept.",
    solution=_scale_up,
)
