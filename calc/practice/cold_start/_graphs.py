"""Problems about phases that wait for one another: a log, when all is ready, slack, a goal, a lever."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import startup
from calc.practice._problem import Problem
from calc.practice.cold_start._model import LEVERS, MINUTE, PATH, PHASES
from calc.startup import Phase, Schedule
from calc.units import format_seconds, significant
from calc.working import working


def _init(n: Numbers) -> float:
    return n.trace + n.capture + n.other


def _unlogged(n: Numbers) -> float:
    return startup.seconds_left(total_seconds=n.total, taken_seconds=n.load + _init(n))


unlogged = Problem(
    id="cold_start/unlogged",
    title="What the log leaves out",
    level=1,
    step=PHASES,
    printed={"total": 75, "load": 2.4, "trace": 6.5, "capture": 21, "other": 8.5},
    choices={
        "total": (75, 96, 128),
        "load": (2.4, 5.8, 11.5),
        "trace": (6.5, 9.0),
        "capture": (12, 21),
        "other": (4.5, 8.5),
    },
    ask=lambda n: (
        f"The first answer comes {n.total} s after the pod was made. The log says: weights loaded in {n.load:g} s; "
        f"tracing took {n.trace:g} s; graphs captured in {n.capture} s; init engine (profile, create cache, warm-up) "
        f"took {_init(n):g} s. The engine's initialization comes after the weights and holds tracing and capture. How "
        "many seconds does the log not explain?"
    ),
    unit="s",
    answer=_unlogged,
    mistakes={
        "takes off what is inside the initialization once more": lambda n: (
            max(0, _unlogged(n) - n.trace - n.capture) or None
        ),
        "forgets the weights": lambda n: n.total - _init(n),
        "gives what the log explains": lambda n: n.load + _init(n),
    },
    hint="Which of the lines are inside another one?",
    solution=lambda n: [
        f"The weights and the initialization follow each other: {n.load:g} s + {_init(n):g} s.",
        working(startup.seconds_left, total_seconds=n.total, taken_seconds=n.load + _init(n)),
        "They went into process start, imports and the server.",
    ],
)


# --- one graph for three problems ----------------------------------------------------------------

GRAPH = {
    "image": (0, 15, 35),
    "imports": (12, 18),
    "ranks": (6, 25),
    "download": (30, 55, 90, 140),
    "read": (10, 24),
    "compile": (8, 40, 70),
    "capture": (12, 30),
}
AT_FIRST = {"image": 15, "imports": 18, "ranks": 6, "download": 55, "read": 24, "compile": 40, "capture": 12}
WARM_UP, COPY = 4, 2


def _phases(n: Numbers, **changed: float) -> list[Phase]:
    took = vars(n) | changed
    return [
        Phase("image", took["image"]),
        Phase("imports", took["imports"], ("image",)),
        Phase("ranks", took["ranks"], ("imports",)),
        Phase("download", took["download"]),
        Phase("read", took["read"], ("download",)),
        Phase("copy", COPY, ("read", "ranks")),
        Phase("compile", took["compile"], ("ranks",)),
        Phase("capture", took["capture"], ("compile",)),
        Phase("warm-up", WARM_UP, ("copy", "capture")),
    ]


def _start(n: Numbers, **changed: float) -> Schedule:
    return startup.schedule(_phases(n, **changed))


def _told(n: Numbers) -> str:
    image = f"pulls its image in {n.image} s, then imports in {n.imports} s" if n.image else f"imports in {n.imports} s"
    return (
        f"A replica {image} and sets up its ranks in {n.ranks} s. After that it compiles ({n.compile} s) and captures "
        f"graphs ({n.capture} s). From the beginning, and beside all this, the node downloads the weights "
        f"({n.download} s) and then reads them into host memory ({n.read} s). The copy to the GPUs ({COPY} s) needs "
        f"the weights in host memory and the ranks. The warm-up ({WARM_UP} s) needs the copy and the graphs"
    )


def _sums(n: Numbers) -> list[str]:
    setup = n.image + n.imports + n.ranks
    return [
        f"The engine's path: {n.image} + {n.imports} + {n.ranks} + {n.compile} + {n.capture} + {WARM_UP} = "
        f"{setup + n.compile + n.capture + WARM_UP} s.",
        f"The path of the weights: {n.download} + {n.read} + {COPY} + {WARM_UP} = "
        f"{n.download + n.read + COPY + WARM_UP} s.",
    ]


def _work(n: Numbers) -> float:
    return sum(phase.seconds for phase in _phases(n))


ready = Problem(
    id="cold_start/ready",
    title="When it is ready",
    level=2,
    step=PATH,
    printed=AT_FIRST,
    choices=GRAPH,
    ask=lambda n: f"{_told(n)}. After how many seconds is the warm-up over?",
    unit="s",
    answer=lambda n: _start(n).total_s,
    mistakes={
        "adds up phases that run side by side": _work,
        "leaves out the warm-up": lambda n: _start(n).total_s - WARM_UP,
        "takes the shorter path": lambda n: (
            min(n.image + n.imports + n.ranks + n.compile + n.capture, n.download + n.read + COPY) + WARM_UP
        ),
    },
    hint="Add up each path from the beginning to the warm-up. The longest decides.",
    solution=lambda n: [
        *_sums(n),
        f"The longest path goes through {', '.join(_start(n).path)}: {format_seconds(_start(n).total_s)}.",
    ],
)


slack = Problem(
    id="cold_start/slack",
    title="How much later",
    level=3,
    step=PATH,
    printed=AT_FIRST | {"compile": 70, "image": 35},
    choices=GRAPH,
    possible=lambda n: _start(n)["download"].slack_s > 0,
    ask=lambda n: f"{_told(n)}. How many seconds longer may the download take without delaying the end of the warm-up?",
    unit="s",
    answer=lambda n: _start(n)["download"].slack_s,
    mistakes={
        "gives how long it may take in all": lambda n: _start(n)["download"].slack_s + n.download,
        "compares it with the engine's path alone": lambda n: (
            max(0, n.image + n.imports + n.ranks + n.compile + n.capture - n.download) or None
        ),
        "forgets the copy": lambda n: _start(n)["download"].slack_s + COPY,
        "ends the set-up's path at the ranks": lambda n: (
            max(0, n.image + n.imports + n.ranks - n.download - n.read) or None
        ),
    },
    hint="Both paths meet at the warm-up. By how much is the path of the weights shorter?",
    solution=lambda n: [
        *_sums(n),
        f"The difference is the slack of the download: {format_seconds(_start(n)['download'].slack_s)}.",
    ],
)


def _gain(n: Numbers) -> float:
    return _start(n).total_s - _start(n, download=n.download / n.times).total_s


lever = Problem(
    id="cold_start/lever",
    title="A faster download",
    level=3,
    step=LEVERS,
    printed=AT_FIRST | {"download": 90, "times": 4},
    choices=GRAPH | {"times": (2, 3, 4, 10)},
    possible=lambda n: _gain(n) > 0,
    ask=lambda n: f"{_told(n)}. The download becomes {n.times} times as fast. How many seconds does the start gain?",
    unit="s",
    answer=_gain,
    mistakes={
        "gives what the download gains": lambda n: n.download - n.download / n.times,
        "takes the start to become as many times as fast": lambda n: _start(n).total_s * (1 - 1 / n.times),
        "gives the new start": lambda n: _start(n, download=n.download / n.times).total_s,
        "gives the new download": lambda n: n.download / n.times,
    },
    hint="Work out the whole start twice. Another path may have become the longest.",
    solution=lambda n: [
        *_sums(n),
        f"The download now takes {format_seconds(n.download / n.times)}, and the path of the weights "
        f"{format_seconds(n.download / n.times + n.read + COPY + WARM_UP)}.",
        f"The start goes from {format_seconds(_start(n).total_s)} to "
        f"{format_seconds(_start(n, download=n.download / n.times).total_s)}: it gains {format_seconds(_gain(n))}.",
    ],
)


# --- a goal --------------------------------------------------------------------------------------


def _rest(n: Numbers) -> float:
    return n.setup + n.compile + n.capture


def _times(n: Numbers) -> float:
    return n.weights / startup.seconds_left(total_seconds=n.goal, taken_seconds=_rest(n))


faster_storage = Problem(
    id="cold_start/faster-storage",
    title="How much faster storage",
    level=2,
    step=MINUTE,
    printed={"weights": 48, "setup": 14, "compile": 5, "capture": 16, "goal": 60},
    choices={
        "weights": (48, 72, 110),
        "setup": (14, 22),
        "compile": (5, 11),
        "capture": (8, 16),
        "goal": (45, 60, 90),
    },
    possible=lambda n: _rest(n) + 3 < n.goal < _rest(n) + n.weights - 3,
    ask=lambda n: (
        f"One after another, a start sets up for {n.setup} s, loads weights for {n.weights} s, compiles for "
        f"{n.compile} s and captures graphs for {n.capture} s. It should take {n.goal} s. How many times as fast must "
        "the loading become, if nothing else changes?"
    ),
    unit="x",
    answer=_times,
    mistakes={
        "divides the start by the goal": lambda n: (_rest(n) + n.weights) / n.goal,
        "divides the loading by the goal": lambda n: n.weights / n.goal,
        "turns the ratio around": lambda n: 1 / _times(n),
    },
    hint="What do the other phases leave of the goal?",
    solution=lambda n: [
        working(startup.seconds_left, total_seconds=n.goal, taken_seconds=_rest(n)),
        f"{n.weights} s must become {n.goal - _rest(n)} s: {significant(_times(n))}×.",
    ],
)
