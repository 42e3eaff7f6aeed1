"""An adapter by its settings: parameters, stored bytes, the file it makes, its share on one GPU."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from calc.adapters._formulas import file_bytes, pair_parameters, stored_bytes
from calc.adapters._sites import EMBEDDINGS, Site, target_group, targeted
from calc.models import ModelGeometry
from calc.units import CalcError, format_bytes, format_count

ELEMENTS = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}  # bytes of one element
DTYPES = {"fp32": "F32", "bf16": "BF16", "fp16": "F16", "fp8": "F8_E4M3"}  # as a safetensors header names them


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A low-rank adapter of one model. Make it with `adapter`, which checks it.

    Attributes
    ----------
    model : ModelGeometry
    rank : int
    targets : tuple of str
        Names of the adapted modules.
    element : str
        Type of the pairs' elements, a key of `ELEMENTS`.
    saved : tuple of str
        Embeddings and heads stored whole: "embed_tokens", "lm_head" (PEFT's ``modules_to_save``).
    saved_element : str
        Type of their elements.
    """

    model: ModelGeometry
    rank: int
    targets: tuple[str, ...]
    element: str = "bf16"
    saved: tuple[str, ...] = ()
    saved_element: str = "bf16"

    @property
    def sites(self) -> tuple[Site, ...]:
        """The matrices it adapts."""
        return targeted(self.model, self.targets)

    @property
    def low_rank_parameters(self) -> int:
        """Parameters of all pairs: what is trained besides the saved matrices."""
        return sum(times * self._parameters(site) for site, times in _alike(self.model, self.targets))

    @property
    def whole_matrices(self) -> tuple[str, ...]:
        """Embeddings and heads in the file: those saved, and those that carry a pair.

        PEFT stores the base matrix of an adapted embedding or head beside its pair
        (``save_embedding_layers="auto"``).
        """
        return tuple(name for name in EMBEDDINGS if name in self.saved or name in self.targets)

    @property
    def saved_parameters(self) -> int:
        """Parameters stored whole."""
        return len(self.whole_matrices) * self.model.vocab * self.model.hidden

    @property
    def trainable_parameters(self) -> int:
        """What PEFT prints as "trainable params": the pairs, and the matrices in ``modules_to_save``."""
        return self.low_rank_parameters + len(self.saved) * self.model.vocab * self.model.hidden

    @property
    def stored_bytes(self) -> int:
        """Bytes of all its tensors."""
        return stored_bytes(
            low_rank_parameters=self.low_rank_parameters,
            element_bytes=ELEMENTS[self.element],
            saved_parameters=self.saved_parameters,
            saved_element_bytes=ELEMENTS[self.saved_element],
        )

    @property
    def header_bytes(self) -> int:
        """Length of the header that PEFT's file has, its padding included."""
        offset, header = 0, {"__metadata__": {"format": "pt"}}
        for name, shape, element in _sorted(self._tensors()):
            end = offset + shape[0] * shape[1] * ELEMENTS[element]
            header[name] = {"dtype": DTYPES[element], "shape": list(shape), "data_offsets": [offset, end]}
            offset = end
        length = len(json.dumps(header, separators=(",", ":")))
        return length + -length % 8

    @property
    def file_bytes(self) -> int:
        """Size of ``adapter_model.safetensors``."""
        return file_bytes(header_bytes=self.header_bytes, stored_bytes=self.stored_bytes)

    def _tensors(self) -> Iterable[tuple[str, tuple[int, int], str]]:
        """Name, shape and element type of every tensor, as PEFT 0.21 writes them."""
        both_experts = {"experts.gate_up_proj", "experts.down_proj"} <= set(self.targets)
        for site in self.sites:
            inner, rank = f"base_model.model.{site.path}", self.rank * site.copies
            if site.name.startswith("experts."):  # one wrapper around the other
                inner = inner.rpartition(".")[0] + (".base_layer" if both_experts and "gate" in site.name else "")
            if site.name == EMBEDDINGS[0]:
                yield f"{inner}.lora_embedding_A", (rank, site.input_dim), self.element
                yield f"{inner}.lora_embedding_B", (site.output_dim, rank), self.element
            else:
                yield f"{inner}.lora_A.weight", (rank, site.input_dim), self.element
                yield f"{inner}.lora_B.weight", (site.output_dim, rank), self.element
        for name in self.whole_matrices:
            path = f"model.{name}" if name == EMBEDDINGS[0] else name
            part = "base_layer.weight" if name in self.targets else "weight"
            yield f"base_model.model.{path}.{part}", (self.model.vocab, self.model.hidden), self.saved_element

    def on_rank(self, *, ranks: int, fully_sharded: bool = False) -> int:
        """Pair parameters that one tensor-parallel rank holds.

        Parameters
        ----------
        ranks : int
            Tensor-parallel ranks.
        fully_sharded : bool
            False: A follows a matrix split by inputs and B one split by outputs, and the other of each pair
            is copied to every rank, vLLM's default. True: both are divided, as S-LoRA does.

        Returns
        -------
        int

        Raises
        ------
        CalcError
            If a width or the rank doesn't divide among the ranks.

        Notes
        -----
        A pair on the embedding or the head is copied whole. KV heads are copied once ranks outnumber them.

        Examples
        --------
        >>> from calc.models import load
        >>> one = adapter(load("llama-3.1-70b"), rank=16)
        >>> one.low_rank_parameters // 8, one.on_rank(ranks=8), one.on_rank(ranks=8, fully_sharded=True)
        (25886720, 90112000, 25886720)
        """
        _check_ranks(ranks)
        if fully_sharded and self.rank % ranks:
            raise CalcError(f"a rank of {self.rank} doesn't divide among {ranks} ranks: use a multiple of {ranks}")
        total = 0
        for site, times in _alike(self.model, self.targets):
            total += times * self._parameters(site, site.held(ranks=ranks, fully_sharded=fully_sharded))
        return total

    def _parameters(self, site: Site, held: tuple[int, int] | None = None) -> int:
        """Parameters of a site's pairs, whole or as far as their widths are held somewhere."""
        width, height = held or (site.input_dim, site.output_dim)
        return site.copies * pair_parameters(rank=self.rank, input_dim=width, output_dim=height)

    def _repr_html_(self) -> str:
        kinds = _alike(self.model, self.targets)
        head = "<tr><th>module</th><th>input</th><th>output</th><th>parameters of its pairs</th></tr>"
        rows = [
            (site.name, *map(format_count, (site.input_dim, site.output_dim, times * self._parameters(site))))
            for site, times in kinds
        ]
        rows += [
            (f"{name}, whole", "", "", format_count(self.model.vocab * self.model.hidden))
            for name in self.whole_matrices
        ]
        body = "".join(f"<tr><th>{n}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>" for n, *cells in rows)
        what = f"{self.model.name}, rank {self.rank}, {self.element}: {format_bytes(self.stored_bytes)}"
        return f'<table class="calc-table"><caption>{what}</caption><thead>{head}</thead><tbody>{body}</tbody></table>'


@lru_cache(maxsize=128)
def _alike(model: ModelGeometry, targets: tuple[str, ...]) -> tuple[tuple[Site, int], ...]:
    """The adapted matrices that are equal, with how many there are: a model has hundreds, of a few shapes."""
    return tuple(Counter(targeted(model, targets)).items())


def adapter(
    model: ModelGeometry,
    *,
    rank: int,
    targets: str | Iterable[str] = "all-linear",
    element: str = "bf16",
    saved: Iterable[str] = (),
    saved_element: str = "bf16",
) -> Adapter:
    """Describe an adapter by its training settings.

    Parameters
    ----------
    model : ModelGeometry
        The base model.
    rank : int
        Width between A and B, at least 1.
    targets : str or iterable of str
        Names of the adapted modules, or a group of `target_group`: "all-linear" or "attention".
    element : str
        Type the pairs are stored in.
    saved : iterable of str
        Embeddings and heads stored whole: "embed_tokens", "lm_head".
    saved_element : str
        Type those are stored in.

    Returns
    -------
    Adapter

    Raises
    ------
    CalcError
        If the rank is no positive whole number, a name or an element type is unknown.

    Notes
    -----
    Plain LoRA: one rank for all modules, no bias, no magnitude vector. Counts and file sizes are those of
    PEFT 0.21.2 with transformers 5.24.0. In some mixtures of experts that release reads gate_proj, up_proj
    and down_proj as the routed experts'; here they are the dense and the shared network's, and routed
    experts have names of their own (experts.gate_up_proj, experts.down_proj).

    Examples
    --------
    >>> from calc.models import load
    >>> one = adapter(load("llama-3.1-70b"), rank=16)
    >>> one.low_rank_parameters, one.stored_bytes, one.file_bytes - one.stored_bytes
    (207093760, 414187520, 152344)
    >>> adapter(load("llama-3.1-70b"), rank=16, targets=["query"])
    Traceback (most recent call last):
        ...
    calc.units.CalcError: Llama-3.1-70B has no module 'query': it has embed_tokens, q_proj, k_proj, v_proj, o_proj,
    gate_proj, up_proj, down_proj, lm_head
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise CalcError(f"rank is {rank!r:.40}, wanted a whole number of at least 1")
    names = target_group(model, targets) if isinstance(targets, str) else tuple(targets)
    if not names:
        raise CalcError("no target modules: name at least one, or write all-linear or attention")
    picked = tuple(dict.fromkeys(site.name for site in targeted(model, names)))  # in the model's order
    for stated in (element, saved_element):
        if stated not in ELEMENTS:
            raise CalcError(f"no element type {stated!r:.40} for adapters: use {', '.join(ELEMENTS)}")
    kept = tuple(saved)
    for name in kept:
        if name not in EMBEDDINGS or kept.count(name) > 1:
            raise CalcError(f"cannot save {name!r:.40} whole: each of {' and '.join(EMBEDDINGS)} may be named once")
        if name in picked:
            raise CalcError(f"{name} is both adapted and saved whole: choose one")
    return Adapter(model=model, rank=rank, targets=picked, element=element, saved=kept, saved_element=saved_element)


def _sorted(tensors: Iterable[tuple[str, tuple[int, int], str]]) -> list[tuple[str, tuple[int, int], str]]:
    """Wide elements first, then by name, as the format's writer lays them out."""
    return sorted(tensors, key=lambda tensor: (-ELEMENTS[tensor[2]], tensor[0]))


def _check_ranks(ranks: int) -> None:
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise CalcError(f"ranks is {ranks!r:.40}, wanted a whole number of at least 1")
