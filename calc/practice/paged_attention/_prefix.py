"""Problems about prefixes: what a hit finds, what is computed again, and the open question."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import kv_cache, models, paging, roofline
from calc.hardware import accelerator
from calc.practice._problem import Problem
from calc.practice.paged_attention._model import GIB, LAW, MATCHING, attention, name, token
from calc.units import counted, format_bytes, format_count, format_percent, format_seconds
from calc.working import Working, working

LARGE = (448, 528, 784, 832, 1056, 1600, 2096)


def _hit(prompt: int, block_tokens: int, dropped: int = 0) -> int:
    return paging.hit_positions(prompt=prompt, block_tokens=block_tokens, dropped_blocks=dropped)


again = Problem(
    id="paged_attention/again",
    title="The same prompt again",
    level=1,
    step=LAW,
    printed={"prompt": 1024, "block_tokens": 16},
    choices={
        "prompt": (160, 512, 1000, 1024, 2048, 3000, 4096),
        "block_tokens": (16, 32, 64, 128),
    },
    possible=lambda n: n.prompt > n.block_tokens,
    ask=lambda n: (
        f"A prompt of {n.prompt:,} tokens comes a second time while all its blocks of {n.block_tokens} are still in "
        "the prefix cache. How many tokens are found there?"
    ),
    unit="tokens",
    exact=True,
    answer=lambda n: _hit(n.prompt, n.block_tokens),
    mistakes={
        "finds every token": lambda n: n.prompt,
        "finds the last token's block too": lambda n: n.prompt // n.block_tokens * n.block_tokens,
        "leaves out the last token alone": lambda n: n.prompt - 1,
        "gives up a whole block more": lambda n: _hit(n.prompt, n.block_tokens, 1),
        "counts blocks": lambda n: _hit(n.prompt, n.block_tokens) // n.block_tokens,
    },
    hint="The last token must be computed. How many full blocks lie before it?",
    solution=lambda n: [
        working(paging.hit_positions, prompt=n.prompt, block_tokens=n.block_tokens, dropped_blocks=0),
        f"Found are {counted(_hit(n.prompt, n.block_tokens), 'token')}.",
    ],
)

with_drafter = Problem(
    id="paged_attention/with-drafter",
    title="Large blocks and a drafter",
    level=2,
    step=LAW,
    printed={"prompt": 10_000, "block_tokens": 1056},
    choices={"prompt": (1024, 2048, 4096, 5000, 8192, 10_000, 16_384), "block_tokens": LARGE},
    possible=lambda n: _hit(n.prompt, n.block_tokens, 1) > 0,
    ask=lambda n: (
        f"A model with recurrent layers runs with attention blocks of {n.block_tokens:,} positions and a drafter that "
        f"reads its hidden states. A prompt of {n.prompt:,} tokens comes again; nothing was evicted, and the engine "
        "finds whole blocks only. How many tokens must be computed again?"
    ),
    unit="tokens",
    exact=True,
    answer=lambda n: n.prompt - _hit(n.prompt, n.block_tokens, 1),
    mistakes={
        "forgets the drafter's block": lambda n: n.prompt - _hit(n.prompt, n.block_tokens),
        "takes what is found": lambda n: _hit(n.prompt, n.block_tokens, 1),
        "takes blocks of 16": lambda n: n.prompt - _hit(n.prompt, 16, 1),
        "computes the last token alone": lambda n: 1,
        "gives up two blocks": lambda n: n.prompt - _hit(n.prompt, n.block_tokens, 2),
    },
    hint="Start from what the prompt would find without a drafter. Then think of what the drafter reads and the cache "
    "doesn't keep.",
    solution=lambda n: [
        working(paging.hit_positions, prompt=n.prompt, block_tokens=n.block_tokens, dropped_blocks=1),
        f"{n.prompt:,} − {_hit(n.prompt, n.block_tokens, 1):,} = "
        f"{n.prompt - _hit(n.prompt, n.block_tokens, 1):,} tokens.",
    ],
)


def _rest(n: Numbers, system: int | None = None, first: int = 1) -> int:
    """Tokens computed for all requests: the first computes everything."""
    found = n.system // n.block_tokens * n.block_tokens if system is None else system
    return n.requests * (n.system + n.question) - (n.requests - first) * found


system_prompt = Problem(
    id="paged_attention/system-prompt",
    title="One system prompt for all",
    level=3,
    step=MATCHING,
    printed={"system": 1000, "question": 150, "requests": 20, "block_tokens": 64},
    choices={
        "system": (500, 1000, 1500, 2000, 3000),
        "question": (40, 90, 150, 300),
        "requests": (10, 20, 50, 100),
        "block_tokens": (16, 32, 64, 128),
    },
    possible=lambda n: n.system % n.block_tokens != 0,
    ask=lambda n: (
        f"{n.requests} requests come one after another. Each has the same system prompt of {n.system:,} tokens, then "
        f"a question of {n.question} tokens that differs from its first token on. Blocks have {n.block_tokens} "
        "positions, the cache starts empty and nothing is evicted. How many tokens are computed for all of them?"
    ),
    unit="tokens",
    exact=True,
    answer=_rest,
    mistakes={
        "finds nothing": lambda n: n.requests * (n.system + n.question),
        "finds the whole system prompt, the partial block too": lambda n: _rest(n, system=n.system),
        "finds the prefix for the first request too": lambda n: _rest(n, first=0),
        "finds the whole prompt each time": lambda n: (
            n.requests * (n.system + n.question) - (n.requests - 1) * _hit(n.system + n.question, n.block_tokens)
        ),
        "counts the questions alone": lambda n: n.requests * n.question,
        "takes what is found": lambda n: (n.requests - 1) * (n.system // n.block_tokens * n.block_tokens),
    },
    hint="The block in which the prompts part has another key for every request.",
    solution=lambda n: [
        f"Full blocks of the system prompt: ⌊{n.system:,} / {n.block_tokens}⌋ = {n.system // n.block_tokens}, that is "
        f"{n.system // n.block_tokens * n.block_tokens:,} tokens.",
        f"The first request computes {n.system + n.question:,} tokens, each of the others "
        f"{n.system + n.question - n.system // n.block_tokens * n.block_tokens:,}.",
        f"{n.requests} · {n.system + n.question:,} − {n.requests - 1} · "
        f"{n.system // n.block_tokens * n.block_tokens:,} = {_rest(n):,} tokens.",
    ],
)


MODEL, RANKS, CHIP = "llama-3.1-70b", 8, "h100-sxm"


def _prefill_s(prompt: int, found: int) -> float:
    """Least time in which the ranks compute what the cache doesn't have of a prompt."""
    floor = roofline.prefill_floor(
        models.load(MODEL), accelerator(CHIP), prompt=prompt - found, cached=found, ranks=RANKS
    )
    return floor.seconds


def _saved(n: Numbers) -> tuple[float, float]:
    """What the floor of a prefill loses by a hit: in instructions and history, and in the instructions alone."""
    prompt, prefix = n.system + n.history, n.system // n.block_tokens * n.block_tokens
    found = (_hit(prompt, n.block_tokens), prefix)
    return tuple(_prefill_s(prompt, 0) - _prefill_s(prompt, hit) for hit in found)


def _plan(n: Numbers) -> list[str]:
    each = token(MODEL, RANKS, "bf16")
    prefix = n.system // n.block_tokens * n.block_tokens
    found = _hit(n.system + n.history, n.block_tokens)
    return [
        f"Puts what is common first: {format_count(n.system)} tokens of instructions, then the tenant's documents, "
        "then the history, then the question. A date or a user's name at the start makes every key differ.",
        f"Counts what a hit saves: {format_count(prefix)} of the first {format_count(n.system)} tokens in blocks of "
        f"{n.block_tokens}, with {format_count(n.system - prefix)} at the end of the prefix computed again.",
        f"Turns it into TTFT: with the history a hit takes {format_seconds(_saved(n)[0], 3)} off the floor of a "
        f"prefill, with the instructions alone {format_seconds(_saved(n)[1], 3)}.",
        f"Counts what it costs to keep: one copy of the instructions is {format_bytes(prefix * each)} on each rank; "
        f"the histories of {n.sessions} open sessions are {format_bytes(n.sessions * n.history * each)}.",
        f"Compares that with the pool of {n.gib} GiB: histories alone fill "
        f"{format_percent(n.sessions * n.history * each / (n.gib * GIB))} of it, beside what running requests "
        "need. Beyond the pool, the least recently used go first.",
        "Salts the keys by tenant, so that nobody learns another's prompts by timing; accepts that common instructions "
        "are then stored once for each tenant.",
        f"Asks for the real block size: in blocks of {n.block_tokens}, instructions and a history find "
        f"{format_count(found)} of {format_count(n.system + n.history)} tokens, and a prompt shorter than a block "
        "finds none.",
        "Asks what else the service may bring later: adapters and images go into the key, and a drafter that reads "
        "hidden states costs every hit a block.",
        "Routes a session to the replica that has its blocks, or shares a tier below GPU memory.",
        "Measures hit tokens over prompt tokens, evictions, and the TTFT of hits apart from that of misses.",
    ]


def _decision(n: Numbers) -> list[str]:
    """What is kept, and the number of sessions at which that ends."""
    each, pool = token(MODEL, RANKS, "bf16"), n.gib * GIB
    shared = n.tenants * (n.system // n.block_tokens) * n.block_tokens * each
    most = int((pool - shared) // (n.history * each))
    left = pool - shared - n.sessions * n.history * each
    salted = (
        f"Salted keys store the instructions {n.tenants} times: {format_bytes(shared)}, "
        f"{format_percent(shared / pool, 2)} of the pool. Pay it: tenants must not learn of each other."
    )
    if left >= 0:
        return [
            salted,
            f"{format_bytes(left)} are left for the turns that run: {format_count(left // each)} new positions. So "
            "keep all histories on the GPUs, least recently used out first. The number that overturns this is "
            f"{most} open sessions, fewer by what running turns write. Beyond it a history goes before its user writes "
            "again.",
        ]
    return [
        salted,
        f"Beside them the pool holds {counted(most, 'history')} at most, of "
        f"{n.sessions}, and less while turns run. If all write equally often, the least recently used history goes "
        "just before its user returns, and hardly any history hits. So put a tier in host memory below the pool, or "
        f"route the sessions to {-(-n.sessions // most)} replicas or more. What overturns this: measured, most "
        f"messages come from fewer than {most} of the sessions.",
    ]


def _saving(n: Numbers) -> str:
    """What a hit takes off the TTFT."""
    prompt = n.system + n.history
    found = _hit(prompt, n.block_tokens)
    both, instructions = _saved(n)
    return (
        f"By the roofline's floor the ranks compute all {prompt:,} tokens in "
        f"{format_seconds(_prefill_s(prompt, 0), 3)} or more, and the {prompt - found:,} that are not found in "
        f"{format_seconds(_prefill_s(prompt, found), 3)} or more. The difference, {format_seconds(both, 3)}, comes off "
        f"the floor of the TTFT. If only the instructions are found, it is {format_seconds(instructions, 3)}."
    )


def _plan_working(n: Numbers) -> list[str | Working]:
    found, layers = attention(MODEL)
    rank = kv_cache.rank_working(found, layers=layers, element="bf16", ranks=RANKS)
    return [
        "What instructions and a history find, by the law of Step 6:",
        working(paging.hit_positions, prompt=n.system + n.history, block_tokens=n.block_tokens, dropped_blocks=0),
        _saving(n),
        rank[0],
        "One position on a rank:",
        rank[1],
        "What the open sessions hold there:",
        working(
            kv_cache.sequence_bytes,
            names={"bytes_per_position": "rank_bytes"},
            bytes_per_position=rank[-1].value,
            positions=n.sessions * n.history,
        ),
        *_decision(n),
        "The order: instructions, then the tenant's documents if there are any, then the history, then the question. "
        "Whatever changes from request to request, such as a date, comes last. The measures: hit tokens over prompt "
        "tokens, evictions, and the TTFT of hits apart from that of misses.",
    ]


cache_plan = Problem(
    id="paged_attention/cache-plan",
    title="A prefix cache for an assistant",
    level="design",
    step=MATCHING,
    printed={"system": 3000, "history": 6000, "sessions": 150, "tenants": 5, "gib": 40, "block_tokens": 16},
    choices={
        "system": (1000, 3000, 8000),
        "history": (2000, 6000, 12_000),
        "sessions": (50, 150, 400),
        "tenants": (2, 5, 20),
        "gib": (20, 40),
        "block_tokens": (16, 64, 128),
    },
    ask=lambda n: (
        f"An assistant on {name(MODEL)} in bf16, which has {attention(MODEL)[1]} layers and "
        f"{attention(MODEL)[0].kv_heads} KV heads of {attention(MODEL)[0].key_dim} elements, serves {n.tenants} "
        f"tenants. Its {RANKS} tensor-parallel ranks are {accelerator(CHIP).name} with {n.gib} GiB each for a cache in "
        f"bf16, in blocks of {n.block_tokens} tokens. Every request starts "
        f"with {n.system:,} tokens of instructions. {n.sessions} "
        f"sessions are open, with {n.history:,} tokens of history each; a user writes every minute or so. TTFT is too "
        "high. Plan the prefix cache: the order of the prompt, the keys, what is kept, what you measure."
    ),
    checklist=_plan,
    hint="Who can share which blocks, and do they survive until the next message?",
    solution=_plan_working,
)
