"""How a scheme stores a matrix, and how a model's matrices add up."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from calc import parameters
from calc.adapters import EMBEDDINGS, Site, sites, tensor_group
from calc.models import ModelGeometry
from calc.quantization._formulas import effective_bits, matrix_bytes
from calc.sources import load_json
from calc.units import CalcError, format_bytes, format_count, significant

KEPT_BYTES = 2  # of a parameter that stays bf16 or fp16
FP32_BYTES = {"hyper_connections": 4}  # as DeepSeek V4's files hold them


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How the weights of one matrix are stored, and in which type they are multiplied.

    Attributes
    ----------
    name : str
        For display.
    element : str
        "int4", "int8", "fp8", "fp4" or "bf16".
    bits : float
        Bits of a weight itself.
    block : tuple of (int or None)
        Rows and columns that share a scale; None for the whole side.
    scale_bits, zero_bits : float
        Bits of a block's scale and zero point.
    tensor_bytes : float
        Bytes stored once for every matrix: global scales, the shape.
    column_bits : float
        Bits stored for every input column: the order in which GPTQ went through them.
    multiplies : str
        Type in which matrices are multiplied where the chip has it: "bf16" for weight-only schemes.
    experts : Scheme or None
        How routed experts are stored where that differs.
    source, url : str
    """

    name: str
    element: str
    bits: float
    block: tuple[int | None, int | None] = (1, None)
    scale_bits: float = 0
    zero_bits: float = 0
    tensor_bytes: float = 0
    column_bits: float = 0
    multiplies: str = "bf16"
    experts: Scheme | None = None
    source: str = ""
    url: str = ""

    @property
    def weights_only(self) -> bool:
        """Whether activations stay in 16 bits."""
        return self.multiplies == "bf16"

    @property
    def bits_per_weight(self) -> float:
        """Stored bits per weight of a large matrix; a channel's and a tensor's scales come to next to nothing."""
        rows, columns = self.block
        if rows is None or columns is None:
            return self.bits
        extra = {"scale_bits": self.scale_bits, "zero_bits": self.zero_bits}
        return effective_bits(element_bits=self.bits, group=rows * columns, **extra)

    def of(self, matrix: Matrix) -> Scheme:
        """The scheme that stores one matrix."""
        return self.experts if self.experts is not None and matrix.group == "routed_experts" else self

    def stored_bytes(self, output_dim: int, input_dim: int) -> float:
        """Bytes of one matrix, with everything that the format stores beside it."""
        rows, columns = self.block
        size = matrix_bytes(
            output_dim=output_dim,
            input_dim=input_dim,
            block_out=rows or output_dim,
            block_in=columns or input_dim,
            element_bits=self.bits,
            scale_bits=self.scale_bits,
            zero_bits=self.zero_bits,
        )
        return size + input_dim * self.column_bits / 8 + self.tensor_bytes


def schemes() -> tuple[str, ...]:
    """Names of the schemes in the catalogue.

    Examples
    --------
    >>> "mxfp4" in schemes()
    True
    """
    return tuple(load_json("quantization.json")["schemes"])


@cache
def scheme(name: str) -> Scheme:
    """A scheme of the catalogue.

    Parameters
    ----------
    name : str
        One of `schemes`.

    Returns
    -------
    Scheme

    Raises
    ------
    CalcError
        If there is no such scheme; the message names the closest.

    Examples
    --------
    >>> scheme("awq-int4-g128").bits_per_weight
    4.15625
    """
    table = load_json("quantization.json")
    if name not in table["schemes"]:
        close = difflib.get_close_matches(str(name)[:40], schemes(), n=3) or schemes()
        raise CalcError(f"no scheme {name!r:.40}: use {', '.join(close)}")
    entry = dict(table["schemes"][name])
    origin = table["sources"][entry.pop("source")]
    return Scheme(**entry | {"block": tuple(entry["block"])}, **origin)


# --- a model -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor group of a stored model: its parameters, its bytes, and how many parameters are quantized."""

    group: str
    parameters: int
    quantized: int
    stored_bytes: float


@dataclass(frozen=True, slots=True)
class Stored:
    """A model as it is stored.

    Attributes
    ----------
    model, scheme : str
        Names, for display.
    parts : tuple of Part
        In the order of `calc.parameters.ParameterCount`.
    """

    model: str
    scheme: str
    parts: tuple[Part, ...]

    @property
    def total_bytes(self) -> float:
        """Bytes of all tensors."""
        return sum(part.stored_bytes for part in self.parts)

    @property
    def parameters(self) -> int:
        """Parameters of all tensors."""
        return sum(part.parameters for part in self.parts)

    @property
    def quantized(self) -> int:
        """Parameters that are quantized."""
        return sum(part.quantized for part in self.parts)

    @property
    def bits_per_weight(self) -> float:
        """Bits per parameter of the whole model, what stays in 16 bits included."""
        return 8 * self.total_bytes / self.parameters

    def part(self, group: str) -> Part:
        """One group's part.

        Raises
        ------
        CalcError
            If the model has no such group.
        """
        for part in self.parts:
            if part.group == group:
                return part
        raise CalcError(f"{self.model} has no group {group!r:.40}: it has {', '.join(p.group for p in self.parts)}")

    def _repr_html_(self) -> str:
        head = "<tr><th>group</th><th>parameters</th><th>quantized</th><th>bits each</th><th>stored</th></tr>"
        cells = (
            (
                part.group.replace("_", " "),
                format_count(part.parameters),
                "no" if not part.quantized else "yes" if part.quantized == part.parameters else "its matrices",
                significant(8 * part.stored_bytes / part.parameters, 5),
                format_bytes(part.stored_bytes),
            )
            for part in self.parts
        )
        last = ("all", format_count(self.parameters), "", significant(self.bits_per_weight, 5))
        rows = [*cells, (*last, format_bytes(self.total_bytes))]
        body = "".join(f"<tr><th>{n}</th>{''.join(f'<td>{c}</td>' for c in rest)}</tr>" for n, *rest in rows)
        return f'<table class="calc-table"><thead>{head}</thead><tbody>{body}</tbody></table>'


HEAD_AND_EMBEDDING = tuple(EMBEDDINGS)


def matches(pattern: str, path: str) -> bool:
    """Whether a module pattern of a quantization file covers the matrix at a path.

    A pattern is a name or a path, complete or not, one with ``*``, or an expression after ``re:``.

    Examples
    --------
    >>> path = "model.layers.0.self_attn.q_proj"
    >>> [matches(p, path) for p in ("q_proj", "self_attn", "proj", "model.layers.*.self_attn", "re:.*attn")]
    [True, True, False, True, True]
    """
    if pattern.startswith("re:"):
        return re.match(pattern[3:], path) is not None
    if "*" in pattern:
        return fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}.*")
    return f".{pattern}." in f".{path}."


def stored(model: ModelGeometry, how: Scheme | str, *, keeps: Iterable[str] = HEAD_AND_EMBEDDING) -> Stored:
    """The bytes of a model, group by group, when its matrices are stored by a scheme.

    Parameters
    ----------
    model : ModelGeometry
    how : Scheme or str
        A scheme, or its name.
    keeps : iterable of str
        Patterns of the matrices that stay in 16 bits: see `matches`. By default the embedding and the output
        layer.

    Returns
    -------
    Stored

    Raises
    ------
    CalcError
        If there is no such scheme, or the library doesn't know the model's matrices.

    Notes
    -----
    Norms, biases, sinks and routers always stay in 16 bits, hyper-connections in 32. Some files hold more: a zero bias
    for every matrix, layers for multi-token prediction, tables, a few scales for the cache. The header is not counted.

    Examples
    --------
    >>> from calc.models import load
    >>> stored(load("llama-3.1-8b"), "fp8-tensor").total_bytes
    9081202432.0
    >>> round(stored(load("llama-3.1-70b"), "gptq-int4-g128").bits_per_weight, 2)
    4.51
    """
    return _stored(model, scheme(how) if isinstance(how, str) else how, tuple(keeps))


@lru_cache(maxsize=256)
def _stored(model: ModelGeometry, rule: Scheme, patterns: tuple[str, ...]) -> Stored:
    def size(matrix: Matrix) -> Callable[[int, int], float] | None:
        return None if any(matches(p, matrix.path) for p in patterns) else rule.of(matrix).stored_bytes

    return stored_by(model, rule.name, size)


def kept_bytes(group: str) -> int:
    """Bytes of a parameter outside the matrices of a quantized checkpoint."""
    return FP32_BYTES.get(group, KEPT_BYTES)


def stored_by(model: ModelGeometry, name: str, rule: Callable[[Matrix], Callable[[int, int], float] | None]) -> Stored:
    """Add a model up matrix by matrix: `rule` gives each one's size function, or None where it stays."""
    counts = parameters.count(model).groups
    held = dict.fromkeys(counts, 0.0)
    inside, quantized = dict.fromkeys(counts, 0), dict.fromkeys(counts, 0)
    for matrix in matrices(model):
        size = rule(matrix)
        inside[matrix.group] += matrix.parameters
        if size is None:
            held[matrix.group] += KEPT_BYTES * matrix.parameters
        else:
            quantized[matrix.group] += matrix.parameters
            held[matrix.group] += matrix.copies * size(matrix.output_dim, matrix.input_dim)
    parts = (
        Part(group, total, quantized[group], held[group] + kept_bytes(group) * (total - inside[group]))
        for group, total in counts.items()
    )
    return Stored(model.name, name, tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One matrix of a checkpoint, or as many equal ones as there are experts."""

    path: str
    group: str
    output_dim: int
    input_dim: int
    copies: int

    @property
    def parameters(self) -> int:
        """Parameters of all copies."""
        return self.copies * self.output_dim * self.input_dim


@cache
def matrices(model: ModelGeometry) -> tuple[Matrix, ...]:
    """The matrices of a model that could be quantized, as published checkpoints hold them; routers are not.

    Nor is the indexer's weight for each head, which DeepSeek's own checkpoint keeps in 16 bits.
    """
    found: list[Matrix] = []
    for site in sites(model):
        if (site.name == EMBEDDINGS[1] and model.tied_embeddings) or site.name == "weights_proj":
            continue
        halves = _halves(model, site)
        for half in halves:
            found.append(
                Matrix(
                    path=site.path if len(halves) == 1 else site.path.replace("gate_up", half),
                    group=tensor_group(site),
                    output_dim=site.input_dim if site.name == EMBEDDINGS[0] else site.output_dim // len(halves),
                    input_dim=site.output_dim if site.name == EMBEDDINGS[0] else site.input_dim,
                    copies=site.copies,
                )
            )
    return tuple(found)


def _halves(model: ModelGeometry, site: Site) -> tuple[str, ...]:
    """A mixture's gate and up projections are two tensors in every published file but gpt-oss's; so are all of M3's."""
    fused = site.name == "experts.gate_up_proj" and model.architecture != "gpt_oss"
    fused |= site.name == "gate_up_proj" and model.architecture.startswith("minimax_m3")
    return ("gate", "up") if fused else ("",)
