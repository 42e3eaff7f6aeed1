"""Problems about memory: blocks held, the empty rest of the last one, reservations, and blocks that are shared."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import kv_cache, paging
from calc.practice._problem import Problem
from calc.practice.paged_attention._model import GIB, MODELS, SHARING, WASTE, described, token
from calc.units import counted, format_bytes, format_count
from calc.working import Working, working


def _blocks(positions: int, block_tokens: int) -> int:
    return kv_cache.blocks(positions=positions, block_tokens=block_tokens)


blocks_held = Problem(
    id="paged_attention/blocks-held",
    title="Blocks of a chat",
    level=1,
    step=WASTE,
    printed={"prompt": 1000, "generated": 210, "block_tokens": 16},
    choices={
        "prompt": (300, 1000, 1500, 2040, 5000),
        "generated": (30, 77, 210, 500, 1001),
        "block_tokens": (8, 16, 32, 64, 128),
    },
    ask=lambda n: (
        f"A prompt of {n.prompt:,} tokens has been prefilled and {n.generated:,} tokens have been sampled; the newest "
        f"is not in the cache yet. Blocks have {n.block_tokens} positions. How many blocks does the sequence hold?"
    ),
    unit="blocks",
    exact=True,
    answer=lambda n: _blocks(n.prompt + n.generated - 1, n.block_tokens),
    mistakes={
        "rounds down": lambda n: (n.prompt + n.generated - 1) // n.block_tokens,
        "counts the prompt alone": lambda n: _blocks(n.prompt, n.block_tokens),
        "starts a new block for the response": lambda n: (
            _blocks(n.prompt, n.block_tokens) + _blocks(n.generated - 1, n.block_tokens)
        ),
        "counts the newest token too": lambda n: _blocks(n.prompt + n.generated, n.block_tokens),
        "counts positions": lambda n: n.prompt + n.generated - 1,
    },
    hint="Positions written, divided by the block size and rounded up once.",
    solution=lambda n: [
        working(kv_cache.positions_written, prompt=n.prompt, generated=n.generated),
        working(kv_cache.blocks, positions=n.prompt + n.generated - 1, block_tokens=n.block_tokens),
        f"It holds {counted(_blocks(n.prompt + n.generated - 1, n.block_tokens), 'block')}.",
    ],
)

LENGTHS = (100, 333, 700, 1000, 1210, 1500, 3001)


def _empty(n: Numbers, element: str | None = None) -> float:
    unused = paging.unused_positions(positions=n.positions, block_tokens=n.block_tokens)
    return unused * token(n.model, n.ranks, element or n.element)


last_block = Problem(
    id="paged_attention/last-block",
    title="The last block",
    level=2,
    step=WASTE,
    printed={"model": "llama-3.1-70b", "ranks": 8, "element": "bf16", "positions": 1210, "block_tokens": 16},
    choices={
        "model": MODELS,
        "ranks": (1, 2, 4, 8),
        "element": ("bf16", "fp8"),
        "positions": LENGTHS,
        "block_tokens": (16, 32, 64, 128),
    },
    possible=lambda n: n.positions % n.block_tokens != 0,
    ask=lambda n: (
        f"{described(n)}. A sequence has written {n.positions:,} positions into blocks of {n.block_tokens}. How much "
        "memory does it hold on one rank, in all layers, that is not written?"
    ),
    answer=_empty,
    mistakes={
        "takes the written part of the last block": lambda n: (
            n.positions % n.block_tokens * token(n.model, n.ranks, n.element)
        ),
        "takes the whole last block": lambda n: n.block_tokens * token(n.model, n.ranks, n.element),
        "keeps two bytes per element": lambda n: _empty(n, "bf16"),
        "keeps the key and forgets the value": lambda n: _empty(n) / 2,
        "counts all ranks": lambda n: n.ranks * _empty(n),
        "loses a part of every block": lambda n: _empty(n) * _blocks(n.positions, n.block_tokens),
    },
    hint="Only one block of the sequence can be partly empty.",
    solution=lambda n: [
        working(paging.unused_positions, positions=n.positions, block_tokens=n.block_tokens),
        f"One position on a rank: {format_bytes(token(n.model, n.ranks, n.element))}.",
        f"{paging.unused_positions(positions=n.positions, block_tokens=n.block_tokens)} · "
        f"{format_bytes(token(n.model, n.ranks, n.element))} = {format_bytes(_empty(n))}.",
    ],
)


def _recovered(n: Numbers, held: int | None = None) -> float:
    kept = _blocks(n.positions, n.block_tokens) * n.block_tokens if held is None else held
    return (n.reserved - kept) * token(n.model, n.ranks, "bf16")


recovered = Problem(
    id="paged_attention/recovered",
    title="Memory that comes back",
    level=2,
    step=WASTE,
    printed={"model": "llama-3.1-8b", "ranks": 1, "reserved": 4096, "positions": 1210, "block_tokens": 256},
    choices={
        "model": MODELS,
        "ranks": (1, 2, 4, 8),
        "reserved": (4096, 6144, 8192),
        "positions": (333, 700, 1210, 1500, 3001),
        "block_tokens": (256, 512, 1056),
    },
    ask=lambda n: (
        f"{described(_in_bf16(n))}. An engine reserves {n.reserved:,} positions for each sequence. One of them has "
        f"written {n.positions:,}. How much memory comes back on one rank if it holds blocks of "
        f"{n.block_tokens:,} instead?"
    ),
    answer=_recovered,
    mistakes={
        "takes what blocks hold": lambda n: n.reserved * token(n.model, n.ranks, "bf16") - _recovered(n),
        "forgets that the last block is whole": lambda n: _recovered(n, n.positions),
        "rounds the blocks down": lambda n: _recovered(n, n.positions // n.block_tokens * n.block_tokens),
        "keeps the key and forgets the value": lambda n: _recovered(n) / 2,
        "counts all ranks": lambda n: n.ranks * _recovered(n),
        "takes the whole reservation": lambda n: n.reserved * token(n.model, n.ranks, "bf16"),
    },
    hint="Positions reserved, less the positions of whole blocks; then bytes.",
    solution=lambda n: [
        working(kv_cache.blocks, positions=n.positions, block_tokens=n.block_tokens),
        f"{n.reserved:,} − {_blocks(n.positions, n.block_tokens)} · {n.block_tokens:,} = "
        f"{format_count(_recovered(n) / token(n.model, n.ranks, 'bf16'))} positions of "
        f"{format_bytes(token(n.model, n.ranks, 'bf16'))}:",
        working(
            kv_cache.sequence_bytes,
            names={"bytes_per_position": "rank_bytes"},
            bytes_per_position=token(n.model, n.ranks, "bf16"),
            positions=int(_recovered(n) / token(n.model, n.ranks, "bf16")),
        ),
    ],
)


def _in_bf16(n: Numbers) -> Numbers:
    """The same numbers with a cache in bf16."""
    return Numbers(**vars(n) | {"element": "bf16"})


def _fit(n: Numbers, positions: int) -> int:
    return kv_cache.sequences_that_fit(
        memory_bytes=n.gib * GIB, sequence_bytes=positions * token(n.model, n.ranks, "bf16")
    )


def _paged(n: Numbers) -> int:
    return _fit(n, _blocks(n.positions, n.block_tokens) * n.block_tokens)


more_sequences = Problem(
    id="paged_attention/more-sequences",
    title="More sequences",
    level=2,
    step=WASTE,
    printed={
        "model": "llama-3.1-8b",
        "ranks": 1,
        "gib": 20,
        "reserved": 4096,
        "positions": 1500,
        "block_tokens": 128,
    },
    choices={
        "model": MODELS,
        "ranks": (1, 2, 4, 8),
        "gib": (10, 20, 40),
        "reserved": (4096, 8192, 16_384),
        "positions": (700, 1210, 1500, 3001),
        "block_tokens": (64, 128, 256),
    },
    possible=lambda n: _fit(n, n.reserved) >= 2,
    ask=lambda n: (
        f"{described(_in_bf16(n))}. A rank has {n.gib} GiB for the cache. Every sequence has written "
        f"{n.positions:,} positions. How many more sequences does the pool hold in blocks of {n.block_tokens} than in "
        f"reservations of {n.reserved:,} positions?"
    ),
    unit="sequences",
    exact=True,
    answer=lambda n: _paged(n) - _fit(n, n.reserved),
    mistakes={
        "counts all that blocks hold": _paged,
        "forgets that the last block is whole": lambda n: _fit(n, n.positions) - _fit(n, n.reserved),
        "reads GiB as GB": lambda n: _scaled(n, 1e9 / GIB),
        "keeps the key and forgets the value": lambda n: _scaled(n, 2),
        "counts all ranks": lambda n: n.ranks * (_paged(n) - _fit(n, n.reserved)),
    },
    hint="Count both, each in whole sequences, then subtract.",
    solution=lambda n: [
        "In reservations:",
        _fit_working(n, n.reserved),
        "In blocks:",
        working(kv_cache.blocks, positions=n.positions, block_tokens=n.block_tokens),
        _fit_working(n, _blocks(n.positions, n.block_tokens) * n.block_tokens),
        f"{format_count(_paged(n))} − {format_count(_fit(n, n.reserved))} = "
        f"{format_count(_paged(n) - _fit(n, n.reserved))} more sequences.",
    ],
)


def _scaled(n: Numbers, factor: float) -> int:
    """The answer with so many times the memory."""
    more = Numbers(**vars(n) | {"gib": n.gib * factor})
    return _paged(more) - _fit(more, n.reserved)


def _fit_working(n: Numbers, positions: int) -> Working:
    return working(
        kv_cache.sequences_that_fit,
        memory_bytes=n.gib * GIB,
        sequence_bytes=positions * token(n.model, n.ranks, "bf16"),
    )


def _alone(n: Numbers) -> int:
    return n.samples * _blocks(n.prompt + n.each, n.block_tokens)


def _saving(n: Numbers) -> int:
    return paging.fork_saving(prompt=n.prompt, sequences=n.samples, block_tokens=n.block_tokens)


forked = Problem(
    id="paged_attention/forked",
    title="Several answers to one prompt",
    level=3,
    step=SHARING,
    printed={"prompt": 700, "samples": 3, "each": 100, "block_tokens": 16},
    choices={
        "prompt": (50, 333, 700, 1000, 2100),
        "samples": (2, 3, 4, 8),
        "each": (20, 100, 300, 777),
        "block_tokens": (16, 32, 64),
    },
    possible=lambda n: n.prompt % n.block_tokens != 0,
    ask=lambda n: (
        f"{n.samples} answers are sampled from one prompt of {n.prompt:,} tokens. They share its blocks of "
        f"{n.block_tokens} positions and copy a block before they write into one that another holds. Each has written "
        f"{n.each} positions behind the prompt. How many physical blocks do they hold together?"
    ),
    unit="blocks",
    exact=True,
    answer=lambda n: _alone(n) - _saving(n),
    mistakes={
        "shares nothing": _alone,
        "shares the partial block too": lambda n: _alone(n) - (n.samples - 1) * _blocks(n.prompt, n.block_tokens),
        "counts the shared blocks for every answer but one": lambda n: _alone(n) - n.prompt // n.block_tokens,
        "counts the prompt once and starts new blocks behind it": lambda n: (
            _blocks(n.prompt, n.block_tokens) + n.samples * _blocks(n.each, n.block_tokens)
        ),
        "counts one answer": lambda n: _blocks(n.prompt + n.each, n.block_tokens),
        "takes the blocks saved": _saving,
    },
    hint="Each holds as many entries as alone. The full blocks of the prompt are the same physical ones.",
    solution=lambda n: [
        "Entries of one table:",
        working(kv_cache.blocks, positions=n.prompt + n.each, block_tokens=n.block_tokens),
        working(paging.fork_saving, prompt=n.prompt, sequences=n.samples, block_tokens=n.block_tokens),
        f"{n.samples} · {_blocks(n.prompt + n.each, n.block_tokens)} − {_saving(n)} = {_alone(n) - _saving(n)} blocks.",
    ],
)
