"""Problems about the parts of a first token: what they add up to, how they combine, what they leave."""

from __future__ import annotations

from math import floor
from types import SimpleNamespace as Numbers

from calc import queueing as q
from calc.practice._problem import Problem
from calc.practice.first_token_budget._model import HOPS, PERCENTILES, PREFILL, WAIT
from calc.units import format_percent, format_seconds, significant
from calc.working import working


def _attributed(n: Numbers) -> float:
    return q.first_token_seconds(
        reach_s=n.reach / 1000,
        gateway_s=n.gateway / 1000,
        server_s=0,
        queued_s=n.queue / 1000,
        computed_s=n.prefill / 1000,
        delivered_s=n.deliver / 1000,
    )


unattributed = Problem(
    id="first_token_budget/unattributed",
    title="What no clock saw",
    level=1,
    step=HOPS,
    printed={"ttft": 412, "reach": 18, "gateway": 6, "queue": 95, "prefill": 214, "deliver": 21},
    choices={
        "ttft": (380, 405, 420, 460),
        "reach": (9, 14, 18),
        "gateway": (4, 7),
        "queue": (40, 88, 120),
        "prefill": (150, 190, 214),
        "deliver": (12, 21),
    },
    ask=lambda n: (
        f"A client sees the first token {n.ttft} ms after it sent the request. The request takes {n.reach} ms to the "
        f"gateway and {n.gateway} ms in it. The engine reports {n.queue} ms in its queue and {n.prefill} ms from there "
        f"to the first token. From the server's first byte to the client it takes {n.deliver} ms. How much time has no "
        "clock of its own?"
    ),
    unit="s",
    answer=lambda n: q.remaining_seconds(limit_s=n.ttft / 1000, spent_s=_attributed(n)),
    mistakes={
        "leaves out the way back": lambda n: n.ttft / 1000 - _attributed(n) + n.deliver / 1000,
        "leaves out everything before the engine": lambda n: n.ttft / 1000
        - _attributed(n)
        + (n.reach + n.gateway) / 1000,
        "takes the queue to be part of prefill": lambda n: n.ttft / 1000 - _attributed(n) + n.queue / 1000,
        "gives what the clocks account for": _attributed,
    },
    hint="The parts of one request add up to what its client saw. Subtract the five that are known.",
    solution=lambda n: [
        f"The clocks account for {format_seconds(_attributed(n))}.",
        working(q.remaining_seconds, names={"limit_s": "first_token_seconds"}, limit_s=n.ttft / 1000,
                spent_s=_attributed(n)),
    ],
)  # fmt: skip


slow_part = Problem(
    id="first_token_budget/slow-part",
    title="One of many is slow",
    level=2,
    step=PERCENTILES,
    printed={"parts": 7, "percent": 2},
    choices={"parts": (3, 5, 6, 8, 12, 20, 30), "percent": (1, 2, 5)},
    ask=lambda n: (
        f"A first token passes {n.parts} hops one after the other. Each is slow for {n.percent}% of the requests, "
        "independently of the others. What share of the requests meets at least one slow hop?"
    ),
    unit="x",
    answer=lambda n: q.fan_out_slow(slow_share=n.percent / 100, parts=n.parts),
    mistakes={
        "adds up the shares": lambda n: n.parts * n.percent / 100,
        "keeps the share of one hop": lambda n: n.percent / 100,
        "gives the share that meets none": lambda n: 1 - q.fan_out_slow(slow_share=n.percent / 100, parts=n.parts),
    },
    hint="A request is fast only if every hop is.",
    solution=lambda n: [
        working(q.fan_out_slow, slow_share=n.percent / 100, parts=n.parts),
        f"So {significant(q.fan_out_slow(slow_share=n.percent / 100, parts=n.parts))} of the requests, though each hop "
        f"is slow for {n.percent}%.",
    ],
)


def _fits(n: Numbers, **changed: float) -> float:
    given = {"limit_s": n.limit / 1000, "fixed_s": n.fixed / 1000, "prefill_rate": n.rate, "hit_share": n.hit / 100}
    return q.prompt_that_fits(**given | changed)


fits = Problem(
    id="first_token_budget/fits",
    title="The longest prompt",
    level=2,
    step=PREFILL,
    printed={"limit": 800, "fixed": 120, "rate": 9000, "hit": 40},
    choices={
        "limit": (400, 600, 800, 1500),
        "fixed": (40, 90, 120),
        "rate": (6000, 9000, 14_000, 25_000),
        "hit": (20, 40, 60, 75),
    },
    ask=lambda n: (
        f"The first token must come within {n.limit:,} ms. {n.fixed} ms are spent outside of prefill, which computes "
        f"{n.rate:,} tokens a second. {n.hit}% of each prompt are found in the prefix cache. How long may a prompt be "
        "when nobody waits?"
    ),
    possible=lambda n: float(f"{_fits(n):.4g}") <= _fits(n) + 1e-6,  # written in four digits it keeps the limit
    unit="tokens",
    answer=_fits,
    mistakes={
        "spends the whole limit on prefill": lambda n: _fits(n, fixed_s=0),
        "leaves out the cached part": lambda n: _fits(n, hit_share=0),
        "computes the cached part and keeps the rest": lambda n: _fits(n, hit_share=1 - n.hit / 100),
        "shortens the prompt by the cached part": lambda n: _fits(n, hit_share=0) * (1 - n.hit / 100),
    },
    hint="First the time that is left, then the tokens that are computed in it, then the prompt they belong to.",
    solution=lambda n: [
        f"{n.limit - n.fixed:,} ms are left, enough for {significant(_fits(n, hit_share=0))} computed tokens.",
        working(q.prompt_that_fits, limit_s=n.limit / 1000, fixed_s=n.fixed / 1000, prefill_rate=n.rate,
                hit_share=n.hit / 100),
        _fits_in_words(n),
    ],
)  # fmt: skip


def _fits_in_words(n: Numbers) -> str:
    whole = floor(_fits(n) + 1e-6)
    rounded, closer = significant(_fits(n), 4), f"{whole:,}"
    return f"The prompt may have {rounded} tokens" + ("." if rounded == closer else f", or more closely {closer}.")


def _service(n: Numbers, warm: int) -> float:
    cold = n.cold / 1000
    return q.mixed_seconds(warm_share=warm / 100, cold_s=cold, warm_s=cold * (1 - n.hit / 100))


def _busy(n: Numbers, service: float, replicas: int | None = None) -> float:
    return q.utilization(arrival_rate=n.rate, service_s=service, servers=replicas or n.replicas)


warm = Problem(
    id="first_token_budget/warm",
    title="Cold and warm",
    level=2,
    step=WAIT,
    printed={"rate": 24, "replicas": 4, "cold": 130, "warm": 40, "hit": 80},
    choices={
        "rate": (12, 18, 24, 30),
        "replicas": (3, 4, 5),
        "cold": (90, 110, 130),
        "warm": (20, 40, 60),
        "hit": (50, 80, 90),
    },
    possible=lambda n: _busy(n, _service(n, n.warm)) < 0.95,
    ask=lambda n: (
        f"{n.rate} requests a second are dealt out to {n.replicas} replicas. The prefill of a cold prompt takes "
        f"{n.cold} ms. {n.warm}% of the requests are warm: {n.hit}% of their prompt is cached, and their prefill is "
        "shorter by as much. What share of the time is a replica busy with prefill?"
    ),
    unit="x",
    answer=lambda n: _busy(n, _service(n, n.warm)),
    mistakes={
        "takes every prompt to be cold": lambda n: _busy(n, _service(n, 0)),
        "takes every prompt to be warm": lambda n: _busy(n, _service(n, 100)),
        "swaps cold and warm": lambda n: _busy(n, _service(n, 100 - n.warm)),
        "lets one replica take them all": lambda n: _busy(n, _service(n, n.warm), 1),
        "takes warm prompts to cost nothing": lambda n: _busy(n, n.cold / 1000 * (1 - n.warm / 100)),
    },
    hint="Means mix by their shares. The mean prefill first, then the load.",
    solution=lambda n: [
        working(
            q.mixed_seconds, warm_share=n.warm / 100, cold_s=n.cold / 1000, warm_s=n.cold / 1000 * (1 - n.hit / 100)
        ),
        working(q.utilization, arrival_rate=n.rate, service_s=_service(n, n.warm), servers=n.replicas),
        f"Busy {significant(_busy(n, _service(n, n.warm)))} of the time.",
    ],
)


def _part(fast: int, slow: int, per_mille: int) -> q.Distribution:
    return q.weighted([(1 - per_mille / 1000, fast / 1000), (per_mille / 1000, slow / 1000)], step_s=0.001)


def _both(n: Numbers) -> tuple[q.Distribution, q.Distribution]:
    return _part(n.fast_a, n.slow_a, n.rare_a), _part(n.fast_b, n.slow_b, n.rare_b)


def _p99s(n: Numbers) -> float:
    return sum(part.percentile(99) for part in _both(n))


def _cases(n: Numbers) -> list[str]:
    kinds = [
        (a + b, pa * pb / 1e6)
        for a, pa in ((n.fast_a, 1000 - n.rare_a), (n.slow_a, n.rare_a))
        for b, pb in ((n.fast_b, 1000 - n.rare_b), (n.slow_b, n.rare_b))
    ]
    total, lines = 0.0, []
    for time, share in sorted(kinds):
        total += share
        lines.append(f"{time} ms for {format_percent(share, 4)}, together {format_percent(total, 6)}")
    return ["The four cases by length: " + "; ".join(lines) + "."]


two_parts = Problem(
    id="first_token_budget/two-parts",
    title="The p99 of two parts",
    level=3,
    step=PERCENTILES,
    printed={"fast_a": 30, "slow_a": 340, "rare_a": 8, "fast_b": 50, "slow_b": 210, "rare_b": 6},
    choices={
        "fast_a": (20, 30),
        "slow_a": (260, 340),
        "rare_a": (6, 8, 15),
        "fast_b": (40, 50),
        "slow_b": (150, 210),
        "rare_b": (3, 6, 9, 20),
    },
    possible=lambda n: abs(sum(_both(n), start=_part(0, 0, 0)).percentile(99) - _p99s(n)) > 0.02,
    ask=lambda n: (
        f"A queue takes {n.fast_a} ms, but {n.slow_a} ms for {n.rare_a} requests in 1,000. A network takes {n.fast_b} "
        f"ms, but {n.slow_b} ms for {n.rare_b} in 1,000, independently. What is the p99 of both together, as the "
        "smallest time that 99% of the requests don't exceed?"
    ),
    unit="s",
    answer=lambda n: (_both(n)[0] + _both(n)[1]).percentile(99),
    mistakes={
        "adds the p99s of the parts": _p99s,
        "adds the slowest times": lambda n: (n.slow_a + n.slow_b) / 1000,
        "adds the usual times": lambda n: (n.fast_a + n.fast_b) / 1000,
        "adds the means": lambda n: _both(n)[0].mean_s + _both(n)[1].mean_s,
    },
    hint="There are four cases. Put them in order of length and add up their shares until 99% are reached.",
    solution=lambda n: [
        *_cases(n),
        f"99% are reached at {format_seconds((_both(n)[0] + _both(n)[1]).percentile(99))}. The p99s of the parts add "
        f"up to {format_seconds(_p99s(n))}.",
    ],
)
