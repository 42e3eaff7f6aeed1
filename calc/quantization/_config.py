"""Read how a checkpoint is quantized from its own files; what isn't known is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from calc.adapters import EMBEDDINGS
from calc.models import ConfigError, ModelGeometry
from calc.models.fields import Fields, mapping, read_file, shown
from calc.quantization._schemes import Scheme, Stored, scheme, stored

_MOST_PATTERNS, _LONGEST_PATTERN, _MOST_EXPRESSIONS, _MOST_REPEATS = 100_000, 200, 100, 3
_NO_EXPERT = r"re:(?!.*\.experts\.)"  # whatever is no routed expert
# Names of checkpoints, and what the same modules are called here
_RENAMED = {
    "language_model.": "",
    "block_sparse_moe": "mlp",
    "index_q_proj": "indexer.q_proj",
    "index_k_proj": "indexer.k_proj",
}
_SAFE_PATTERN = re.compile(r"(\\[.d]|[\w.,:|$^()\[\]+*?-])*")


class UnsupportedQuantization(ConfigError):
    """A configuration names a quantization method, or a feature of one, that the library doesn't know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How one checkpoint is quantized.

    Attributes
    ----------
    method : str
        As the file names it: "gptq", "awq", "fp8", "mxfp4", "compressed-tensors" or "modelopt".
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
    calc.quantization._config.UnsupportedQuantization: quantization method 'hqq' is not known here; known are awq,
    compressed-tensors, fp8, gptq, modelopt, mxfp4
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
            f"quantization method {shown(method)} is not known here; known are {', '.join(sorted(_METHODS))}"
        )
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
    element = _choice(f, "expert_dtype", ("fp4", "fp8"), "fp4")
    algorithm = _choice(f, "moe_quant_algo", (None, "NVFP4"))
    read = replace(read, kept=(*read.kept, *_COMPRESSORS))
    if element == "fp8":
        return read
    experts = _nvfp4(scheme("nvfp4").block[1]) if algorithm else _MXFP4
    name = f"{read.scheme.name}; experts {experts.name}"
    return replace(read, scheme=replace(read.scheme, name=name, scale_bits=8, experts=experts))


def _patterns(f: Fields, *names: str) -> tuple[str, ...] | None:
    """A list of modules, checked: an expression from a file must not be able to run away."""
    value = f.value(*names) if len(names) == 1 else next((v for v in map(f.value, names) if v is not None), None)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > _MOST_PATTERNS or not all(isinstance(v, str) and v for v in value):
        raise f.error(f"{names[0]} is {shown(value)}: it must be a list of module names")
    for pattern in value:
        if len(pattern) > _LONGEST_PATTERN or (pattern.startswith("re:") and not _tame(pattern[3:])):
            raise f.error(
                f"{names[0]} has the expression {shown(pattern)}: write it with . * | ( ) and plain names, and at most "
                f"{_MOST_REPEATS} of * + ?"
            )
    if sum(pattern.startswith("re:") for pattern in value) > _MOST_EXPRESSIONS:
        raise f.error(f"{names[0]} has more than {_MOST_EXPRESSIONS} expressions: list the modules by name")
    for theirs, ours in _RENAMED.items():
        value = [pattern.replace(theirs, ours) for pattern in value]
    return tuple(filter(None, value))


def _tame(expression: str) -> bool:
    repeats = len(re.findall(r"[*+?]", expression))
    if (
        repeats > _MOST_REPEATS
        or re.search(r"\)[*+?]|[*+?][*+]", expression)
        or not _SAFE_PATTERN.fullmatch(expression)
    ):
        return False
    try:
        re.compile(expression)
    except re.error:
        return False
    return True


def _choice(f: Fields, name: str, allowed: Iterable[Any], default: Any = None) -> Any:
    """A field with few possible values; an unknown one is a feature that isn't supported."""
    value = f.value(name)
    value = default if value is None else value
    allowed = tuple(allowed)
    if not any(type(value) is type(a) and value == a for a in allowed):
        known = ", ".join(shown(a) for a in allowed)
        raise UnsupportedQuantization(f"{f.family}: {name} is {shown(value)}: known here are {known}")
    return value


def _none(f: Fields, *names: str) -> None:
    """Refuse features that would change the bytes."""
    for name in names:
        if f.value(name):
            raise UnsupportedQuantization(f"{f.family}: {name} is {shown(f.value(name))}, which is not supported here")


def _group(f: Fields, name: str = "group_size") -> int | None:
    """Weights in a group; -1 for the whole row."""
    if f.value(name) == -1:
        return None
    return f.count(name, most=2**16)


def _gptq(f: Fields) -> Quantization:
    _none(f, "dynamic", "modules_in_block_to_quantize", "meta_awq")
    bits, group = _choice(f, "bits", (2, 3, 4, 8)), _group(f)
    scheme = Scheme(
        name=f"GPTQ int{bits}, {_size(group)}",
        element=f"int{bits}",
        bits=bits,
        block=(1, group),
        scale_bits=16,
        zero_bits=bits,  # packed and stored, symmetric or not
        column_bits=32,
    )
    kept = EMBEDDINGS[:1] if _choice(f, "lm_head", (True, False), False) else EMBEDDINGS
    return Quantization(method="gptq", scheme=scheme, kept=kept)


def _awq(f: Fields) -> Quantization:
    bits, group = (
        _choice(f, "bits", (4,), f.value("w_bit")),
        _group(f, "group_size" if "group_size" in f.data else "q_group_size"),
    )
    _choice(f, "zero_point", (True,), True)
    _choice(f, "version", ("gemm", "GEMM"), "gemm")
    scheme = Scheme(
        name=f"AWQ int{bits}, {_size(group)}",
        element=f"int{bits}",
        bits=bits,
        block=(1, group),
        scale_bits=16,
        zero_bits=bits,
    )
    return Quantization(
        method="awq", scheme=scheme, kept=(*EMBEDDINGS, *(_patterns(f, "modules_to_not_convert") or ()))
    )


def _fp8(f: Fields) -> Quantization:
    activation = _choice(f, "activation_scheme", ("dynamic", "static"))
    _choice(f, "fmt", ("e4m3", "float8_e4m3fn"), "e4m3")
    _choice(f, "scale_fmt", ("ue8m0", "float"), "float")
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
    kept = _patterns(f, "modules_to_not_convert", "ignored_layers")
    return Quantization(method="fp8", scheme=scheme, kept=EMBEDDINGS if kept is None else (EMBEDDINGS[0], *kept))


_MXFP4 = Scheme(name="MXFP4", element="fp4", bits=4, block=(1, 32), scale_bits=8, multiplies="fp4")
_COMPRESSORS = tuple(f"{part}.{name}" for part in ("compressor", "indexer") for name in ("kv_proj", "gate_proj"))


def _nvfp4(group: int) -> Scheme:
    return Scheme(name="NVFP4", element="fp4", bits=4, block=(1, group), scale_bits=8, tensor_bytes=8, multiplies="fp4")


def _mxfp4(f: Fields) -> Quantization:
    kept = (_NO_EXPERT, *(_patterns(f, "modules_to_not_convert") or ()))
    return Quantization(method="mxfp4", scheme=_MXFP4, kept=kept)


def _compressed(f: Fields) -> Quantization:
    _none(f, "sparsity_config", "transform_config")
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
    kind, bits = _choice(w, "type", ("int", "float")), _choice(w, "num_bits", (4, 8))
    form = _choice(f, "format", tuple(_FORMATS))
    strategy = _choice(w, "strategy", _FORMATS[form])
    acts = g.value("input_activations")
    symmetric = _choice(w, "symmetric", (True, False), True)
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
        column_bits=32 if _choice(w, "actorder", (None, "weight", "static", "group"), None) == "group" else 0,
        multiplies="bf16" if not acts else element,
    )
    return Quantization(
        method="compressed-tensors",
        scheme=scheme,
        kept=(EMBEDDINGS[0], *(_patterns(f, "ignore") or ())),
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
        return 1, _group(w)
    return (1, None) if strategy == "channel" else (None, None)


def _activation_bits(f: Fields, acts: Any) -> int:
    if acts is None:
        return 16
    a = Fields(mapping(acts, f"{f.family}: input_activations"), f"{f.family}: input_activations", {})
    return _choice(a, "num_bits", (4, 8))


def _cache(f: Fields, types: tuple[str, ...] = ("float", "int")) -> str | None:
    scheme = f.value("kv_cache_scheme")
    if scheme is None:
        return None
    c = Fields(mapping(scheme, f"{f.family}: kv_cache_scheme"), f"{f.family}: kv_cache_scheme", {})
    _choice(c, "num_bits", (8,))
    return {"float": "fp8", "int": "int8"}[_choice(c, "type", types)]


def _modelopt(f: Fields) -> Quantization:
    """ModelOpt's two forms: hf_quant_config.json, and config.json alone, in the words of compressed-tensors."""
    algorithm = f.value("quant_algo")
    f = Fields(f.data | {"quant_algo": algorithm.upper() if isinstance(algorithm, str) else algorithm}, f.family, {})
    algorithm = _choice(f, "quant_algo", ("FP8", "NVFP4"))
    cache = "fp8" if _choice(f, "kv_cache_quant_algo", (None, "FP8")) else _cache(f, ("float",))
    kept = (EMBEDDINGS[0], *(_patterns(f, "exclude_modules", "ignore") or ()))
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


def _size(group: int | None) -> str:
    return "channel scales" if group is None else f"g{group}"


_METHODS: dict[str, Callable[[Fields], Quantization]] = {
    "awq": _awq,
    "compressed-tensors": _compressed,
    "fp8": _fp8,
    "gptq": _gptq,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}
