"""Problems about requests: how many may come in, and what it costs when too many did."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import capacity, kv_cache, parameters, queueing, roofline
from calc.hardware import accelerator
from calc.parallel import Parallel
from calc.practice._problem import Problem
from calc.practice.capacity._model import BLOCK, LIMIT, ROOM, RULES, geometry, gib, rank_block_working, shape
from calc.units import format_bytes, format_count, format_percent, format_seconds
from calc.working import working


def _fit(n: Numbers, positions: int) -> int:
    return n.tokens // BLOCK // kv_cache.blocks(positions=positions, block_tokens=BLOCK)


def _end(n: Numbers) -> int:
    return kv_cache.positions_written(prompt=n.prompt, generated=n.output)


finish = Problem(
    id="capacity/finish",
    title="How many can finish",
    level=2,
    step=ROOM,
    printed={"tokens": 643_232, "longest": 40_960, "prompt": 2000, "output": 1000},
    choices={
        "tokens": (158_656, 643_232, 1_376_160),
        "longest": (32_768, 40_960, 131_072),
        "prompt": (700, 2000, 6000),
        "output": (300, 1000, 2500),
    },
    ask=lambda n: (
        f"A log says: KV cache size {n.tokens:,} tokens, maximum concurrency for {n.longest:,} tokens per request "
        f"{n.tokens / n.longest:.2f}x. Blocks hold {BLOCK} positions and no layer has a window. Your requests have "
        "prompts "
        f"of {n.prompt:,} tokens and responses of {n.output:,}. How many of them can be in and all be sure to finish?"
    ),
    unit="requests",
    exact=True,
    answer=lambda n: _fit(n, _end(n)),
    mistakes={
        "counts the prompts alone": lambda n: _fit(n, n.prompt),
        "takes the maximum concurrency for it": lambda n: n.tokens // n.longest,
        "divides positions, not whole blocks": lambda n: n.tokens // _end(n),
        "counts the responses alone": lambda n: _fit(n, n.output),
    },
    hint="Size a request at its end, in whole blocks. The printed concurrency is for requests of the longest length.",
    solution=lambda n: [
        working(kv_cache.positions_written, prompt=n.prompt, generated=n.output),
        working(kv_cache.blocks, positions=_end(n), block_tokens=BLOCK),
        f"{n.tokens:,} / {BLOCK} = {n.tokens // BLOCK:,} blocks.",
        f"{n.tokens // BLOCK:,} / {kv_cache.blocks(positions=_end(n), block_tokens=BLOCK):,} are "
        f"{_fit(n, _end(n)):,} whole requests.",
    ],
)

tax = Problem(
    id="capacity/preemption-tax",
    title="Computed twice",
    level=1,
    step=RULES,
    printed={"rate": 2400, "wasted": 23},
    choices={"rate": (1000, 2400, 8500), "wasted": (10, 23, 32.2, 57.9)},
    ask=lambda n: (
        f"A server computes {n.rate:,} tokens a second. Its cache is too small, and {n.wasted}% of them recompute what "
        "preemptions threw away. How many tokens a second are new?"
    ),
    unit="tokens",
    per=("s", "second"),
    answer=lambda n: capacity.useful_rate(rate=n.rate, wasted=n.wasted / 100),
    mistakes={
        "gives the part that is wasted": lambda n: n.rate * n.wasted / 100,
        "divides by one plus the waste": lambda n: n.rate / (1 + n.wasted / 100),
        "adds the waste": lambda n: n.rate * (1 + n.wasted / 100),
    },
    hint="The share is of what is computed, not of what is new.",
    solution=lambda n: (
        [working(capacity.useful_rate, rate=n.rate, wasted=n.wasted / 100)]
        + [f"That is {format_count(capacity.useful_rate(rate=n.rate, wasted=n.wasted / 100))} tokens a second."]
    ),
)

# --- an open question ----------------------------------------------------------------------------


CHIP, RANKS = "h100-sxm", 8
SHOWN_GIB, SHARE, BESIDE_GIB = 79.11, 0.92, 4  # of an H100, as the question states them


def _plan(n: Numbers) -> capacity.Plan:
    return capacity.plan(
        geometry(n.model),
        Parallel(tensor=RANKS),
        total_bytes=gib(SHOWN_GIB),
        fraction=SHARE,
        activation_bytes=gib(BESIDE_GIB),
    )


def _prompt_s(n: Numbers) -> float:
    """Least time in which the node computes a prompt: the arithmetic of a rank at its peak."""
    work = roofline.step_work(geometry(n.model), sequences=[(n.prompt, 0)], ranks=RANKS)
    return work.flop / accelerator(CHIP).peak("bf16").value


def _busy(n: Numbers) -> float:
    """Share of the time that prompts take of the node, at the least."""
    return queueing.utilization(arrival_rate=n.rate, service_s=_prompt_s(n), servers=1)


def _load(n: Numbers) -> list[str]:
    """What the arrivals need of places and of time."""
    requests = _plan(n).requests(length=_end(n))
    lines = [
        f"{n.rate} requests arrive a second. {format_count(requests)} places are enough as long as a request stays no "
        f"longer than {format_seconds(queueing.little_time(number=requests, arrival_rate=n.rate))} on average.",
        f"A prompt takes at least {format_seconds(_prompt_s(n))} of arithmetic on the eight GPUs at their peak; "
        f"{n.rate} a second keep the node busy for {format_percent(_busy(n), 2)} of the time.",
    ]
    if _busy(n) >= 1:
        return [
            *lines,
            "That is more than the node can compute: places are not the limit, and it takes more nodes.",
            f"Decision: admit {format_count(requests)}, and queue the next one before the engine, up to the wait that "
            "is promised; refuse it after that. What overturns it: fewer tokens to compute, such as prompts found in "
            "the cache.",
        ]
    work = roofline.step_work(geometry(n.model), sequences=[(1, n.prompt)], ranks=RANKS)
    step = roofline.read_seconds(weight_bytes=work.weight_bytes, bandwidth=accelerator(CHIP).bandwidth.value)
    decode = (n.output - 1) * step
    stay = (_prompt_s(n) + decode) / (1 - _busy(n))
    flying = queueing.little(arrival_rate=n.rate, time_s=stay)
    longest = queueing.little_time(number=requests, arrival_rate=n.rate)
    return [
        *lines,
        f"The prompt's step samples the first token. The other {n.output - 1:,} of a response take "
        f"{format_seconds(decode)} or more, {format_seconds(step)} a step to read the weights. Others' prompts leave "
        f"prompt and response {format_percent(1 - _busy(n), 2)} of the time. So a request that runs to its limit "
        f"stays at least {format_seconds(stay)}, and if all do, at least {format_count(int(flying))} are in at once on "
        f"average. Both are floors: reads of the cache and the {2 * len(geometry(n.model).layers)} all-reduces of a "
        "step come on top.",
        f"Decision: admit {format_count(requests)}, and queue the next one before the engine, up to the wait that is "
        "promised; refuse it after that. "
        + (
            f"What overturns it: requests that stay longer than {format_seconds(longest)} on average; then "
            f"{format_count(requests)} places are too few for {n.rate} a second. Measure how long one really stays."
            if flying < requests
            else "Memory is too small for the load even so: requests queue without end, and it takes more nodes. What "
            "overturns it: responses so far below their limit that requests stay no longer than "
            f"{format_seconds(longest)}."
        ),
    ]


def _checklist(n: Numbers) -> list[str]:
    budget, end = _plan(n), _end(n)
    rank = budget.limiting
    requests = budget.requests(length=end)
    return [
        f"Starts from what a program sees of the GPU, not from its name: {format_bytes(gib(SHOWN_GIB))}.",
        f"Takes off the weights of this rank, {format_bytes(rank.weight_bytes)}, and names what else must be measured: "
        "activations at the largest step, logits, graphs, communication buffers.",
        f"Gets to a pool, {format_bytes(rank.pool_bytes)}, and to blocks, {format_count(budget.blocks)}.",
        "Asks which rank has the fewest, and what would make one smaller: an uneven split, the output layer, a "
        "neighbor.",
        f"Sizes a request at its end, {format_count(end)} positions, and admits {format_count(requests)} of them.",
        "Says what happens past that number: queue before the engine, or preempt inside it, and who waits in each "
        "case.",
        "Doesn't read the printed maximum concurrency as a limit: it is for requests of the longest length.",
        f"Compares the load with it: {n.rate} a second and {format_count(requests)} places mean that a request may "
        f"stay {format_seconds(queueing.little_time(number=requests, arrival_rate=n.rate))} on average, by "
        "Little's law.",
        f"Counts the prompts' arithmetic: at least {format_seconds(_prompt_s(n))} for each, so {n.rate} a second take "
        f"{format_percent(_busy(n), 2)} of the node's peak or more.",
        "Checks latency apart: so many requests in one batch must still meet the time per token.",
        "Says what to watch: blocks in use, preemptions, tokens computed again, waiting requests.",
        "Compares cuts: two replicas of four GPUs hold a second copy of the weights but fail apart.",
    ]


node = Problem(
    id="capacity/node",
    title="A node for a service",
    level="design",
    step=LIMIT,
    printed={"model": "qwen2.5-72b", "prompt": 8000, "output": 300, "rate": 2},
    choices={
        "model": ("llama-3.1-70b", "qwen2.5-72b"),
        "prompt": (1000, 3000, 8000),
        "output": (300, 800, 2000),
        "rate": (2, 6, 15),
    },
    ask=lambda n: (
        f"You get one node of eight H100 80GB for {geometry(n.model).name} in bf16: "
        f"{format_count(parameters.count(geometry(n.model)).total)} parameters, {shape(n)}. About {n.rate} requests "
        f"arrive each second, with prompts of {n.prompt:,} tokens and responses of at most {n.output:,}. A program "
        f"sees {SHOWN_GIB:g} GiB of each GPU, of which the engine may use {SHARE:.0%}; a run found that it "
        f"needs {BESIDE_GIB} GiB on each beside weights and cache. Blocks hold {BLOCK} positions. How do you work out "
        "how many requests the node may hold at once, all eight GPUs in one tensor-parallel group, and what do you do "
        "with the next one?"
    ),
    checklist=_checklist,
    hint="Memory first, rank by rank. Then a rule that every admitted request survives. Then ask what the load needs.",
    solution=lambda n: [
        working(
            capacity.pool_bytes,
            total_bytes=gib(SHOWN_GIB),
            fraction=SHARE,
            weight_bytes=_plan(n).limiting.weight_bytes,
            activation_bytes=gib(BESIDE_GIB),
            graph_bytes=0,
            communication_bytes=0,
        ),
        *rank_block_working(n, RANKS, BLOCK),
        working(
            capacity.pool_blocks, pool_bytes=_plan(n).limiting.pool_bytes, block_bytes=_plan(n).limiting.block_bytes
        ),
        working(kv_cache.positions_written, prompt=n.prompt, generated=n.output),
        working(kv_cache.blocks, positions=_end(n), block_tokens=BLOCK),
        f"That admits {format_count(_plan(n).requests(length=_end(n)))} requests with room to finish.",
        *_load(n),
    ],
)
