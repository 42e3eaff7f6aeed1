"""What a reader of memory/paged_attention might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import models

from . import Altered


@st.composite
def paged_sequences(draw: st.DrawFn) -> dict[str, Any]:
    """A sequence in pages, on any model whose layers are alike; now and then in a pool too small for it."""
    alike = [slug for slug in models.catalogue() if {mixer.kind for mixer, _ in models.load(slug).kinds()} == {"full"}]
    prompt, generated = draw(st.integers(1, 3000)), draw(st.integers(1, 1500))
    size = st.one_of(st.sampled_from([1, 8, 16, 32, 64, 128]), st.integers(1, 3000))
    written = prompt + generated - 1
    return {
        "model_slug": draw(st.sampled_from(alike)),
        "element": draw(st.sampled_from(["bf16", "fp16", "fp8", "int8", "fp32"])),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8])),
        "pool_gib_per_rank": draw(st.one_of(st.integers(4, 192), st.floats(4, 192))),
        "block_tokens": draw(size),
        "prompt_tokens": prompt,
        "generated_tokens": generated,
        "traced_position": draw(st.integers(0, written - 1)),
        "reserved_tokens": written + draw(st.sampled_from([0, 1, 100, 8192, 100_000])),
        "samples": draw(st.integers(1, 20)),
        "large_block_tokens": draw(size),
    }


def the_walk_through_the_table(run: Run) -> None:
    """The address that the text keeps is that of an array of blocks, places, heads and elements."""
    n = run.namespace
    said = re.search(r"starts \*\*([\d,]+) B\*\* behind .* value \*\*([\d,]+) B\*\*", run.prose)
    key, value = (int(number.replace(",", "")) for number in said.groups())
    row = n["heads"] * n["mixer"].key_dim * int(n["element_bytes"])
    block, place = n["ours"].blocks[n["traced_position"] // n["block_tokens"]], n["traced_position"] % n["block_tokens"]
    assert key == (block * n["block_tokens"] + place) * row
    assert value == key + n["pool_blocks"] * n["block_tokens"] * row


def sequences_in_pages(run: Run) -> None:
    """As many as the text says fit whole, and no more; in reservations likewise."""
    n = run.namespace
    said = re.search(
        r"The pool holds \*\*([\d,]+) sequences?\*\* of this length, where reservations hold ([\d,]+)", run.prose
    )
    in_blocks = -(-n["positions"] // n["block_tokens"]) * n["block_tokens"]
    for number, held in zip(said.groups(), (in_blocks, n["reserved_tokens"]), strict=True):
        fit = int(number.replace(",", ""))
        assert fit * held * n["per_position"] <= n["memory"] < (fit + 1) * held * n["per_position"]


def copies_before_writes(run: Run) -> None:
    """Every answer but the last copies a partial block, and none copies a full one."""
    n = run.namespace
    partial = n["prompt_tokens"] % n["block_tokens"] != 0
    assert sum(map(len, n["copies"])) == (n["samples"] - 1 if partial else 0)
    assert ("ends inside a block" in run.prose) == (partial and n["samples"] > 1)
    assert ("nothing is copied" in run.prose) == (not partial and n["samples"] > 1)


def what_is_found(run: Run) -> None:
    """Whole blocks before the last token, whatever way the text came to them."""
    n = run.namespace
    prompt, size = n["prompt_tokens"], n["block_tokens"]
    found = (prompt - 1) // size * size
    (said,) = re.findall(r"The same prompt finds \*\*([\d,]+)\*\* of", run.prose)
    assert int(said.replace(",", "")) == found == n["plain_hit"]
    assert ("finds a block more than the prompt itself" in run.prose) == (prompt % size == 0)


ALTERED = Altered(
    sensible=paged_sequences(),
    impossible=(
        {"model_slug": "llama-9"},
        {"model_slug": "no/such/config.json"},
        {"model_slug": "deepseek-v3"},
        {"model_slug": "gpt-oss-20b"},
        {"element": "bf15"},
        {"element": "fp8 + head scales"},
        {"tensor_parallel_ranks": 0},
        {"tensor_parallel_ranks": 3},
        {"pool_gib_per_rank": 0.01},
        {"pool_gib_per_rank": -1},
        {"pool_gib_per_rank": float("nan")},
        {"block_tokens": 0},
        {"block_tokens": "16"},
        {"block_tokens": 10**9},
        {"prompt_tokens": 0},
        {"prompt_tokens": 12.5},
        {"generated_tokens": 0},
        {"traced_position": 1300},
        {"traced_position": -1},
        {"reserved_tokens": 1299},
        {"samples": 0},
        {"samples": 10**9},
        {"large_block_tokens": 0},
    ),
    claims=(the_walk_through_the_table, sequences_in_pages, copies_before_writes, what_is_found),
)
