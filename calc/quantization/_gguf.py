"""GGUF files: tensor types of their own, and which tensor gets which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from calc import parameters
from calc.models import ModelGeometry
from calc.quantization._schemes import Matrix, Stored, stored_by
from calc.sources import load_json
from calc.units import CalcError


def gguf_types() -> Mapping[str, tuple[int, int]]:
    """Weights in a block and bytes of a block, for each tensor type of GGUF.

    Examples
    --------
    >>> gguf_types()["Q4_K"]
    (256, 144)
    """
    return {name: tuple(size) for name, size in load_json("quantization.json")["gguf"]["types"].items()}


def gguf_bits(name: str) -> float:
    """Stored bits per weight of one GGUF tensor type.

    Parameters
    ----------
    name : str
        For example "Q8_0".

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If there is no such type.

    Examples
    --------
    >>> gguf_bits("Q8_0"), gguf_bits("Q4_0"), gguf_bits("Q6_K")
    (8.5, 4.5, 6.5625)
    """
    types = gguf_types()
    if name not in types:
        raise CalcError(f"no GGUF tensor type {name!r:.40}: there is {', '.join(types)}")
    weights, size = types[name]
    return 8 * size / weights


def gguf_mixes() -> tuple[str, ...]:
    """File types that `gguf` knows: which tensor type goes where.

    Examples
    --------
    >>> "Q4_K_M" in gguf_mixes()
    True
    """
    return tuple(load_json("quantization.json")["gguf"]["mixes"])


_GGUF_FAMILIES = ("llama", "mistral")  # both are one architecture in llama.cpp
_GGUF_TENSORS = {"v_proj": "attn_v", "o_proj": "attn_output", "down_proj": "ffn_down"}
_LARGE_LAYERS = 80  # from which llama.cpp calls a Llama "70B" and gives attn_v more bits


def gguf(model: ModelGeometry, mix: str) -> Stored:
    """The bytes of a model's tensors in a GGUF file, tensor type by tensor type.

    Parameters
    ----------
    model : ModelGeometry
        A dense Llama or Mistral.
    mix : str
        One of `gguf_mixes`, for example "Q4_K_M".

    Returns
    -------
    Stored

    Raises
    ------
    CalcError
        If the mix is unknown, or the model is of a family for which llama.cpp's rules aren't kept here.

    Notes
    -----
    As llama.cpp quantizes without an importance matrix. Norms are stored in fp32. The header and the
    vocabulary, some 8 MB for Llama 3, are not counted; nor are the 64 rotary factors of Llama 3.1.

    Examples
    --------
    >>> from calc.models import load
    >>> round(gguf(load("llama-3.1-8b"), "Q4_K_M").bits_per_weight, 4)
    4.8944
    """
    table = load_json("quantization.json")["gguf"]
    if mix not in table["mixes"]:
        raise CalcError(f"no GGUF file type {mix!r:.40}: there is {', '.join(table['mixes'])}")
    rules = table["mixes"][mix]
    if model.architecture not in _GGUF_FAMILIES or "mlp" not in parameters.count(model).groups:
        raise CalcError(
            f"{model.name} is a {model.architecture} model: which tensor gets which GGUF type is known here for "
            f"{' and '.join(_GGUF_FAMILIES)} models"
        )

    def rule(matrix: Matrix) -> Callable[[int, int], float]:
        wanted = _gguf_type(model, matrix, rules)
        kind = _fitting(wanted, matrix.input_dim, table)
        return lambda rows, columns: rows * columns * gguf_bits(kind) / 8

    parts = stored_by(model, mix, rule).parts
    in_fp32 = (replace(p, stored_bytes=2 * p.stored_bytes) if p.group == "norms" else p for p in parts)
    return Stored(model.name, mix, tuple(in_fp32))


def _gguf_type(model: ModelGeometry, matrix: Matrix, rules: Mapping[str, Any]) -> str:
    base = rules["type"]
    quantized = base not in ("F16", "Q8_0")
    if matrix.group == "lm_head" or (matrix.group == "embedding" and model.tied_embeddings):
        return "Q6_K" if quantized else base
    if matrix.group == "embedding":
        return base
    layer, name = int(matrix.path.split(".")[2]), matrix.path.rpartition(".")[2]
    tensor, layers = _GGUF_TENSORS.get(name, ""), len(model.layers)
    chosen = next((kind for where, kind in rules.get(tensor, ()) if _covers(where, layer, layers)), base)
    large = layers == _LARGE_LAYERS and model.architecture == "llama"
    return "Q5_K" if large and tensor == "attn_v" and chosen in ("Q3_K", "Q4_K") else chosen


def _covers(where: str, layer: int, layers: int) -> bool:
    """Whether a rule holds in a layer: "all", "first 4", "first 1/8" of them, or the "more" important ones."""
    if where == "more":
        eighth = layers // 8
        return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    if where == "all":
        return True
    _, _, share = where.partition("/")
    return layer < (layers // int(share) if share else int(where.split()[1]))


def _fitting(kind: str, columns: int, table: Mapping[str, Any]) -> str:
    """The type itself, or the one that llama.cpp falls back to where a row is no multiple of its block."""
    while columns % table["types"][kind][0]:
        kind = table["fallback"].get(kind, "F16")
    return kind
