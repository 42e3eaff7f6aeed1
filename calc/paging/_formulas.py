"""The arithmetic of pages: hits, waste and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from calc.units import CalcError, dimensions


@dimensions("count", prompt="count>0", block_tokens="count>0", dropped_blocks="count")
def hit_positions(*, prompt, block_tokens, dropped_blocks=0):
    """Positions that a prompt seen before finds in the prefix cache.

    Full blocks only, and the last token is always computed again: its logits choose the next token.

    Parameters
    ----------
    prompt : int
        Prompt tokens, all of them known to the cache.
    block_tokens : int
        Positions in a block. Hybrid models enlarge it, to 1,056 or more.
    dropped_blocks : int
        Blocks given up at the end: 1 for a drafter that reads the target's hidden states (EAGLE, MTP).

    Returns
    -------
    int
        Positions found; the rest is computed.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `prompt` or `block_tokens` is 0.

    Notes
    -----
    An upper bound where the earlier prompt shares only a part, or blocks have been evicted. Engines
    that also match inside a large block can find more.

    References
    ----------
    vLLM 0.32, ``KVCacheManager.get_computed_blocks`` and ``FullAttentionManager.find_longest_cache_hit``.

    Examples
    --------
    >>> hit_positions(prompt=1000, block_tokens=16), hit_positions(prompt=992, block_tokens=16)
    (992, 976)
    >>> hit_positions(prompt=1000, block_tokens=16, dropped_blocks=1)
    976
    >>> hit_positions(prompt=1000, block_tokens=1056)
    0
    """
    hit_positions = max(0, (prompt - 1) // block_tokens - dropped_blocks) * block_tokens
    return hit_positions


@dimensions("count", positions="count", block_tokens="count>0")
def unused_positions(*, positions, block_tokens):
    """Positions allocated to a sequence but not written: the rest of its last block.

    Parameters
    ----------
    positions : int
        Positions written.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        Less than one block, whatever the length.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Notes
    -----
    Speculative decoding may hold a block more, for drafts that were rejected.

    Examples
    --------
    >>> unused_positions(positions=1000, block_tokens=16)
    8
    """
    unused_positions = ceil(positions / block_tokens) * block_tokens - positions
    return unused_positions


@dimensions("", positions="count>0", block_tokens="count>0")
def table_utilization(*, positions, block_tokens):
    """Share of a paged sequence's memory that holds something.

    Parameters
    ----------
    positions : int
        Positions written.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    float
        Between 1 / `block_tokens` and 1.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Notes
    -----
    The loss is internal fragmentation of the last block. Equal blocks leave no external fragmentation.

    Examples
    --------
    >>> round(table_utilization(positions=1000, block_tokens=16), 3)
    0.992
    """
    table_utilization = positions / (ceil(positions / block_tokens) * block_tokens)
    return table_utilization


@dimensions("", positions="count", reserved="count>0")
def reservation_utilization(*, positions, reserved):
    """Share of a contiguous reservation that holds something.

    Parameters
    ----------
    positions : int
        Positions written.
    reserved : int
        Positions reserved from the start: often the longest sequence that is allowed.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `reserved` is 0.

    Notes
    -----
    External fragmentation between reservations is not counted.

    Examples
    --------
    >>> reservation_utilization(positions=512, reserved=2048)
    0.25
    """
    reservation_utilization = positions / reserved
    return reservation_utilization


@dimensions("count", prompt="count", sequences="count>0", block_tokens="count>0")
def fork_saving(*, prompt, sequences, block_tokens):
    """Blocks saved when sequences share one prompt instead of each holding its own.

    Parameters
    ----------
    prompt : int
        Prompt tokens they share.
    sequences : int
        Sequences sampled from it.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        Blocks: the full ones, once for every sequence but the first.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `sequences` or `block_tokens` is 0.

    Notes
    -----
    Once all of them have written. Before that, a partial last block is shared too.

    Examples
    --------
    >>> fork_saving(prompt=1000, sequences=4, block_tokens=16)
    186
    """
    fork_saving = (sequences - 1) * (prompt // block_tokens)
    return fork_saving


@dimensions("", shared="", sequences="count>0")
def sharing_saving(*, shared, sequences):
    """Share of the cache saved when sequences hold a common part once.

    Parameters
    ----------
    shared : float
        Part of one sequence's memory that it has in common with the others, from 0 to 1.
    sequences : int
        Equally long sequences.

    Returns
    -------
    float
        From 0 to below `shared`.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no sequence.

    Notes
    -----
    The partial last block of the common part can't stay shared: `shared` counts full blocks.

    Examples
    --------
    >>> sharing_saving(shared=0.12, sequences=2)
    0.06
    """
    sharing_saving = shared * (sequences - 1) / sequences
    return sharing_saving


@dimensions("count", position="count", block_tokens="count>0")
def logical_block(*, position, block_tokens):
    """Entry of the block table that a position belongs to.

    Parameters
    ----------
    position : int
        Number of the position in its sequence, from 0.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        Number of the entry, from 0.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Examples
    --------
    >>> logical_block(position=35, block_tokens=16)
    2
    """
    logical_block = position // block_tokens
    return logical_block


@dimensions("count", position="count", logical_block="count", block_tokens="count>0")
def block_offset(*, position, logical_block, block_tokens):
    """Place of a position inside its block.

    Parameters
    ----------
    position : int
        Number of the position in its sequence, from 0.
    logical_block : int
        Its entry in the block table, from `logical_block`.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        From 0 to one less than `block_tokens`.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Examples
    --------
    >>> block_offset(position=35, logical_block=2, block_tokens=16)
    3
    """
    block_offset = position - logical_block * block_tokens
    return block_offset


@dimensions("count", block="count", offset="count", block_tokens="count>0")
def slot(*, block, offset, block_tokens):
    """Number of a position among all positions of the pool.

    Parameters
    ----------
    block : int
        Physical block.
    offset : int
        Place inside it.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        Slot, as in an engine's slot mapping.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Notes
    -----
    The same slot in every layer.

    Examples
    --------
    >>> slot(block=7, offset=3, block_tokens=16)
    115
    """
    slot = block * block_tokens + offset
    return slot


@dimensions("byte", base="byte", slot="count", position_stride="byte", head="count", head_stride="byte")
def byte_address(*, base, slot, position_stride, head, head_stride):
    """Address of one head's vector at one slot.

    Parameters
    ----------
    base : int
        Address of the first byte of the layer's keys, or of its values.
    slot : int
        Slot, from `slot`.
    position_stride, head_stride : int
        Bytes from one slot, and from one head, to the next.
    head : int
        KV head.

    Returns
    -------
    int
        Byte address.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    For layouts in which a slot's heads lie together. `LayerPages` has the strides.

    Examples
    --------
    >>> byte_address(base=0, slot=115, position_stride=2048, head=1, head_stride=256)
    235776
    """
    byte_address = base + slot * position_stride + head * head_stride
    return byte_address


ARRANGEMENTS = ("planes", "pairs")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPages:
    """One layer's part of the pool, as bytes.

    Parameters
    ----------
    base : int
        Address of the layer's first byte.
    blocks : int
        Blocks in the pool.
    block_tokens : int
        Positions in a block.
    kv_heads, head_dim : int
        KV heads on this rank, and elements in one head's key, equal to those in its value.
    element_bytes : int
        Bytes per stored element.
    arrangement : str
        "planes": all keys of the layer, then all values: [2, block, offset, head, element].
        "pairs": each head's key with its value behind it: [block, offset, head, key and value], the
        order of vLLM 0.32's default layout (LBNHC).

    Raises
    ------
    CalcError
        If a size is not a positive whole number, or the arrangement is unknown.

    Examples
    --------
    >>> layer = LayerPages(base=0, blocks=1000, block_tokens=16, kv_heads=8, head_dim=128, element_bytes=2)
    >>> layer.key(block=7, offset=3), layer.value(block=7, offset=3)
    (235520, 33003520)
    """

    base: int
    blocks: int
    block_tokens: int
    kv_heads: int
    head_dim: int
    element_bytes: int
    arrangement: str = "planes"

    def __post_init__(self) -> None:
        for name in ("blocks", "block_tokens", "kv_heads", "head_dim", "element_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CalcError(f"LayerPages: {name} is {value!r}, wanted a positive whole number")
        if self.arrangement not in ARRANGEMENTS:
            raise CalcError(f"LayerPages: arrangement is {self.arrangement!r}, wanted one of {', '.join(ARRANGEMENTS)}")

    @property
    def head_stride(self) -> int:
        """Bytes from one head to the next."""
        vectors = 2 if self.arrangement == "pairs" else 1
        return vectors * self.head_dim * self.element_bytes

    @property
    def position_stride(self) -> int:
        """Bytes from one slot to the next."""
        return self.kv_heads * self.head_stride

    @property
    def value_base(self) -> int:
        """Address of the first value."""
        if self.arrangement == "pairs":
            return self.base + self.head_dim * self.element_bytes
        return self.base + self.blocks * self.block_tokens * self.position_stride

    @property
    def total_bytes(self) -> int:
        """Bytes of the layer, keys and values."""
        return 2 * self.blocks * self.block_tokens * self.kv_heads * self.head_dim * self.element_bytes

    def key(self, *, block: int, offset: int, head: int = 0) -> int:
        """Address of a key vector's first byte."""
        return self._address(self.base, block, offset, head)

    def value(self, *, block: int, offset: int, head: int = 0) -> int:
        """Address of a value vector's first byte."""
        return self._address(self.value_base, block, offset, head)

    def _address(self, base: int, block: int, offset: int, head: int) -> int:
        for name, number, limit in (
            ("block", block, self.blocks),
            ("offset", offset, self.block_tokens),
            ("head", head, self.kv_heads),
        ):
            if not 0 <= number < limit:
                raise CalcError(f"LayerPages: {name} is {number}, wanted 0 to {limit - 1}")
        where = slot(block=block, offset=offset, block_tokens=self.block_tokens)
        return byte_address(
            base=base, slot=where, position_stride=self.position_stride, head=head, head_stride=self.head_stride
        )
