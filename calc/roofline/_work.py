"""The work of one step of a model on one rank: arithmetic and bytes, tensor group by tensor group."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from calc import kv_cache
from calc.models import LatentAttention, LatentWindowAttention, ModelGeometry, RecurrentState
from calc.roofline._attention import decode_flop
from calc.roofline._compressed import compressed_work
from calc.roofline._layers import (
    Held,
    attention_of,
    expansion_of,
    held_on_rank,
    pairs_of,
    query_and_output,
    touched,
)
from calc.roofline._machine import intensity, matmul_flop
from calc.roofline._recurrent import index_of, positions_kept, recurrent_of
from calc.roofline._spread import message_bytes, ring_bytes
from calc.units import CalcError, format_bytes, format_decimal, plain

Sequences = Iterable[tuple[int, int]] | Mapping[tuple[int, int], int]
HEADS = ("last", "every")


def spoken(name: str) -> str:
    """A tensor group's name as a reader sees it."""
    return "MLP" if name == "mlp" else name.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """What one tensor group does in a step, on one rank.

    Attributes
    ----------
    name : str
        "projections" (queries, keys, values and output, those of recurrent layers and indexers too), "attention"
        (scores and values, an indexer's scores, work on recurrent states), "mlp", "router", "routed_experts",
        "shared_experts", "norms" or "head".
    flop : float
        Arithmetic of matrix products.
    weight_bytes : float
        Weights read, once for the whole step.
    cache_bytes : float
        Cache read: positions written in earlier steps.
    written_bytes : float
        Cache written: the step's new positions.
    activation_bytes : float
        Inputs read and outputs written by the group's matrix products, if each went through memory.
    """

    name: str
    flop: float = 0
    weight_bytes: float = 0
    cache_bytes: float = 0
    written_bytes: float = 0
    activation_bytes: float = 0

    def moved_bytes(self, *, activations: bool = False) -> float:
        """Bytes read and written; with `activations` those of the products' inputs and outputs too."""
        always = self.weight_bytes + self.cache_bytes + self.written_bytes
        return always + self.activation_bytes * activations


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """What one step does on one rank.

    Attributes
    ----------
    model : str
        The model's name.
    ranks : int
        Tensor-parallel ranks; everything here is for one of them.
    sequences, tokens : int
        Sequences in the step, and their new tokens.
    groups : tuple of GroupWork
        In the order of a layer; groups that the model lacks are left out.
    all_reduces : int
        Sums over the ranks, two for each layer; 0 on one rank.
    message_bytes : float
        What each of them adds up.
    """

    model: str
    ranks: int
    sequences: int
    tokens: int
    groups: tuple[GroupWork, ...]
    all_reduces: int
    message_bytes: float

    def group(self, name: str) -> GroupWork:
        """One group by name.

        Raises
        ------
        CalcError
            If the step has no such group.
        """
        found = next((g for g in self.groups if g.name == name), None)
        if found is None:
            raise CalcError(f"the step has no group {name!r:.40}: it has {', '.join(g.name for g in self.groups)}")
        return found

    @property
    def flop(self) -> float:
        """Arithmetic of all matrix products."""
        return sum(g.flop for g in self.groups)

    @property
    def weight_bytes(self) -> float:
        """Weights read."""
        return sum(g.weight_bytes for g in self.groups)

    @property
    def cache_bytes(self) -> float:
        """Cache read."""
        return sum(g.cache_bytes for g in self.groups)

    @property
    def written_bytes(self) -> float:
        """Cache written."""
        return sum(g.written_bytes for g in self.groups)

    @property
    def activation_bytes(self) -> float:
        """Inputs and outputs of all matrix products, if each went through memory."""
        return sum(g.activation_bytes for g in self.groups)

    @property
    def sent_bytes(self) -> float:
        """Bytes that the rank sends in all all-reduces, by rings."""
        return self.all_reduces * ring_bytes(message_bytes=self.message_bytes, ranks=self.ranks)

    def moved_bytes(self, *, activations: bool = False) -> float:
        """Weights, cache read and cache written; with `activations` those too."""
        return sum(g.moved_bytes(activations=activations) for g in self.groups)

    def intensity(self, *, activations: bool = False) -> float:
        """FLOP for each byte moved."""
        return intensity(flop=self.flop, moved_bytes=self.moved_bytes(activations=activations))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in ("group", "arithmetic", "weights", "cache read", "cache written"))
        body = "".join(
            f"<tr><th>{spoken(g.name)}</th><td>{format_decimal(g.flop, 'FLOP')}</td>"
            + "".join(f"<td>{format_bytes(size)}</td>" for size in (g.weight_bytes, g.cache_bytes, g.written_bytes))
            + "</tr>"
            for g in (*self.groups, self._total())
        )
        return f'<table class="calc-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def _total(self) -> GroupWork:
        return GroupWork(
            name="total",
            flop=self.flop,
            weight_bytes=self.weight_bytes,
            cache_bytes=self.cache_bytes,
            written_bytes=self.written_bytes,
        )


def step_work(
    model: ModelGeometry,
    *,
    sequences: Sequences,
    element: str = "bf16",
    cache_element: str = "bf16",
    activation_element: str = "bf16",
    bytes_per_weight: float | Mapping[str, float] | None = None,
    ranks: int = 1,
    causal: bool = True,
    head: str = "last",
) -> StepWork:
    """Count what one step does on one tensor-parallel rank.

    Parameters
    ----------
    model : ModelGeometry
        From `calc.models.load` or ``ModelGeometry.from_config``.
    sequences : iterable of (int, int), or mapping of (int, int) to int
        New tokens and cached positions of each sequence: (1, 4095) decodes, (2048, 0) is a prompt, (512, 1024) a
        chunk of one. A mapping says how many sequences are alike.
    element : str
        Type of the weights: a key of `calc.kv_cache.ELEMENTS` without scales.
    cache_element : str
        Type of the cache: a key of `calc.kv_cache.ELEMENTS`.
    activation_element : str
        Type of the hidden states: a key of `calc.kv_cache.ELEMENTS` without scales.
    bytes_per_weight : float, mapping of str to float, or None
        Stored bytes for each weight with its share of scales, in place of the element's; a mapping states it for
        groups by their names in `GroupWork`.
    ranks : int
        Tensor-parallel ranks.
    causal : bool
        Whether a new token reads only positions up to its own; False counts the masked half and what lies outside
        of windows too, as counters of matrix products do.
    head : {"last", "every"}
        Whether the output layer sees the last new token of each sequence, as engines do, or every one.

    Returns
    -------
    StepWork

    Raises
    ------
    CalcError
        If there is no sequence or no new token, the heads can't be laid out on the ranks, or a type is unknown.

    Notes
    -----
    Weights are read once for the whole step, whatever its tokens; of routed experts those that the tokens pick on
    average (`experts_touched`), a slice of each on every rank. A window layer reads no more than its window, one that
    attends within chunks its own chunk, sparse attention what its indexer picks for one token, and the indexer all of
    its keys. A recurrent layer reads and writes its state once, and reads none at a sequence's start. Latent attention
    takes whichever order of products needs less arithmetic for a sequence, absorbed or expanded. Keys and
    values of the new tokens count as written once; reading them back within the step is left out, and so are the rows
    of the embedding, norms' and softmax's arithmetic, sampling and the gathering of logits. All of that only adds.

    Examples
    --------
    >>> from calc.models import load
    >>> llama = load("llama-3.1-70b")
    >>> decode = step_work(llama, sequences=[(1, 2047)] * 8)
    >>> decode.flop, decode.cache_bytes == 8 * 2047 * 327680
    (1154977103872, True)
    >>> prefill = step_work(llama, sequences=[(2048, 0)])
    >>> round(decode.intensity()), round(prefill.intensity())
    (8, 2047)
    """
    counts = _counted(sequences)
    if head not in HEADS:
        raise CalcError(f'head is {head!r:.40}, wanted "last" or "every"')
    stored = _widths(bytes_per_weight, _plain_bytes(element, "the weights"))
    states = _plain_bytes(activation_element, "the hidden states")
    held = held_on_rank(model, ranks)
    tokens = sum(new * count for (new, _), count in counts.items())
    seen = tokens if head == "every" else sum(counts.values())
    products = {
        name: GroupWork(
            name=name,
            flop=matmul_flop(step_tokens=seen if name == "head" else tokens, weights=part.weights),
            weight_bytes=part.parameters
            * stored[name]
            * (touched(held.mixtures, tokens) if name == "routed_experts" else 1),
            activation_bytes=(seen if name == "head" else tokens) * part.widths * states,
        )
        for name, part in held.parts.items()
    }
    products["attention"] = _attention(held, cache_element, model.element, counts, causal, states)
    order = (
        *("projections", "attention", "router", "routed_experts", "shared_experts", "mlp", "norms"),
        *("hyper_connections", "head"),
    )
    return StepWork(
        model=model.name,
        ranks=ranks,
        sequences=sum(counts.values()),
        tokens=tokens,
        groups=tuple(products[name] for name in order if name in products),
        all_reduces=held.all_reduces,
        message_bytes=message_bytes(step_tokens=tokens, hidden=model.hidden, element_bytes=states),
    )


def alike(count: int, *, new: int, cached: int) -> dict[tuple[int, int], int]:
    """Equal sequences, as `step_work` takes them."""
    for name, value in (("sequences", count), ("new", new), ("cached", cached)):
        if getattr(value, "ndim", 0):
            raise CalcError(f"{name} is an array, wanted one number: a step has one shape, so call once for each")
    return {(new, cached): count}


def _counted(sequences: Sequences) -> Counter:
    """How many sequences there are of each kind, checked."""
    counts = Counter(dict(sequences)) if isinstance(sequences, Mapping) else Counter(map(tuple, sequences))
    checked = Counter()
    for pair, count in counts.items():
        if len(pair) != 2:
            raise CalcError("each of the sequences is a pair: its new tokens and its cached positions")
        new = plain("step_work", "new tokens of a sequence", pair[0], "count>0")
        cached = plain("step_work", "cached positions of a sequence", pair[1], "count")
        checked[int(new), int(cached)] += plain("step_work", "number of sequences", count, "count")
    if not sum(checked.values()):
        raise CalcError("a step has at least one sequence: give its new tokens and its cached positions")
    return +checked


def _widths(stated: float | Mapping[str, float] | None, size: float) -> Mapping[str, float]:
    """Stored bytes of a weight for each tensor group; the element's own where nothing is stated."""
    if isinstance(stated, Mapping):
        for width in stated.values():
            plain("step_work", "bytes_per_weight", width, ">0")
        return defaultdict(lambda: size, stated)
    width = plain("step_work", "bytes_per_weight", size if stated is None else stated, ">0")
    return defaultdict(lambda: width)


def _plain_bytes(element: str, what: str) -> float:
    found = kv_cache.element_of(element)
    if found.scale_bytes:
        raise CalcError(f"{element} carries scales for each head, which {what} don't have: use bf16, fp8 or int8")
    return found.element_bytes


@functools.lru_cache(maxsize=256)
def _position_bytes(mixer: object, element: str) -> float:
    """Cache bytes that one position leaves in one layer; a scale's share of one element may not be exact."""
    formula, arguments = kv_cache.formula_of(mixer, layers=1, element=element)
    return round(formula(**arguments), 6)


def _attention(held: Held, element: str, own: str | None, counts: Counter, causal: bool, states: float) -> GroupWork:
    """Scores and values of all layers of a rank, and the work of recurrent ones on their states."""
    flop = read = written = moved = 0
    for mixer, layers in held.mixers:
        if isinstance(mixer, RecurrentState):
            size = kv_cache.state_bytes(mixer, element=own)
            for (new, cached), count in counts.items():
                formula, arguments = recurrent_of(mixer, new=new)
                flop += count * layers * formula(**arguments)
                read += count * layers * size * (cached > 0)
                written += count * layers * size
            continue
        if isinstance(mixer, LatentWindowAttention):
            for (new, cached), count in counts.items():
                step = compressed_work(mixer, element=element, new=new, cached=cached, causal=causal)
                flop += count * layers * step.flop
                read += count * layers * step.cache_bytes
                written += count * layers * step.written_bytes
                moved += count * layers * new * query_and_output(mixer) * states
            continue
        size, index = _position_bytes(mixer, element), kv_cache.index_bytes(mixer)
        for (new, cached), count in counts.items():
            pairs = pairs_of(mixer, new=new, cached=cached) if causal else new * (cached + new)
            kept, added = positions_kept(mixer, new=new, cached=cached)
            formula, arguments = attention_of(mixer, cached=kept, pairs=pairs)
            flop += count * layers * formula(**arguments)
            if isinstance(mixer, LatentAttention) and formula is decode_flop:
                flop += count * layers * kept * expansion_of(mixer)
            if index:
                formula, arguments = index_of(mixer, new=new, cached=cached)
                flop += count * layers * formula(**arguments)
            read += count * layers * (kept * size + cached * index)
            written += count * layers * (added * size + new * index)
            moved += count * layers * new * query_and_output(mixer) * states
    return GroupWork(name="attention", flop=flop, cache_bytes=read, written_bytes=written, activation_bytes=moved)
