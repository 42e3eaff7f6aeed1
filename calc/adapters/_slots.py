"""What an engine reserves for adapters: slots on the GPU at the highest rank, adapters kept in host memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from calc.adapters._adapter import ELEMENTS, Adapter, adapter
from calc.adapters._formulas import reserved_bytes
from calc.adapters._sites import EMBEDDINGS, target_group
from calc.models import ModelGeometry
from calc.sources import load_json
from calc.units import CalcError, format_bytes, format_count


def slot_ranks() -> tuple[int, ...]:
    """The slot ranks that vLLM can be started with.

    Examples
    --------
    >>> slot_ranks()
    (1, 8, 16, 32, 64, 128, 256, 320, 512)
    """
    return tuple(load_json("adapter_slots.json")["vllm"]["ranks"])


def slot_rank(highest: int) -> int:
    """The smallest slot rank that admits an adapter of rank `highest` in vLLM.

    Raises
    ------
    CalcError
        If no slot is that wide.

    Examples
    --------
    >>> slot_rank(16), slot_rank(24)
    (16, 32)
    """
    admitted = [rank for rank in slot_ranks() if rank >= highest]
    if not admitted:
        raise CalcError(f"no slot is as wide as rank {highest}: the widest is {slot_ranks()[-1]}; merge that adapter")
    return admitted[0]


def buffered(model: ModelGeometry) -> tuple[str, ...]:
    """The modules that have slot buffers in vLLM unless it is told otherwise, routed experts left out.

    Examples
    --------
    >>> from calc.models import load
    >>> "lm_head" in buffered(load("llama-3.1-8b")), "lm_head" in buffered(load("qwen2.5-7b"))
    (True, False)
    """
    families = load_json("adapter_slots.json")["vllm"]["embedding_buffers"]
    return (*target_group(model, "all-linear"), *(EMBEDDINGS if model.architecture in families else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one engine sets aside for adapters. Make it with `reserve`.

    Attributes
    ----------
    slot : Adapter
        An adapter that fills a slot: the highest rank, and every module that has buffers.
    slots : int
        Slots on each GPU: the most different adapters in one batch.
    ranks : int
        Tensor-parallel ranks.
    fully_sharded : bool
        Whether both matrices of a pair are divided among the ranks.
    """

    slot: Adapter
    slots: int
    ranks: int
    fully_sharded: bool

    @property
    def slot_parameters(self) -> int:
        """Parameters that one slot has room for on one GPU."""
        stacked = sum(
            site.copies * self.slot.rank * site.held(ranks=self.ranks, fully_sharded=self.fully_sharded)[0]
            for site in self.slot.sites
            if site.name == "experts.gate_up_proj"
        )  # engines keep an A for gate and one for up
        return self.slot.on_rank(ranks=self.ranks, fully_sharded=self.fully_sharded) + stacked

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot on one GPU."""
        return self._reserved(1)

    @property
    def bytes_per_gpu(self) -> int:
        """Bytes of all slots on one GPU."""
        return self._reserved(self.slots)

    @property
    def copied_bytes(self) -> int:
        """Bytes on one GPU that dividing both halves of every pair would save."""
        return self.bytes_per_gpu - replace(self, fully_sharded=True).bytes_per_gpu

    def _reserved(self, slots: int) -> int:
        size = ELEMENTS[self.slot.element]
        return reserved_bytes(slots=slots, slot_parameters=self.slot_parameters, element_bytes=size)

    def admits(self, one: Adapter) -> bool:
        """Whether an adapter fits a slot: its rank is no higher and every module it adapts has a buffer."""
        return one.rank <= self.slot.rank and set(one.targets) <= set(self.slot.targets)

    def _repr_html_(self) -> str:
        rows = (
            ("slots on each GPU", format_count(self.slots)),
            ("rank of a slot", format_count(self.slot.rank)),
            ("modules with buffers", ", ".join(self.slot.targets)),
            ("one slot, one GPU", format_bytes(self.slot_bytes)),
            ("all slots, one GPU", format_bytes(self.bytes_per_gpu)),
        )
        body = "".join(f"<tr><th>{label}</th><td>{text}</td></tr>" for label, text in rows)
        return f'<table class="calc-table"><tbody>{body}</tbody></table>'


def reserve(
    model: ModelGeometry,
    *,
    slots: int,
    rank: int,
    ranks: int = 1,
    fully_sharded: bool = False,
    element: str = "bf16",
    targets: Iterable[str] | None = None,
) -> Reservation:
    """Say what an engine reserves for adapters when it starts.

    Parameters
    ----------
    model : ModelGeometry
        The base model.
    slots : int
        Slots on each GPU: ``max_loras`` in vLLM (1 unless set), ``max_loras_per_batch`` in SGLang (8).
    rank : int
        Highest rank admitted: ``max_lora_rank`` in vLLM (16 unless set).
    ranks : int
        Tensor-parallel ranks.
    fully_sharded : bool
        vLLM's ``fully_sharded_loras``.
    element : str
        Type of the slots' elements; engines take the model's own unless told otherwise.
    targets : iterable of str or None
        Modules with buffers. None is what vLLM has unless told otherwise: every projection, and in some
        families the embedding and the head (`buffered`). SGLang takes the union of what its adapters target.

    Returns
    -------
    Reservation

    Raises
    ------
    CalcError
        If a number is not a positive whole number, a module is unknown, or a width doesn't divide.

    Notes
    -----
    Buffers of vLLM 0.32.0, checked against its own tensors. They are filled with zeros and reserved whether
    or not an adapter is ever loaded. Routed experts and routers have buffers there too unless its
    ``target_modules`` leaves them out; they are not in None. Index tensors and the kernels' workspace are
    not counted.

    Examples
    --------
    >>> from calc.models import load
    >>> from calc.units import format_bytes
    >>> format_bytes(reserve(load("llama-3.1-70b"), slots=8, rank=64, ranks=8).bytes_per_gpu)
    '5.631 GiB'
    """
    for name, value in (("slots", slots), ("ranks", ranks)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise CalcError(f"{name} is {value!r:.40}, wanted a whole number of at least 1")
    names = buffered(model) if targets is None else targets
    slot = adapter(model, rank=rank, targets=names, element=element)
    made = Reservation(slot=slot, slots=slots, ranks=ranks, fully_sharded=fully_sharded)
    _ = made.slot_parameters  # refuses widths that don't divide
    return made
