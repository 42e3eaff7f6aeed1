"""Problems about requests that queue while a replica starts, and a design."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import startup
from calc.practice._problem import Problem
from calc.practice.cold_start._model import GB, LEVERS, QUEUE, described, geometry, weights
from calc.units import format_bytes, format_percent, format_seconds, significant
from calc.working import working

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
    solution=lambda n: [
        f"{geometry(n.model).name}: {format_bytes(weights(n.model))}, which is "
        f"{format_seconds(weights(n.model) / (n.network * GB))} at {n.network} GB/s: "
        f"{format_percent(weights(n.model) / (n.network * GB) / n.goal, 2)} of the {n.goal} s.",
        "So object storage alone makes the promise impossible: keep the weights nearer, or promise less."
        if weights(n.model) / (n.network * GB) > n.goal
        else "So object storage alone does not rule the promise out; the other phases have what is left.",
        "To bring the weights beside the set-up, fetch them before the engine asks: then they count only if they take "
        "longer than set-up, compilation and graphs together.",
        "What is made anew and need not be: the image on the node, compiled code on a shared disk, the weights on the "
        "local disk or in host memory.",
        f"Say one replica serves the base of 1 request a second. At {n.peak}× that load a start of {n.goal} s leaves "
        f"about {significant(startup.backlog(arrival_rate=n.peak, served_rate=1, start_seconds=n.goal), 3)} requests "
        "waiting when the replica is ready: keep spare capacity for the difference, or say that these wait.",
    ],
)
