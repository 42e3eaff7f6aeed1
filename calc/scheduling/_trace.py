"""Requests of a public trace, as a scheduler takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from calc import workload
from calc.scheduling._requests import Request


class HashedPrompt(Sequence):
    """A prompt known by the hashes of its blocks: tokens made up so that equal hashes mean equal tokens.

    Parameters
    ----------
    blocks : sequence of int
        Hash of each block.
    length : int
        Tokens; the last block may be cut.
    block_tokens : int
        Tokens of a block in the trace, which need not be the engine's.
    """

    __slots__ = ("_block_tokens", "_blocks", "_length")

    def __init__(self, blocks: Sequence[int], length: int, block_tokens: int) -> None:
        self._blocks, self._length, self._block_tokens = blocks, length, block_tokens

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        if not 0 <= index < self._length:
            raise IndexError(f"token {index} of {self._length}")
        block, offset = divmod(index, self._block_tokens)
        return self._blocks[block] * self._block_tokens + offset

    def __iter__(self) -> Iterator[int]:
        left = self._length
        for block in self._blocks:
            first = block * self._block_tokens
            yield from range(first, first + min(left, self._block_tokens))
            left -= self._block_tokens


def from_trace(trace: Iterable[workload.Request], *, share_prefixes: bool = True) -> list[Request]:
    """Requests of a workload, named by their place in it.

    Parameters
    ----------
    trace : iterable of calc.workload.Request
        From a reader of `calc.workload`.
    share_prefixes : bool
        Keep the content of prompts where the trace tells it. Without it prompts are lengths, and long
        traces run fast.

    Returns
    -------
    list of Request

    Notes
    -----
    A trace that hashes blocks of 512 tokens tells nothing about prefixes that end inside one.

    Examples
    --------
    >>> trace = [workload.Request(arrival_s=0.0, prompt_tokens=600, output_tokens=9, blocks=(4, 7))]
    >>> from_trace(trace)[0].prompt[511:513]
    [2559, 3584]
    >>> from_trace(trace, share_prefixes=False)[0].prompt
    600
    """
    requests = []
    for place, given in enumerate(trace):
        prompt: int | Sequence[int] = given.prompt_tokens
        if share_prefixes and given.blocks:
            prompt = HashedPrompt(given.blocks, given.prompt_tokens, workload.MOONCAKE_BLOCK_TOKENS)
        requests.append(Request(place, prompt, given.output_tokens, given.arrival_s))
    return requests
