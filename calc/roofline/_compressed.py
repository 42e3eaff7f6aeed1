"""The work of layers with compressed latents on one sequence of a step."""

from __future__ import annotations

from dataclasses import dataclass

from calc import kv_cache
from calc.models import CompressedAttention, LatentWindowAttention
from calc.roofline._layers import attention_of, entries_of, pairs_of
from calc.roofline._recurrent import index_flop


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWork:
    """What one layer does for one sequence: arithmetic, cache read and cache written."""

    flop: float
    cache_bytes: float
    written_bytes: float


def compressed_work(
    mixer: LatentWindowAttention, *, element: str, new: int, cached: int, causal: bool = True
) -> LayerWork:
    """Count one layer's attention for one sequence of a step.

    Parameters
    ----------
    mixer : LatentWindowAttention or CompressedAttention
        A layer kind of `ModelGeometry.kinds`, or a rank's share of it.
    element : str
        Type of the cache: a key of `calc.kv_cache.ELEMENTS`.
    new, cached : int
        New tokens of the sequence, and its positions in the cache.
    causal : bool
        Whether a new token reads only what comes before it; False counts the masked half and what lies outside of
        windows too.

    Returns
    -------
    LayerWork

    Notes
    -----
    Read is what the first new token surely reads: the rest of its window, the compressed latents that are picked for
    it, and all keys of the indexer. Written are latents that stay in the window, what the compressors keep of the last
    positions, and the entries that become complete. What a compressor reads back of its own is left out.
    """
    pairs = pairs_of(mixer, new=new, cached=cached) if causal else new * (cached + new)
    formula, arguments = attention_of(mixer, cached=cached, pairs=pairs)
    flop = formula(**arguments)
    compressed = isinstance(mixer, CompressedAttention)
    if compressed and not causal:
        formula, arguments = attention_of(mixer, cached=cached, pairs=new * ((cached + new) // mixer.ratio))
        flop += formula(**arguments)
    if compressed and mixer.index_heads:
        scored = entries_of(mixer, new=new, cached=cached, index=True)
        flop += index_flop(index_heads=mixer.index_heads, index_dim=mixer.index_dim, positions=scored)
    read = written = 0.0
    for cache in kv_cache.caches_of(mixer, layers=1, element=element):
        if cache.window is not None:
            written += min(new, cache.window) * cache.bytes_per_position
            read += (cache.kind != "compressor") * min(cached, cache.window - 1) * cache.bytes_per_position
            continue
        entry, before = cache.ratio * cache.bytes_per_position, cached // cache.ratio
        picked = mixer.picked if cache.kind == "compressed" else 0
        read += entry * (min(before, picked) if picked else before)
        written += entry * ((cached + new) // cache.ratio - before)
    return LayerWork(flop=flop, cache_bytes=read, written_bytes=written)
