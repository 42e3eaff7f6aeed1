"""Problems about clocks: offset, slack, drift, and what needs no alignment."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import tail
from calc.practice._problem import Problem
from calc.practice.tail_latency._model import CLOCKS, MS, SEGMENTS, ms, so
from calc.units import format_seconds
from calc.working import working


def _stamps(n: Numbers) -> dict[str, float]:
    """Sent and returned on the own clock, received and replied on the other, seconds."""
    return {
        "sent_s": n.sent * MS,
        "received_s": (n.sent + n.out + n.ahead) * MS,
        "replied_s": (n.sent + n.out + n.ahead + n.work) * MS,
        "returned_s": (n.sent + n.out + n.work + n.back) * MS,
    }


def _told(n: Numbers) -> str:
    there, reply = n.sent + n.out + n.ahead, n.sent + n.out + n.ahead + n.work
    return (
        f"A client sends a request at {ms(n.sent)} and has the answer at {ms(n.sent + n.out + n.work + n.back)}, by "
        f"its clock. The gateway received it at {ms(there)} and replied at {ms(reply)}, by the gateway's."
    )


offset = Problem(
    id="tail_latency/offset",
    title="Two clocks",
    level=1,
    step=CLOCKS,
    printed={"sent": 2000, "out": 4, "ahead": 45, "work": 310, "back": 2},
    choices={
        "sent": (1200, 2000, 5000),
        "out": (3, 4, 6),
        "ahead": (25, 45, 80),
        "work": (190, 310, 520),
        "back": (1, 2),
    },
    ask=lambda n: f"{_told(n)} By NTP's formula, how far is the gateway's clock ahead?",
    unit="s",
    answer=lambda n: tail.clock_offset(**_stamps(n)),
    mistakes={
        "takes the way out for the offset": lambda n: (n.out + n.ahead) * MS,
        "takes the way back for the offset": lambda n: (n.ahead - n.back) * MS,
        "forgets to halve": lambda n: 2 * tail.clock_offset(**_stamps(n)),
    },
    hint="One difference of stamps has the way in it, the other has the way back with the opposite sign.",
    solution=lambda n: [
        working(tail.clock_offset, **_stamps(n)),
        so(tail.clock_offset(**_stamps(n))) + f" These stamps were made with {ms(n.ahead)}; the formula "
        "takes the way out and the way back for equal.",
    ],
)

slack = Problem(
    id="tail_latency/slack",
    title="How sure",
    level=1,
    step=CLOCKS,
    printed={"sent": 900, "out": 7, "ahead": 12, "work": 240, "back": 3},
    choices={
        "sent": (900, 1500, 4000),
        "out": (4, 7, 11),
        "ahead": (12, 30, 65),
        "work": (150, 240, 410),
        "back": (1, 3),
    },
    ask=lambda n: f"{_told(n)} How far can the offset that follows from these four stamps be off at most?",
    unit="s",
    answer=lambda n: tail.clock_slack(**_stamps(n)),
    mistakes={
        "forgets to halve": lambda n: (n.out + n.back) * MS,
        "gives the offset itself": lambda n: tail.clock_offset(**_stamps(n)),
        "takes half of the whole round trip": lambda n: (n.out + n.work + n.back) * MS / 2,
    },
    hint="What passed at the client, less what passed at the gateway, was spent on the way.",
    solution=lambda n: [working(tail.clock_slack, **_stamps(n)), so(tail.clock_slack(**_stamps(n)))],
)


def _dark(n: Numbers) -> float:
    return tail.unclocked_seconds(
        forwarded_s=n.forwarded * MS,
        first_byte_s=(n.forwarded + n.span) * MS,
        queued_s=n.queue * MS,
        computed_s=n.prefill * MS,
    )


dark = Problem(
    id="tail_latency/dark",
    title="Time that nobody shows",
    level=1,
    step=SEGMENTS,
    printed={"sent": 60, "forwarded": 1200, "span": 940, "queue": 40, "prefill": 180},
    choices={
        "sent": (40, 60, 90),
        "forwarded": (800, 1200, 2600),
        "span": (640, 940, 1450),
        "queue": (25, 40, 90),
        "prefill": (120, 180, 260),
    },
    ask=lambda n: (
        f"A client sent a request at {ms(n.forwarded - n.sent)}. Its gateway passed it on at {ms(n.forwarded)} and had "
        f"the first byte of the answer at {ms(n.forwarded + n.span)}. The engine reports {ms(n.queue)} in its queue "
        f"and {ms(n.prefill)} from being scheduled to the first token. How long was it between gateway and engine?"
    ),
    unit="s",
    answer=_dark,
    mistakes={
        "forgets the queue": lambda n: (n.span - n.prefill) * MS,
        "forgets the prefill": lambda n: (n.span - n.queue) * MS,
        "counts from the client": lambda n: (n.span + n.sent - n.queue - n.prefill) * MS,
        "gives the gateway's whole wait": lambda n: n.span * MS,
    },
    hint="Take away what the engine accounts for. Durations need no common clock.",
    solution=lambda n: [
        working(
            tail.unclocked_seconds,
            forwarded_s=n.forwarded * MS,
            first_byte_s=(n.forwarded + n.span) * MS,
            queued_s=n.queue * MS,
            computed_s=n.prefill * MS,
        ),
        so(_dark(n)),
    ],
)


def _apart(n: Numbers) -> float:
    return 2 * n.slack * MS / (n.ppm * 1e-6)


run_length = Problem(
    id="tail_latency/run-length",
    title="Long enough for a drift",
    level=2,
    step=CLOCKS,
    printed={"slack": 0.4, "ppm": 5},
    choices={"slack": (0.2, 0.3, 0.4, 0.8), "ppm": (1, 2, 5, 8)},
    ask=lambda n: (
        f"At both ends of a run an offset can be off by {ms(n.slack)} to either side. How far apart must the two ends "
        f"be for the drift to be known to {n.ppm} parts per million, to either side?"
    ),
    unit="s",
    answer=_apart,
    mistakes={
        "lets only one end be off": lambda n: n.slack * MS / (n.ppm * 1e-6),
        "takes four slacks": lambda n: 4 * n.slack * MS / (n.ppm * 1e-6),
    },
    hint="In the worst case one end is off to one side, the other to the other.",
    solution=lambda n: [
        "If one end is off by ε to one side and the other by ε to the other, the offset seems to change by 2 · ε over "
        "the time T between them: δ = 2 · ε / T.",
        f"So T = 2 · ε / δ = 2 · {ms(n.slack)} / ({n.ppm} / 1,000,000) = {format_seconds(_apart(n))}. Put in:",
        working(tail.drift_slack, slack_s=n.slack * MS, apart_s=_apart(n)),
    ],
)
