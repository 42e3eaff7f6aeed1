"""The block table of one sequence: position → logical block → physical block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calc.paging._pool import BlockPool, PagingError


class Place(NamedTuple):
    """Where a position is: its entry in the table, the place inside the block, the physical block."""

    logical: int
    offset: int
    block: int


class Copy(NamedTuple):
    """A block that must be copied before the write that follows."""

    source: int
    target: int


class BlockTable:
    """Blocks of one sequence, in order of position.

    Parameters
    ----------
    pool : BlockPool
        Where blocks come from.

    Attributes
    ----------
    blocks : list of int
        Physical block of each logical block.
    positions : int
        Positions written.

    Notes
    -----
    A fork shares every block. Full blocks are never written again, so they stay shared; a partial last
    block is copied by whoever writes to it first while another still holds it.

    Examples
    --------
    >>> pool = BlockPool(8, block_tokens=4)
    >>> one = BlockTable(pool)
    >>> one.write(6)
    []
    >>> two = one.fork()
    >>> two.write(1)  # the last block is partial and shared: copied first
    [Copy(source=2, target=3)]
    >>> one.blocks, two.blocks, pool.references[1]
    ([1, 2], [1, 3], 2)
    >>> two.locate(6)
    Place(logical=1, offset=2, block=3)
    """

    __slots__ = ("_published", "blocks", "pool", "positions")

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.blocks: list[int] = []
        self.positions = 0
        self._published = 0

    def missing(self, positions: int) -> int:
        """Blocks still to be allocated before that many positions fit."""
        return max(0, -(-positions // self.pool.block_tokens) - len(self.blocks))

    def adopt(self, blocks: Sequence[int]) -> None:
        """Start from a prefix that `BlockPool.match` found.

        Raises
        ------
        PagingError
            If the table already holds something.
        """
        if self.blocks:
            raise PagingError("a prefix can only be adopted by an empty table: free it first")
        self.pool.share(blocks)
        self.blocks = list(blocks)
        self.positions = len(blocks) * self.pool.block_tokens
        self._published = len(blocks)

    def reserve(self, positions: int) -> None:
        """Allocate blocks until that many positions fit; nothing is written.

        Raises
        ------
        OutOfBlocks
            If the pool has too few. The table is then unchanged.
        """
        missing = self.missing(positions)
        if missing:
            self.blocks += self.pool.allocate(missing)

    def write(self, count: int, keys: Sequence[bytes] = ()) -> list[Copy]:
        """Write the next positions.

        Parameters
        ----------
        count : int
            Positions to add.
        keys : sequence of bytes
            Keys of the sequence's full blocks up to the new end, to offer them to others. None: keep
            them private.

        Returns
        -------
        list of Copy
            At most one: a block whose content must be copied before the write.

        Raises
        ------
        OutOfBlocks
            If the pool has too few blocks for the write and its copy. The table is then unchanged.
        """
        end = self.positions + count
        logical = self.positions // self.pool.block_tokens
        copies: list[Copy] = []
        if count and logical < len(self.blocks) and not self.pool.writable(self.blocks[logical]):
            first, *new = self.pool.allocate(1 + self.missing(end))
            copies.append(Copy(self.blocks[logical], first))
            self.pool.free([self.blocks[logical]])
            self.blocks[logical] = first
            self.blocks += new
        else:
            self.reserve(end)
        self.positions = end
        self.publish(keys, end)
        return copies

    def publish(self, keys: Sequence[bytes], positions: int) -> None:
        """Offer the blocks that `positions` positions fill to later sequences."""
        full = min(positions // self.pool.block_tokens, len(keys))
        for logical in range(self._published, full):
            self.pool.publish(self.blocks[logical], keys[logical])
        self._published = max(self._published, full)

    def fork(self) -> BlockTable:
        """A second sequence with the same past: every block is shared, none is copied."""
        other = BlockTable(self.pool)
        other.blocks = self.blocks[: -(-self.positions // self.pool.block_tokens)]  # reserved ones hold nothing yet
        self.pool.share(other.blocks)
        other.positions, other._published = self.positions, self._published
        return other

    def free(self) -> None:
        """Let go of every block, the last first, so that the start of a prefix survives longest."""
        self.pool.free(reversed(self.blocks))
        self.blocks, self.positions, self._published = [], 0, 0

    def locate(self, position: int) -> Place:
        """Walk the table for one position.

        Raises
        ------
        PagingError
            If the position is not written.
        """
        if not 0 <= position < self.positions:
            raise PagingError(f"position {position} is not in the table: it holds positions 0 to {self.positions - 1}")
        logical, offset = divmod(position, self.pool.block_tokens)
        return Place(logical, offset, self.blocks[logical])
