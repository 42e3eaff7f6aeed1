"""Layers that keep several caches each, of unequal pages: which of them share a block table in vLLM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from calc.kv_cache import KindBytes
from calc.models import CompressedAttention
from calc.models.layers import Mixer
from calc.sources import load_json


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache of one layer: its place in the model, its page, and what a page is cut into."""

    kind: str
    layer: int
    page_bytes: float
    block_tokens: int
    window: int | None


def caches(layers: Iterable[tuple[int, Mixer, tuple[KindBytes, ...]]], *, block_tokens: int) -> Iterator[Cache]:
    """Every cache of layers whose latents are key and value, with the blocks and padded pages that vLLM gives it.

    Parameters
    ----------
    layers : iterable of (int, mixer, tuple of KindBytes)
        A layer's place, its mixer, and what it keeps (`calc.kv_cache.caches_of`).
    block_tokens : int
        Positions in a block, as configured: rounded up to what the layers' kernels need.

    Returns
    -------
    iterator of Cache
    """
    rules = load_json("sparse_cache.json")
    own = rules["shared_latent"]
    long = own["block_tokens"] * ceil(block_tokens / own["block_tokens"])
    for place, mixer, kinds in layers:
        for kind in kinds:
            tokens = own["window_block_tokens"] if kind.window is not None else long
            if kind.kind == "compressor" and isinstance(mixer, CompressedAttention):
                tokens = rules["compressor"]["block_tokens"][str(mixer.ratio)]
            page = own["page_alignment"] * ceil(tokens * kind.bytes_per_position / own["page_alignment"])
            yield Cache(kind.kind, place, page, tokens, kind.window)


def tables(found: Iterable[Cache]) -> list[list[Cache]]:
    """Deal caches out to block tables, so that a block of any of them takes about the same bytes.

    Caches with the same blocks and the same window may share a table. A set in which every size of page has as many
    caches is a pattern that repeats; such sets are cut into tables of about equally many repeats, the number that
    pads least. Without a set of several sizes nothing repeats: then what keeps a window is cut to fit into the block
    that the rest needs.

    Parameters
    ----------
    found : iterable of Cache

    Returns
    -------
    list of list of Cache

    References
    ----------
    vLLM 0.32, ``vllm/v1/core/kv_cache_utils.py``, ``_get_packed_kv_cache_groups``.
    """
    sets: dict[tuple[int | None, int], dict[float, list[Cache]]] = {}
    for cache in found:
        sizes = sets.setdefault((cache.window, cache.block_tokens), {})
        sizes.setdefault(cache.page_bytes, []).append(cache)
    if len(sets) == 1:
        return [[cache for same in sizes.values() for cache in same] for sizes in sets.values()]
    even = {key: sizes for key, sizes in sets.items() if len({len(same) for same in sizes.values()}) == 1}
    least = max((_most(sizes) for sizes in even.values() if len(sizes) > 1), default=0)
    repeats = _least_padding([_most(sizes) for sizes in even.values()], least) if least else None
    parts = {key: ceil(_most(sizes) / repeats) if repeats and key in even else 1 for key, sizes in sets.items()}
    if repeats is None:
        windows = [key for key in sets if key[0] is not None]
        single = {key: sum(map(len, sets[key].values())) for key in windows}
        block = max(_widest(sizes, single.get(key, parts[key])) for key, sizes in sets.items())
        for key in windows:
            fit = max(block // next(iter(sets[key])), 1)
            parts[key] = max(parts[key], ceil(single[key] / fit))
    return [table for key, sizes in sets.items() for table in _cut(sizes, parts[key])]


def _most(sizes: dict[float, list[Cache]]) -> int:
    return max(map(len, sizes.values()))


def _widest(sizes: dict[float, list[Cache]], parts: int) -> float:
    return sum(ceil(len(same) / parts) * page for page, same in sizes.items())


def _least_padding(counts: list[int], least: int) -> int:
    """The number, of those from `least`, whose multiples the counts need least padding to reach; of equals the last."""
    return min(range(least, max(counts) + 1), key=lambda d: (sum(-count % d for count in counts), -d))


def _cut(sizes: dict[float, list[Cache]], parts: int) -> Iterator[list[Cache]]:
    for turn in range(parts):
        yield [cache for same in sizes.values() for cache in same[turn::parts]]
