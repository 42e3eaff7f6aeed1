"""Read how a checkpoint is quantized from its own files; what isn't known is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from calc.adapters import EMBEDDINGS
from calc.models import ModelGeometry
from calc.models.fields import Fields, mapping, read_file, shown
from calc.quantization._config_fields import (
    REMEDY,
    UnsupportedQuantization,
    choice,
    group_of,
    patterns,
    refuse,
    size_of,
)
from calc.quantization._schemes import Scheme, Stored, scheme, stored

_NO_EXPERT = r"re:(?!.*\.experts\.)"  # whatever is no routed expert
# Methods whose way with experts and routers isn't the one of other matrices, and what a file with experts states
_DENSE_ONLY = ("bitsandbytes", "fbgemm_fp8")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How one checkpoint is quantized.

    Attributes
    ----------
    method : str
        As the file names it: "gptq", "awq", "bitsandbytes", "fp8", "fbgemm_fp8", "mxfp4", "compressed-tensors" or
        "modelopt".
    scheme : Scheme
        How its quantized matrices are stored.
    kept : tuple of str
        Patterns of the matrices that stay in 16 bits: those that the file lists, and those that its method keeps.
    cache : str or None
        Element type that the file asks of the cache; None where it asks nothing.
    """

    method: str
    scheme: Scheme
    kept: tuple[str, ...]
    cache: str | None = None

    def stored(self, model: ModelGeometry) -> Stored:
        """The bytes of a model that is quantized this way."""
        return stored(model, self.scheme, keeps=self.kept)


def read_quantization(config: str | PathLike[str] | dict[str, Any]) -> Quantization | None:
    """Read a checkpoint's quantization from its ``config.json`` or ``hf_quant_config.json``.

    Parameters
    ----------
    config : path or dict
        The file (at most 5 MB), or its parsed content.

    Returns
    -------
    Quantization or None
        None where the file says nothing of quantization.

    Raises
    ------
    UnsupportedQuantization
        If the method, its format or one of its features isn't known here; the message names it.
    ConfigError
        If a field is missing, or has the wrong type or range.

    Notes
    -----
    Mixed schemes, rotations, sparsity and codebooks are refused: their bytes follow other rules.

    Examples
    --------
    >>> found = read_quantization({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128,
    ...     "zero_point": True, "version": "gemm"}})
    >>> found.method, found.scheme.bits_per_weight
    ('awq', 4.15625)
    >>> read_quantization({"quantization_config": {"quant_method": "hqq"}})
    Traceback (most recent call last):
        ...
    calc.quantization._config_fields.UnsupportedQuantization: quantization method 'hqq' is not known here; known are
    awq, bitsandbytes, compressed-tensors, fbgemm_fp8, fp8, gptq, modelopt, mxfp4. If you know how it stores a matrix,
    give calc.quantization.stored the model and a Scheme of your own
    """
    data = mapping(config if isinstance(config, dict) else read_file(config), "the configuration")
    place = next((place for place in _places(data) if place[0].get(place[1]) is not None), None)
    if place is None:
        return None
    data, name = place
    found = mapping(data[name], name)
    method = "modelopt" if name == "quantization" else found.get("quant_method")
    if not isinstance(method, str) or method not in _METHODS:
        raise UnsupportedQuantization(
            f"quantization method {shown(method)} is not known here; known are {', '.join(sorted(_METHODS))}. {REMEDY}"
        )
    if method in _DENSE_ONLY:
        _refuse_experts(data, method)
    read = _METHODS[method](Fields(found, f"{method} quantization", {}))
    return _with_experts(read, data, found)


def _places(data: dict[str, Any]) -> Iterable[tuple[dict[str, Any], str]]:
    """Where a file may say it, in the order in which vLLM looks; a place that holds nothing is passed over."""
    yield data, "quantization_config"
    if isinstance(data.get("text_config"), dict):
        yield data["text_config"], "quantization_config"
    yield data, "compression_config"  # its name in early files of compressed-tensors
    yield data, "quantization"  # of hf_quant_config.json


def _with_experts(read: Quantization, data: dict[str, Any], found: dict[str, Any]) -> Quantization:
    """Put in how routed experts are stored where a file says that apart, as DeepSeek V4's do.

    As vLLM 0.32.0 reads them (``vllm/models/deepseek_v4/quant_config.py``): with fp4 experts, or without a word on
    them, the other matrices' scales are single bytes; compressors are not quantized.
    """
    stated, algorithm = (found.get(n, data.get(n)) for n in ("expert_dtype", "moe_quant_algo"))
    family = data.get("model_type") == "deepseek_v4"
    if not family and (stated is not None or algorithm is not None):
        name = "expert_dtype" if stated is not None else "moe_quant_algo"
        raise UnsupportedQuantization(
            f"{name} is {shown(stated if stated is not None else algorithm)}: experts stored in another way than the "
            "rest are known for deepseek_v4 alone"
        )
    if not family or read.method != "fp8":
        return read
    f = Fields({"expert_dtype": stated, "moe_quant_algo": algorithm}, "deepseek_v4 quantization", {})
    element = choice(f, "expert_dtype", ("fp4", "fp8"), "fp4")
    algorithm = choice(f, "moe_quant_algo", (None, "NVFP4"))
    read = replace(read, kept=(*read.kept, *_COMPRESSORS))
    if element == "fp8":
        return read
    experts = _nvfp4(scheme("nvfp4").block[1]) if algorithm else _MXFP4
    name = f"{read.scheme.name}; experts {experts.name}"
    return replace(read, scheme=replace(read.scheme, name=name, scale_bits=8, experts=experts))


def _refuse_experts(data: dict[str, Any], method: str) -> None:
    for part in (data, data.get("text_config"), data.get("llm_config")):
        for name in _EXPERTS:
            if isinstance(part, dict) and part.get(name):
                raise UnsupportedQuantization(
                    f"{method} quantization: {name} is {shown(part[name])}: how it stores experts is not known here. "
                    f"{REMEDY}"
                )


def _gptq(f: Fields) -> Quantization:
    refuse(f, "dynamic", "modules_in_block_to_quantize", "meta_awq")
    bits, group = choice(f, "bits", (2, 3, 4, 8)), group_of(f)
    scheme = Scheme(
        name=f"GPTQ int{bits}, {size_of(group)}",
        element=f"int{bits}",
        bits=bits,
        block=(1, group),
        scale_bits=16,
        zero_bits=bits,  # packed and stored, symmetric or not
        column_bits=32,
    )
    kept = EMBEDDINGS[:1] if choice(f, "lm_head", (True, False), False) else EMBEDDINGS
    return Quantization(method="gptq", scheme=scheme, kept=kept)


def _awq(f: Fields) -> Quantization:
    bits, group = (
        choice(f, "bits", (4,), f.value("w_bit")),
        group_of(f, "group_size" if "group_size" in f.data else "q_group_size"),
    )
    choice(f, "zero_point", (True,), True)
    version = choice(f, "version", ("gemm", "GEMM", "gemv", "GEMV"), "gemm").lower()
    if version == "gemv" and group not in _GEMV_GROUPS:
        raise UnsupportedQuantization(
            f"{f.family}: group_size is {shown(group)} in version gemv: known here are "
            f"{', '.join(map(str, _GEMV_GROUPS))}. {REMEDY}"
        )
    scheme = (_Gemv if version == "gemv" else Scheme)(
        name=f"AWQ int{bits}, {size_of(group)}",
        element=f"int{bits}",
        bits=bits,
        block=(1, group),
        scale_bits=16,
        zero_bits=bits,
    )
    return Quantization(method="awq", scheme=scheme, kept=(*EMBEDDINGS, *(patterns(f, "modules_to_not_convert") or ())))


# Rows of AutoAWQ's gemv layout hold scales and zero points of a multiple of so many groups
_GEMV_GROUPS = {32: 32, 64: 16, 128: 8, 256: 8}


class _Gemv(Scheme):
    """AutoAWQ's gemv layout: the groups of a row are filled up to whole words (``calculate_zeros_width``)."""

    __slots__ = ()

    def stored_bytes(self, output_dim: int, input_dim: int) -> float:
        group = self.block[1]
        filled = -(input_dim // group) % _GEMV_GROUPS[group]
        return (
            Scheme.stored_bytes(self, output_dim, input_dim)
            + output_dim * filled * (self.scale_bits + self.zero_bits) / 8
        )


def _fbgemm(f: Fields) -> Quantization:
    """FBGEMM, as in Meta's Llama-3.1-405B-Instruct-FP8: an fp32 scale for each row, activations scaled in the step."""
    scheme = Scheme(
        name="FP8 W8A8, channel scales", element="fp8", bits=8, block=(1, None), scale_bits=32, multiplies="fp8"
    )
    kept = (*EMBEDDINGS, *(patterns(f, "modules_to_not_convert") or ()))
    return Quantization(method="fbgemm_fp8", scheme=scheme, kept=kept)


# bitsandbytes, functional.py: weights in a block, blocks' scales in a block of their own, entries of the two tables
_BNB_BLOCK, _BNB_NESTED, _BNB_TABLE, _BNB_NESTED_TABLE = 64, 256, 16, 256


def _bitsandbytes(f: Fields) -> Quantization:
    """4 bits in blocks with a scale each, which may be quantized in turn; or 8 bits with a scale for each row.

    A file also holds about 150 bytes of text for each 4-bit matrix, which aren't counted.
    """
    four, eight = (
        bool(choice(f, f"load_in_{bits}bit", (True, False), choice(f, f"_load_in_{bits}bit", (True, False), False)))
        for bits in (4, 8)
    )
    if four == eight:
        raise f.error(f"load_in_4bit is {four} and load_in_8bit is {eight}: one of them must be true")
    kept = patterns(f, "llm_int8_skip_modules")
    kept = EMBEDDINGS if kept is None else (EMBEDDINGS[0], *kept)
    if eight:
        choice(f, "llm_int8_has_fp16_weight", (False,), False)
        scheme = Scheme(
            name="LLM.int8(), channel scales", element="int8", bits=8, block=(1, None), scale_bits=32, tensor_bytes=1,
            multiplies="int8",
        )  # fmt: skip
        return Quantization(method="bitsandbytes", scheme=scheme, kept=kept)
    kind = choice(f, "bnb_4bit_quant_type", ("nf4", "fp4"), "fp4")
    choice(f, "bnb_4bit_quant_storage", ("uint8", "bfloat16", "float16", "float32"), "uint8")
    nested = choice(f, "bnb_4bit_use_double_quant", (True, False), False)
    scheme = Scheme(
        name=f"{kind} W4A16, g{_BNB_BLOCK}{', scales quantized' if nested else ''}",
        element=kind,
        bits=4,
        block=(1, _BNB_BLOCK),
        scale_bits=8 + 32 / _BNB_NESTED if nested else 32,
        tensor_bytes=4 * (_BNB_TABLE + (_BNB_NESTED_TABLE if nested else 0)),
    )
    return Quantization(method="bitsandbytes", scheme=scheme, kept=kept)


def _fp8(f: Fields) -> Quantization:
    activation = choice(f, "activation_scheme", ("dynamic", "static"))
    choice(f, "fmt", ("e4m3", "float8_e4m3fn"), "e4m3")
    choice(f, "scale_fmt", ("ue8m0", "float"), "float")
    blocks = f.value("weight_block_size")
    if blocks is None:
        block: tuple[int | None, int | None] = (None, None)
    elif isinstance(blocks, list) and len(blocks) == 2 and all(type(b) is int and 0 < b <= 2**16 for b in blocks):
        block = (blocks[0], blocks[1])
    else:
        raise f.error(
            f"weight_block_size is {shown(blocks)}: it must be two positive whole numbers, such as [128, 128]"
        )
    scheme = Scheme(
        name="FP8 W8A8, tensor scales" if blocks is None else f"FP8 W8A8, {block[0]}x{block[1]} blocks",
        element="fp8",
        bits=8,
        block=block,
        scale_bits=32,
        tensor_bytes=4 if activation == "static" else 0,
        multiplies="fp8",
    )
    kept = patterns(f, "modules_to_not_convert", "ignored_layers")
    return Quantization(method="fp8", scheme=scheme, kept=EMBEDDINGS if kept is None else (EMBEDDINGS[0], *kept))


_MXFP4 = Scheme(name="MXFP4", element="fp4", bits=4, block=(1, 32), scale_bits=8, multiplies="fp4")
_COMPRESSORS = tuple(f"{part}.{name}" for part in ("compressor", "indexer") for name in ("kv_proj", "gate_proj"))


def _nvfp4(group: int) -> Scheme:
    return Scheme(name="NVFP4", element="fp4", bits=4, block=(1, group), scale_bits=8, tensor_bytes=8, multiplies="fp4")


def _mxfp4(f: Fields) -> Quantization:
    kept = (_NO_EXPERT, *(patterns(f, "modules_to_not_convert") or ()))
    return Quantization(method="mxfp4", scheme=_MXFP4, kept=kept)


def _compressed(f: Fields) -> Quantization:
    refuse(f, "transform_config")
    sparsity = f.value("sparsity_config")
    if sparsity:
        form = mapping(sparsity, f"{f.family}: sparsity_config").get("format")
        if form != "dense":  # as llm-compressor writes it where nothing is left out
            raise UnsupportedQuantization(
                f"{f.family}: sparsity_config has format {shown(form)}: known here is 'dense'. {REMEDY}"
            )
    groups = mapping(f.value("config_groups"), f"{f.family}: config_groups")
    if len(groups) != 1:
        raise UnsupportedQuantization(
            f"{f.family}: config_groups has {len(groups)} groups: one scheme is supported here"
        )
    (group,) = (mapping(g, f"{f.family}: {shown(name)}") for name, g in groups.items())
    g = Fields(group, f.family, {})
    if g.value("targets") not in (["Linear"], ["re:.*"]):
        raise UnsupportedQuantization(f'{f.family}: targets is {shown(g.value("targets"))}: known here is ["Linear"]')
    w = Fields(mapping(g.value("weights"), f"{f.family}: weights"), f"{f.family}: weights", {})
    kind, bits = choice(w, "type", ("int", "float")), choice(w, "num_bits", (4, 8))
    form = choice(f, "format", tuple(_FORMATS))
    strategy = choice(w, "strategy", _FORMATS[form])
    acts = g.value("input_activations")
    symmetric = choice(w, "symmetric", (True, False), True)
    element = f"int{bits}" if kind == "int" else f"fp{bits}"
    if (kind == "int") != form.startswith(("pack", "int")) and form != "naive-quantized":
        raise f.error(f"format is {shown(form)}, but the weights are {element}: they must go together")
    packed = form == "pack-quantized"
    scheme = Scheme(
        name=f"{element} {'W' + str(bits)}A{_activation_bits(f, acts)}, {strategy} scales",
        element=element,
        bits=bits,
        block=_block(w, strategy),
        scale_bits=8 if bits == 4 and kind == "float" else 16,
        zero_bits=0 if symmetric else bits,
        tensor_bytes=(16 if packed else 0)
        + (8 if strategy == "tensor_group" and acts else 0)
        + (4 if strategy == "tensor_group" and not acts else 0),
        column_bits=32 if choice(w, "actorder", (None, "weight", "static", "group"), None) == "group" else 0,
        multiplies="bf16" if not acts else element,
    )
    return Quantization(
        method="compressed-tensors",
        scheme=scheme,
        kept=(EMBEDDINGS[0], *(patterns(f, "ignore") or ())),
        cache=_cache(f),
    )


# Formats of compressed-tensors and the ways in which their weights share scales
_FORMATS = {
    "pack-quantized": ("group", "channel"),
    "int-quantized": ("channel", "tensor"),
    "float-quantized": ("channel", "tensor", "block"),
    "naive-quantized": ("channel", "tensor", "block"),
    "nvfp4-pack-quantized": ("tensor_group",),
    "mxfp4-pack-quantized": ("group",),
}


def _block(w: Fields, strategy: str) -> tuple[int | None, int | None]:
    if strategy == "block":
        blocks = w.value("block_structure")
        if not (isinstance(blocks, list) and len(blocks) == 2 and all(type(b) is int and b > 0 for b in blocks)):
            raise w.error(f"block_structure is {shown(blocks)}: it must be two positive whole numbers")
        return blocks[0], blocks[1]
    if strategy in ("group", "tensor_group"):
        return 1, group_of(w)
    return (1, None) if strategy == "channel" else (None, None)


def _activation_bits(f: Fields, acts: Any) -> int:
    if acts is None:
        return 16
    a = Fields(mapping(acts, f"{f.family}: input_activations"), f"{f.family}: input_activations", {})
    return choice(a, "num_bits", (4, 8))


def _cache(f: Fields, types: tuple[str, ...] = ("float", "int")) -> str | None:
    scheme = f.value("kv_cache_scheme")
    if scheme is None:
        return None
    c = Fields(mapping(scheme, f"{f.family}: kv_cache_scheme"), f"{f.family}: kv_cache_scheme", {})
    choice(c, "num_bits", (8,))
    return {"float": "fp8", "int": "int8"}[choice(c, "type", types)]


def _modelopt(f: Fields) -> Quantization:
    """ModelOpt's two forms: hf_quant_config.json, and config.json alone, in the words of compressed-tensors."""
    algorithm = f.value("quant_algo")
    f = Fields(f.data | {"quant_algo": algorithm.upper() if isinstance(algorithm, str) else algorithm}, f.family, {})
    algorithm = choice(f, "quant_algo", ("FP8", "NVFP4"))
    cache = "fp8" if choice(f, "kv_cache_quant_algo", (None, "FP8")) else _cache(f, ("float",))
    kept = (EMBEDDINGS[0], *(patterns(f, "exclude_modules", "ignore") or ()))
    if algorithm == "FP8":
        stored_as = Scheme(
            name="FP8 W8A8, tensor scales", element="fp8", bits=8, block=(None, None), scale_bits=32, tensor_bytes=4,
            multiplies="fp8",
        )  # fmt: skip
    else:
        stored_as = _nvfp4(_nvfp4_group(f))
    return Quantization(method="modelopt", scheme=stored_as, kept=kept, cache=cache)


def _nvfp4_group(f: Fields) -> int:
    """Weights in a group: stated, or stated in the one group of matrices, or the format's own 16, as vLLM reads it."""
    groups = f.value("config_groups")
    if f.value("group_size") is None and groups is not None:
        groups = mapping(groups, f"{f.family}: config_groups")
        if len(groups) > 1:
            raise UnsupportedQuantization(
                f"{f.family}: config_groups has {len(groups)} groups: one scheme is supported here"
            )
        for name, group in groups.items():
            weights = mapping(group, f"{f.family}: {shown(name)}").get("weights")
            f = Fields(mapping(weights, f"{f.family}: weights"), f"{f.family}: weights", {})
    return f.count("group_size", most=2**10) if f.value("group_size") is not None else scheme("nvfp4").block[1]


_METHODS: dict[str, Callable[[Fields], Quantization]] = {
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "fbgemm_fp8": _fbgemm,
    "fp8": _fp8,
    "gptq": _gptq,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}
