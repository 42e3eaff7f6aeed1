"""Names of blocks: a chain of hashes over everything that decides what a block's cache holds."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from calc.units import CalcError, plain

_ROOT = bytes(32)


@dataclass(frozen=True, slots=True)
class Medium:
    """An image, sound or video that stands for a run of placeholder tokens.

    Attributes
    ----------
    identifier : str
        Hash of the content: two images have the same placeholders, but not the same cache.
    start, length : int
        Positions it covers.
    """

    identifier: str
    start: int
    length: int


def block_keys(
    tokens: Sequence[int],
    *,
    block_tokens: int,
    adapter: str | None = None,
    salt: str | None = None,
    media: Sequence[Medium] = (),
) -> list[bytes]:
    """Keys of the full blocks of a sequence.

    Parameters
    ----------
    tokens : sequence of int
        Token identifiers, of 64 bits at most.
    block_tokens : int
        Positions in a block.
    adapter : str or None
        LoRA adapter: it changes every key and value.
    salt : str or None
        Secret of a tenant, so that nobody can time another's prefixes. It enters the first block and
        reaches the others through the chain.
    media : sequence of Medium
        What placeholder tokens stand for.

    Returns
    -------
    list of bytes
        One for each full block; a partial last block has none.

    Raises
    ------
    CalcError
        If a block has no positions, or an identifier is no whole number of 64 bits.

    Notes
    -----
    Each key covers its own tokens and the key before it, so it stands for the whole prefix: attention
    makes a block's content depend on every token before it, not on its own tokens alone.

    References
    ----------
    What the chain covers is that of vLLM 0.32, ``vllm/v1/core/kv_cache_utils.py``; the encoding is not.

    Examples
    --------
    >>> first, second = block_keys([1, 2, 3, 4, 5], block_tokens=2)
    >>> block_keys([9, 2, 3, 4], block_tokens=2)[1] == second  # same tokens, another prefix
    False
    """
    plain("block_keys", "block_tokens", block_tokens, "count>0")
    keys: list[bytes] = []
    extend_keys(keys, tokens, block_tokens=block_tokens, adapter=adapter, salt=salt, media=media)
    return keys


def extend_keys(
    keys: list[bytes],
    tokens: Sequence[int],
    *,
    block_tokens: int,
    adapter: str | None = None,
    salt: str | None = None,
    media: Sequence[Medium] = (),
) -> None:
    """Add the keys of blocks that have become full since; arguments as in `block_keys`."""
    for start in range(len(keys) * block_tokens, len(tokens) - block_tokens + 1, block_tokens):
        end = start + block_tokens
        inside = [(m.identifier, m.start - start) for m in media if m.start < end and m.start + m.length > start]
        extra = (adapter, inside, salt if start == 0 else None)
        digest = hashlib.sha256(keys[-1] if keys else _ROOT)
        try:
            digest.update(array("q", tokens[start:end]).tobytes())
        except (TypeError, OverflowError):
            raise CalcError(
                f"tokens {start} to {end - 1} are not all whole numbers of 64 bits: give a tokenizer's identifiers"
            ) from None
        if extra != (None, [], None):
            digest.update(repr(extra).encode())
        keys.append(digest.digest())
