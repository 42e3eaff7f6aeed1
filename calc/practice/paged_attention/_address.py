"""Problems about addresses: from a position to a slot, and to the bytes of its key and its value."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import paging
from calc.practice._problem import Problem
from calc.practice.paged_attention._model import BYTES, MODELS, SIZES, attention, heads, name
from calc.units import counted, format_count
from calc.working import Working, working


def _entry(n: Numbers) -> int:
    return paging.logical_block(position=n.position, block_tokens=n.block_tokens)


def _place(n: Numbers) -> int:
    return paging.block_offset(position=n.position, logical_block=_entry(n), block_tokens=n.block_tokens)


def _table(n: Numbers) -> list[int]:
    """Physical blocks of the table, four entries around the one that is asked for."""
    return [n.first + step for step in (0, 41, 7, 90)]


def _block(n: Numbers) -> int:
    return _table(n)[_entry(n) % 4]


def _slot(n: Numbers) -> int:
    return paging.slot(block=_block(n), offset=_place(n), block_tokens=n.block_tokens)


def _entries(n: Numbers) -> str:
    start = _entry(n) - _entry(n) % 4
    return ", ".join(f"{start + i} → {block}" for i, block in enumerate(_table(n)))


def _walk(n: Numbers) -> list[str | Working]:
    return [
        working(paging.logical_block, position=n.position, block_tokens=n.block_tokens),
        working(paging.block_offset, position=n.position, logical_block=_entry(n), block_tokens=n.block_tokens),
        f"Entry {_entry(n)} of the table names physical block {_block(n)}.",
    ]


slot = Problem(
    id="paged_attention/slot",
    title="Through the table",
    level=1,
    step=BYTES,
    printed={"position": 700, "block_tokens": 16, "first": 120},
    choices={
        "position": (37, 150, 333, 700, 1001, 1999, 4097),
        "block_tokens": (8, 16, 32, 64),
        "first": (120, 505, 1330, 2048),
    },
    ask=lambda n: (
        f"Blocks have {n.block_tokens} positions. Four entries of a sequence's block table are {_entries(n)}. "
        f"Positions, blocks and places count from 0. How many positions lie before position {n.position:,} in the "
        "pool, counted from block 0?"
    ),
    unit="positions",
    exact=True,
    answer=_slot,
    mistakes={
        "takes the table's entry for the physical block": lambda n: n.position,
        "forgets the place inside the block": lambda n: _block(n) * n.block_tokens,
        "adds the position to the block instead of its place": lambda n: _block(n) * n.block_tokens + n.position,
        "counts places from 1": lambda n: _slot(n) + 1,
        "takes the next entry": lambda n: (
            _table(n)[(_entry(n) + 1) % 4] * n.block_tokens + _place(n) if _entry(n) % 4 < 3 else None
        ),
    },
    hint="Divide by the block size: the quotient picks the entry, the remainder the place.",
    solution=lambda n: [
        *_walk(n),
        working(paging.slot, block=_block(n), offset=_place(n), block_tokens=n.block_tokens),
        f"Before it lie {counted(_slot(n), 'position')}.",
    ],
)


def _layer(n: Numbers, **changed: object) -> paging.LayerPages:
    kept = {
        "base": 0,
        "blocks": n.blocks,
        "block_tokens": n.block_tokens,
        "kv_heads": heads(n.model, n.ranks),
        "head_dim": attention(n.model)[0].key_dim,
        "element_bytes": SIZES[n.element],
        "arrangement": "planes",
    }
    return paging.LayerPages(**kept | changed)


def _layer_words(n: Numbers) -> str:
    layer = _layer(n)
    count = f"{layer.kv_heads} KV head{'s' if layer.kv_heads > 1 else ''}"
    rank = "its only rank" if n.ranks == 1 else f"one of {n.ranks} ranks"
    return (
        f"One layer of {name(n.model)} on {rank} has {count} of {layer.head_dim} elements, stored as {n.element}. A "
        f"pool of {n.blocks:,} blocks of {n.block_tokens} positions holds "
    )


SHAPES = {
    "model": MODELS,
    "ranks": (1, 2, 4, 8),
    "element": ("bf16", "fp8"),
    "block_tokens": (16, 32, 64),
    "blocks": (10_000, 20_000, 50_000),
    "block": (2, 5, 7, 11, 19),
    "offset": (1, 3, 5, 11, 15),
}
PRINTED = {"model": "llama-3.1-70b", "ranks": 8, "element": "bf16", "block_tokens": 16, "blocks": 20_000}


def _key(n: Numbers, **changed: object) -> int:
    return _layer(n, **changed).key(block=n.block, offset=n.offset)


key_address = Problem(
    id="paged_attention/key-address",
    title="Where the key is",
    level=2,
    step=BYTES,
    printed=PRINTED | {"block": 7, "offset": 5},
    choices=SHAPES,
    ask=lambda n: (
        f"{_layer_words(n)}the keys first, then the values; inside a position the heads follow each other. How many "
        f"bytes lie before the key of KV head 0 at place {n.offset} of block {n.block}?"
    ),
    answer=_key,
    mistakes={
        "counts a key and a value for each position": lambda n: 2 * _key(n),
        "counts elements, not bytes": lambda n: _key(n) // 2 if SIZES[n.element] == 2 else None,
        "keeps two bytes per element": lambda n: _key(n, element_bytes=2),
        "forgets the place inside the block": lambda n: _layer(n).key(block=n.block, offset=0),
        "counts one head": lambda n: _key(n, kv_heads=1),
        "forgets that a block has many positions": lambda n: (n.block + n.offset) * _layer(n).position_stride,
        "counts the layers": lambda n: _key(n) * attention(n.model)[1],
    },
    hint="Positions before it, times the bytes of one position's keys.",
    solution=lambda n: [
        working(paging.slot, block=n.block, offset=n.offset, block_tokens=n.block_tokens),
        f"One position's keys: {_layer(n).kv_heads} · {_layer(n).head_dim} · {SIZES[n.element]} B = "
        f"{format_count(_layer(n).position_stride)} B.",
        _address_working(n, base=0),
    ],
)


def _address_working(n: Numbers, base: int) -> Working:
    return working(
        paging.byte_address,
        base=base,
        slot=paging.slot(block=n.block, offset=n.offset, block_tokens=n.block_tokens),
        position_stride=_layer(n).position_stride,
        head=0,
        head_stride=_layer(n).head_stride,
    )


def _apart(n: Numbers, **changed: object) -> int:
    """Bytes from a key to its value."""
    layer = _layer(n, **changed)
    return layer.value(block=n.block, offset=n.offset) - layer.key(block=n.block, offset=n.offset)


value_distance = Problem(
    id="paged_attention/value-distance",
    title="From the key to the value",
    level=2,
    step=BYTES,
    printed=PRINTED | {"block": 7, "offset": 5},
    choices=SHAPES,
    ask=lambda n: (
        f"{_layer_words(n)}the keys of all blocks first, then the values of all blocks. How far behind the key at "
        f"place {n.offset} of block {n.block} is the value of the same head?"
    ),
    answer=_apart,
    mistakes={
        "puts each value right behind its key": lambda n: _apart(n, arrangement="pairs"),
        "puts a block's values behind that block's keys": lambda n: n.block_tokens * _layer(n).position_stride,
        "skips the values too": lambda n: _layer(n).total_bytes,
        "counts elements, not bytes": lambda n: _apart(n) // 2 if SIZES[n.element] == 2 else None,
        "keeps two bytes per element": lambda n: _apart(n, element_bytes=2),
        "counts one head": lambda n: _apart(n, kv_heads=1),
        "counts the layers": lambda n: _apart(n) * attention(n.model)[1],
    },
    hint="Every key of the pool lies between the start of the keys and the start of the values.",
    solution=lambda n: [
        f"One position's keys: {_layer(n).kv_heads} · {_layer(n).head_dim} · {SIZES[n.element]} B = "
        f"{format_count(_layer(n).position_stride)} B.",
        "All keys of the pool, so many slots further:",
        working(
            paging.byte_address,
            base=0,
            slot=n.blocks * n.block_tokens,
            position_stride=_layer(n).position_stride,
            head=0,
            head_stride=_layer(n).head_stride,
        ),
    ],
)
