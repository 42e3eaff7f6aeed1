"""The physical blocks of a cache: who holds them, which are free, which still hold a known prefix."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

from calc.units import CalcError

NULL_BLOCK = 0  # set aside: a table entry that points nowhere points here


class PagingError(CalcError):
    """Blocks were used in a way that would lose, corrupt or double-free them."""


class OutOfBlocks(PagingError):
    """More blocks were asked for than are free."""


class BlockPool:
    """A fixed set of blocks with reference counts, a free queue and a cache of full blocks.

    Parameters
    ----------
    blocks : int
        Blocks in all, as an engine logs them. Block 0 is set aside, so one fewer can be used.
    block_tokens : int
        Positions in a block.

    Attributes
    ----------
    references : list of int
        Tables that hold each block.
    evictions : int
        Known prefixes lost because their block was handed out again.

    Raises
    ------
    PagingError
        If a size is not a whole number, or too small.

    Notes
    -----
    A block that nobody holds is free, even while its content is still known. Free blocks are handed out
    from the front of one queue. A block without a known prefix goes back to the front, for nothing is
    lost by using it first. One with a known prefix goes to the back, so prefixes are evicted in order
    of last use. Identical content written twice occupies two blocks: a table never changes under a
    running sequence.

    References
    ----------
    The order of reuse is that of vLLM 0.32, ``vllm/v1/core/block_pool.py``.

    Examples
    --------
    >>> pool = BlockPool(8)
    >>> held = pool.allocate(3)
    >>> held, pool.free_blocks
    ([1, 2, 3], 4)
    >>> pool.free(reversed(held))
    >>> pool.free_blocks
    7
    """

    def __init__(self, blocks: int, *, block_tokens: int = 16) -> None:
        for name, value, least in (("blocks", blocks, 2), ("block_tokens", block_tokens, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise PagingError(f"BlockPool: {name} is {value!r}, wanted a whole number of at least {least}")
        self.block_tokens = block_tokens
        self.references = [0] * blocks
        self.evictions = 0
        self._queue: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, blocks))
        self._keys: list[bytes | None] = [None] * blocks
        self._known: dict[bytes, list[int]] = {}

    @property
    def usable(self) -> int:
        """Blocks that tables can hold."""
        return len(self.references) - 1

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return len(self._queue)

    @property
    def known_blocks(self) -> int:
        """Blocks whose content can still serve a prefix, held or free."""
        return sum(map(len, self._known.values()))

    def allocate(self, count: int) -> list[int]:
        """Hand out blocks for writing, held once each; a known prefix in one of them is evicted.

        Parameters
        ----------
        count : int
            Blocks wanted.

        Returns
        -------
        list of int
            Physical block numbers.

        Raises
        ------
        OutOfBlocks
            If fewer are free. Nothing is handed out then.
        """
        if count > len(self._queue):
            raise OutOfBlocks(f"{count} blocks wanted, {len(self._queue)} free: preempt a sequence or wait for one")
        taken = [self._queue.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self.references[block] = 1
            if self._keys[block] is not None:
                self._forget(block)
                self.evictions += 1
        return taken

    def share(self, blocks: Iterable[int]) -> None:
        """Hold blocks once more: for a fork, or for a prefix found by `match`.

        Raises
        ------
        PagingError
            If a block is free and its content unknown: there is nothing in it to share.
        """
        for block in blocks:
            if self.references[block] == 0:
                if self._keys[block] is None:
                    raise PagingError(f"block {block} is free and holds no known prefix: allocate it instead")
                del self._queue[block]
            self.references[block] += 1

    def free(self, blocks: Iterable[int]) -> None:
        """Let go of blocks once each. Those that nobody holds any more can be handed out again.

        Parameters
        ----------
        blocks : iterable of int
            In the order in which they should be reused: a table gives its last block first, so that the
            start of a prefix survives longest.

        Raises
        ------
        PagingError
            If a block is not held: freeing it twice would hand it to two sequences.
        """
        nameless = []
        for block in blocks:
            if self.references[block] == 0:
                raise PagingError(f"block {block} is not held: it was freed before, or never allocated")
            self.references[block] -= 1
            if self.references[block] == 0:
                if self._keys[block] is None:
                    nameless.append(block)
                else:
                    self._queue[block] = None
        for block in reversed(nameless):
            self._queue[block] = None
            self._queue.move_to_end(block, last=False)

    def writable(self, block: int) -> bool:
        """Whether a block may be written: held by one table only, and not offered to others."""
        return self.references[block] == 1 and self._keys[block] is None

    def publish(self, block: int, key: bytes) -> None:
        """Offer a full block to later sequences under its key.

        Raises
        ------
        PagingError
            If nobody holds the block, or it already has another key.
        """
        if self.references[block] == 0 or self._keys[block] not in (None, key):
            state = "is free" if self.references[block] == 0 else "has another key"
            raise PagingError(f"block {block} {state}: only a block just filled can be published")
        if self._keys[block] is None:
            self._keys[block] = key
            self._known.setdefault(key, []).append(block)

    def find(self, key: bytes) -> int | None:
        """A block with that key, the one published first, or None."""
        found = self._known.get(key)
        return found[0] if found else None

    def match(self, keys: Sequence[bytes], *, positions: int, dropped_blocks: int = 0) -> list[int]:
        """The longest known prefix of a sequence.

        Parameters
        ----------
        keys : sequence of bytes
            Keys of the sequence's full blocks, from `block_keys`.
        positions : int
            Positions the sequence needs. The last is always computed again, for its logits.
        dropped_blocks : int
            Blocks given up at the end of the match: 1 for a drafter that reads hidden states.

        Returns
        -------
        list of int
            Blocks to `share`, possibly none. Full blocks only; the first miss ends the match.
        """
        found: list[int] = []
        for key in islice(keys, max(positions - 1, 0) // self.block_tokens):
            block = self.find(key)
            if block is None:
                break
            found.append(block)
        return found[: max(len(found) - dropped_blocks, 0)]

    def forget_all(self) -> None:
        """Drop every known prefix, as after a change of weights. Held blocks stay held."""
        for block, key in enumerate(self._keys):
            if key is not None:
                self._forget(block)

    def _forget(self, block: int) -> None:
        key = self._keys[block]
        self._known[key].remove(block)
        if not self._known[key]:
            del self._known[key]
        self._keys[block] = None
