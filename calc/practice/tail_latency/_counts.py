"""Problems about counting: what buckets prove, what chance does, and a plan."""

from __future__ import annotations

from math import comb
from types import SimpleNamespace as Numbers

from calc import latency, tail
from calc.practice._problem import Problem
from calc.practice.tail_latency._model import CHANCE, COHORT, EXPORTS
from calc.units import counted, significant

LIMIT = 1.0  # seconds to the first token

elsewhere = Problem(
    id="tail_latency/elsewhere",
    title="What three histograms prove",
    level=3,
    step=EXPORTS,
    printed={"late": 26, "queued": 4, "prefilled": 9, "bound": 0.3},
    choices={"late": (19, 26, 40), "queued": (2, 4, 7), "prefilled": (3, 5, 9), "bound": (0.2, 0.3, 0.4)},
    ask=lambda n: (
        f"All requests have finished. On a page of metrics {n.late} took more than {LIMIT:g} s to the first "
        f"token. {n.queued} were longer than {n.bound:g} s in the queue, {n.prefilled} longer than {n.bound:g} s in "
        "prefill. The page does not say which. How many of the slow ones certainly spent "
        f"more than {LIMIT - 2 * n.bound:.2g} s where neither looks?"
    ),
    unit="requests",
    exact=True,
    answer=lambda n: n.late - n.queued - n.prefilled,
    mistakes={
        "takes all of them": lambda n: n.late,
        "lets the same requests be long in both": lambda n: n.late - max(n.queued, n.prefilled),
        "looks at the queue alone": lambda n: n.late - n.queued,
        "looks at prefill alone": lambda n: n.late - n.prefilled,
    },
    hint="In the worst case every long wait and every long prefill belongs to another slow request.",
    solution=lambda n: [
        f"A request with at most {n.bound:g} s in each has at most {2 * n.bound:g} s in both, so one of more than "
        f"{LIMIT:g} s spent over {LIMIT - 2 * n.bound:.2g} s elsewhere.",
        f"At most {counted(n.queued + n.prefilled, 'slow request')} can have a longer part: "
        f"{n.late} − {n.queued} − {n.prefilled} = {n.late - n.queued - n.prefilled} remain.",
    ],
)


def _chance(n: Numbers) -> float:
    return tail.chance_overlap(slow=n.slow, marked=n.marked, both=n.slow, requests=n.requests)


chance = Problem(
    id="tail_latency/chance",
    title="All of them",
    level=3,
    step=CHANCE,
    printed={"slow": 3, "marked": 12, "requests": 60},
    choices={"slow": (2, 3, 4), "marked": (8, 12, 15), "requests": (40, 60, 90)},
    ask=lambda n: (
        f"Of {n.requests} requests {n.slow} are slow, and {'both' if n.slow == 2 else f'all {n.slow}'} came from one "
        f"tenant, who sent {n.marked}. If slowness had nothing to do with the tenant, how likely would that be?"
    ),
    unit="x",
    answer=_chance,
    mistakes={
        "lets one request be slow twice": lambda n: (n.marked / n.requests) ** n.slow,
        "gives the tenant's share": lambda n: n.marked / n.requests,
        "counts one way only": lambda n: 1 / comb(n.requests, n.slow),
    },
    hint="How many ways are there to choose the slow ones, and how many of them lie within the tenant's?",
    solution=lambda n: [
        f"Ways to choose: {comb(n.requests, n.slow):,}. Within the tenant's: {comb(n.marked, n.slow):,}.",
        f"The chance is {comb(n.marked, n.slow):,} / {comb(n.requests, n.slow):,} = {significant(_chance(n))}. "
        "Small, if the tenant was the only thing looked at.",
    ],
)

MINUTES = (10, 10, 20, 15, 5)  # of the hour: is it one, relief, traces, decision, handing over
SAFE = 85  # percent of what a replica can serve, up to which more traffic is sent to it, assumed


def _relief(n: Numbers) -> str:
    """What a replica taken out does to the others, all of its traffic or half of it."""
    shares = {part: n.busy * (1 + part / (n.replicas - 1)) for part in (1, 0.5)}
    part = 1 if shares[1] <= SAFE else 0.5
    what = "all of its traffic" if part == 1 else "half of its traffic"
    refused = "" if part == 1 else f" All of it would mean {significant(shares[1], 2)}%."
    return (
        f"If most of the slow ones come from one of the {n.replicas} replicas, move {what} to the others. They go from "
        f"{n.busy}% to {n.busy}% × (1 + {part:g} / {n.replicas - 1}) ≈ {significant(shares[part], 2)}% of what they "
        f"can serve, with {SAFE}% assumed to be safe.{refused} It goes on running, for the evidence. If each has about "
        f"{PARTS[n.replicas]} of them, no replica is to blame: leave traffic where it is, and hold back what can wait."
    )


PARTS = {4: "a quarter", 6: "a sixth", 8: "an eighth"}


def _timed(*steps: str) -> list[str]:
    ends = [sum(MINUTES[: i + 1]) for i in range(len(MINUTES))]
    return [f"{end - m}–{end} min. {step}" for m, end, step in zip(MINUTES, ends, steps, strict=True)]


plan = Problem(
    id="tail_latency/plan",
    title="It is three in the morning",
    level="design",
    step=COHORT,
    printed={"before": 1.8, "after": 6.5, "median": 420, "replicas": 4, "busy": 60},
    choices={
        "before": (1.2, 1.8, 2.4),
        "after": (4.5, 6.5, 9.0),
        "median": (280, 420, 650),
        "replicas": (4, 6, 8),
        "busy": (50, 60, 70),
    },
    ask=lambda n: (
        f"The p99 of the first token rose from {n.before} s to {n.after} s at ten in the evening; the median stayed at "
        f"{n.median} ms. Client logs, gateway logs, vLLM's traces and its metrics are there, from machines with clocks "
        f"of their own. {n.replicas} replicas share the traffic evenly, each at {n.busy}% of what it can serve. "
        "Somebody wants to roll back the model. Write the first hour of the investigation."
    ),
    hint="What would each hypothesis not allow? Look for that first.",
    solution=lambda n: [
        *_timed(
            f"Is there a tail? Below {latency.requests_for_percentile(99, 0.95)} independent requests a window nothing "
            "bounds a p99 from above, with 95% confidence. Compare with the same hour of last week, and group the slow "
            "ones by replica.",
            f"Relief before the cause. {_relief(n)}",
            f"Trace every request above {n.before} s: align the clocks with bounds, cut it into segments, subtract "
            f"fast ones of its length and minute. The cause is where most of what lies above {n.before} s is.",
            f"Decision: no rollback in this hour. The p99 is {significant(n.after / n.before, 2)} times what it was, "
            "and the median is what it was. A model that computes every request more slowly moves both. Undo or mend "
            "what the segment names, or add the stamp where no clock looks.",
            "Write down what was moved, what was found and which p99 you predict; undo the relief when it is there.",
        ),
        "What overturns it: in most of the slow requests their own prefill is longer, at the same length and alone in "
        "its step. Then roll back half of the traffic. If the p99 there stays above the "
        f"{n.before} s that you predict, it was not the model.",
    ],
    checklist=lambda n: [
        "Counts the requests behind the p99 and says what interval they allow.",
        "Relieves users before it knows the cause, at a load that the others can carry, and keeps the evidence.",
        "Gives each step its minutes, and the hour is enough for them.",
        "Takes single slow requests, not averages of them.",
        "Aligns clocks with bounds, and says which segments need it and which don't.",
        "Compares each slow request with fast ones of its length and time.",
        "Names the segment, and knows which time no segment shows.",
        "Writes for each hypothesis what would refute it, before looking.",
        "Checks that a mark of the slow ones is not a mark of everything at ten in the evening.",
        "Expects two causes, and shows that the first leaves something unexplained.",
        "Says what the data can't tell, and adds the stamp that would.",
        "Changes one thing, predicts the new p99, and keeps the rollback as an experiment, not as an answer.",
    ],
)
