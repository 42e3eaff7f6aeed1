"""Read an adapter as it is stored: adapter_config.json, and the header of adapter_model.safetensors.

Files come from strangers. Nothing in them is believed before it is checked, no tensor is loaded, and what
is refused is refused by name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

from calc.adapters._formulas import file_bytes
from calc.models import parse
from calc.models.fields import MOST_BYTES, shown
from calc.units import CalcError, format_bytes, format_count

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LONGEST_HEADER = 100_000_000  # what the format's own reader admits
MOST_DIMS = 8
MOST_RANK = 2**16

# The element types of the format that adapters use, with the book's names and their bytes.
_TYPES = {
    **{"F64": ("fp64", 8), "F32": ("fp32", 4), "F16": ("fp16", 2), "BF16": ("bf16", 2)},
    **{"F8_E4M3": ("fp8", 1), "F8_E5M2": ("fp8 e5m2", 1), "I64": ("int64", 8), "I32": ("int32", 4)},
    **{"I16": ("int16", 2), "I8": ("int8", 1), "U8": ("uint8", 1), "BOOL": ("bool", 1)},
}
_PAIR = re.compile(r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<side>[AB])(\.\w+)?(\.weight)?")


class AdapterError(CalcError):
    """An adapter's files are malformed or contradict each other; the message names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a safetensors file, as its header states it.

    Attributes
    ----------
    name : str
    element : str
        Type of its elements: "bf16", "fp32", …
    shape : tuple of int
    stored_bytes : int
    """

    name: str
    element: str
    shape: tuple[int, ...]
    stored_bytes: int

    @property
    def parameters(self) -> int:
        """Elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a safetensors file.

    Attributes
    ----------
    tensors : tuple of Tensor
        In the order of their bytes.
    header_bytes : int
        Length of the JSON text, padding included.
    """

    tensors: tuple[Tensor, ...]
    header_bytes: int

    @property
    def stored_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.stored_bytes for tensor in self.tensors)

    @property
    def file_bytes(self) -> int:
        """Bytes of the file."""
        return file_bytes(header_bytes=self.header_bytes, stored_bytes=self.stored_bytes)


@dataclass(frozen=True, slots=True)
class AdapterFile:
    """An adapter as stored. Make it with `read_adapter`.

    Attributes
    ----------
    header : Header
    rank : int
        ``r`` of the configuration.
    alpha : float
        ``lora_alpha``.
    scale : float
        What the pair's product is multiplied with: alpha over the rank, or over its root (rsLoRA).
    ranks : tuple of int
        Ranks of the stored pairs, lowest first; several where ``rank_pattern`` sets others than `rank`.
    modules : tuple of str
        Ends of the adapted modules' names.
    saved : tuple of str
        Ends of the names of what is stored whole.
    """

    header: Header
    rank: int
    alpha: float
    scale: float
    ranks: tuple[int, ...]
    modules: tuple[str, ...]
    saved: tuple[str, ...]

    @property
    def low_rank(self) -> tuple[Tensor, ...]:
        """The tensors of the pairs."""
        return tuple(tensor for tensor in self.header.tensors if _PAIR.fullmatch(tensor.name))

    @property
    def others(self) -> tuple[Tensor, ...]:
        """Everything else: saved matrices, magnitude vectors, biases."""
        return tuple(tensor for tensor in self.header.tensors if not _PAIR.fullmatch(tensor.name))

    @property
    def elements(self) -> dict[str, int]:
        """Bytes stored in each element type."""
        sums: Counter[str] = Counter()
        for tensor in self.header.tensors:
            sums[tensor.element] += tensor.stored_bytes
        return dict(sums)

    def _repr_html_(self) -> str:
        pairs, whole = self.low_rank, self.others
        parts = [("low-rank pairs", pairs)] + [(f"whole: {', '.join(self.saved)}", whole)] * bool(whole)
        rows = [
            (name, f"{format_count(sum(t.parameters for t in part))} parameters", sum(t.stored_bytes for t in part))
            for name, part in parts
        ]
        rows.append(("header", f"{format_count(len(self.header.tensors))} tensors", self.header.header_bytes))
        rows.append(("file", f"{format_count(self.header.file_bytes)} B", self.header.file_bytes))
        body = "".join(f"<tr><th>{a}</th><td>{b}</td><td>{format_bytes(c)}</td></tr>" for a, b, c in rows)
        about = f"rank {', '.join(map(str, self.ranks))}, scale {self.scale:g}: {', '.join(self.modules)}"
        return f'<table class="calc-table"><caption>{about}</caption><tbody>{body}</tbody></table>'


def read_header(path: str | Path) -> Header:
    """Read the header of a safetensors file; its tensors are not touched.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Header

    Raises
    ------
    AdapterError
        If the file can't be read, is cut short, or its header is not what the format demands: too long, no
        JSON object, a name twice, an unknown type, a shape that doesn't fit its bytes, bytes that overlap or
        that belong to no tensor.

    References
    ----------
    The safetensors format, huggingface/safetensors, README, "Format".
    """
    try:
        file = Path(path)
        if not file.is_file():
            raise AdapterError(f"no file at {shown(str(path))}: give the path of a .safetensors file")
        with file.open("rb") as handle:
            size = handle.seek(0, 2)
            handle.seek(0)
            length = int.from_bytes(handle.read(8), "little")
            if size < 8 or length > size - 8:
                raise AdapterError(
                    f"the file has {format_count(size)} bytes and announces a header of {format_count(length)}: it is "
                    "cut short, or no safetensors file; download it again"
                )
            if length > LONGEST_HEADER:
                raise AdapterError(f"the header has {format_count(length)} bytes, more than the format's 100 MB")
            text = handle.read(length)
    except AdapterError:
        raise
    except (OSError, ValueError):
        raise AdapterError(f"cannot read {shown(str(path))}: give the path of a readable .safetensors file") from None
    return Header(_tensors(_object(text), size - 8 - length), length)


def _object(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_without_doubles)
    except AdapterError:
        raise
    except (ValueError, RecursionError):
        raise AdapterError("the header is no JSON text in UTF-8: the file is damaged; download it again") from None
    if not isinstance(header, dict):
        raise AdapterError(f"the header is {shown(header)}: it must be a JSON object that names tensors")
    return header


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise AdapterError(f"{shown(name)} is stated {times} times in the header: each name may stand once")
    return dict(pairs)


def _tensors(header: dict[str, Any], room: int) -> tuple[Tensor, ...]:
    """Check every entry, and that the tensors fill the rest of the file with no hole and no overlap."""
    placed = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensor, begin = _tensor(name, entry)
        placed.append((begin, begin + tensor.stored_bytes, tensor))
    placed.sort(key=lambda place: place[:2])
    offset = 0
    for begin, end, tensor in placed:
        if begin != offset:
            what = "overlaps the tensor before it" if begin < offset else "leaves a hole before it"
            raise AdapterError(f"{shown(tensor.name)} {what}: its bytes must begin at {offset}, not {begin}")
        offset = end
    if offset != room:
        raise AdapterError(
            f"the tensors have {format_count(offset)} bytes, the file holds {format_count(room)}: it is cut short or "
            "has something appended; download it again"
        )
    return tuple(tensor for _, _, tensor in placed)


def _tensor(name: str, entry: Any) -> tuple[Tensor, int]:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise AdapterError(f"{shown(name)} in the header is {shown(entry)}: it needs dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _TYPES:
        raise AdapterError(f"{shown(name)} has dtype {shown(kind)}: known are {', '.join(_TYPES)}")
    if not _whole_numbers(shape) or len(shape) > MOST_DIMS:
        raise AdapterError(f"{shown(name)} has shape {shown(shape)}: it must be at most {MOST_DIMS} whole numbers")
    if not _whole_numbers(offsets) or len(offsets) != 2:
        raise AdapterError(f"{shown(name)} has data_offsets {shown(offsets)}: they must be two whole numbers")
    element, size = _TYPES[kind]
    stored = prod(shape) * size
    if offsets[1] - offsets[0] != stored:
        raise AdapterError(
            f"{shown(name)} has {format_count(offsets[1] - offsets[0])} bytes, but its shape {shown(shape)} in {kind} "
            f"takes {format_count(stored)}: the header is wrong"
        )
    return Tensor(name, element, tuple(shape), stored), offsets[0]


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def read_adapter(folder: str | Path) -> AdapterFile:
    """Read a PEFT adapter: its settings, and what its file holds.

    Parameters
    ----------
    folder : str or Path
        With ``adapter_config.json`` and ``adapter_model.safetensors``.

    Returns
    -------
    AdapterFile

    Raises
    ------
    AdapterError
        If a file is missing or malformed, it is no LoRA adapter, or the settings and the stored pairs
        contradict each other.
    ConfigError
        If ``adapter_config.json`` is no sensible JSON object.

    Notes
    -----
    Reads the header only, however large the file. Pickled weights (``adapter_model.bin``) are refused:
    loading them can run code.
    """
    place = Path(folder)
    config = _config(place / CONFIG)
    if not (place / WEIGHTS).is_file() and (place / "adapter_model.bin").is_file():
        raise AdapterError(
            "the folder has adapter_model.bin, a pickle that can run code when it is loaded: save the adapter with "
            "safe_serialization=True"
        )
    header = read_header(place / WEIGHTS)
    if config.get("peft_type") != "LORA":
        raise AdapterError(f"peft_type is {shown(config.get('peft_type'))}: only LORA adapters are read here")
    rank = _number(config, "r", 1)
    alpha = config.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 <= alpha < 2**32:
        raise AdapterError(f"lora_alpha is {shown(alpha)}: it must be a number of at least 0")
    patterned = config.get("rank_pattern") or {}
    if not isinstance(patterned, dict):
        raise AdapterError(f"rank_pattern is {shown(patterned)}: it must be an object of names and ranks")
    allowed = {rank} | {_number(patterned, name, 1) for name in patterned}
    ranks = _stored_ranks(header, grouped=bool(config.get("target_parameters")))
    if stray := sorted(ranks - allowed):
        raise AdapterError(f"a stored pair has rank {stray[0]}, but {CONFIG} states {_listed(allowed)}: one is wrong")
    others = [t.name for t in header.tensors if not _PAIR.fullmatch(t.name)]
    pairs = [match for t in header.tensors if (match := _PAIR.fullmatch(t.name))]
    return AdapterFile(
        header=header,
        rank=rank,
        alpha=alpha,
        scale=alpha / (sqrt(rank) if config.get("use_rslora") is True else rank),
        ranks=tuple(sorted(ranks)),
        modules=tuple(dict.fromkeys(match["module"].rpartition(".")[2] for match in pairs)),
        saved=tuple(dict.fromkeys(_module(name) for name in others)),
    )


def _config(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise AdapterError(f"no {CONFIG} in {shown(str(path.parent))}: give the folder of a PEFT adapter")
        with path.open("rb") as handle:
            return parse(handle.read(MOST_BYTES + 1))
    except (OSError, ValueError) as error:
        if isinstance(error, CalcError):
            raise
        raise AdapterError(f"cannot read {shown(str(path))}: give the folder of a PEFT adapter") from None


def _number(fields: dict[str, Any], name: str, least: int) -> int:
    value = fields.get(name)
    if type(value) is not int or not least <= value <= MOST_RANK:
        raise AdapterError(f"{shown(name)} is {shown(value)}: it must be a whole number from {least} to {MOST_RANK}")
    return value


def _stored_ranks(header: Header, grouped: bool) -> set[int]:
    """Ranks of the stored pairs; each pair must be whole and its two matrices must meet in the rank."""
    sides: dict[str, dict[str, Tensor]] = {}
    for tensor in header.tensors:
        if match := _PAIR.fullmatch(tensor.name):
            sides.setdefault(match["module"], {})[match["side"]] = tensor
    if not sides:
        raise AdapterError("the file holds no tensor named lora_A or lora_B: it is no LoRA adapter")
    ranks = set()
    for module, pair in sides.items():
        if missing := {"A", "B"} - pair.keys():
            raise AdapterError(f"{shown(module)} has no lora_{missing.pop()}: the adapter is incomplete")
        down, up = pair["A"].shape, pair["B"].shape
        if len(down) < 2 or len(up) < 2 or down[0] != up[1]:
            raise AdapterError(
                f"{shown(module)} has A of shape {shown(list(down))} and B of {shown(list(up))}: A must have as many "
                "rows as B has columns"
            )
        if not (grouped and "experts" in module):  # those hold the rank once for each expert
            ranks.add(down[0])
    return ranks


def _module(name: str) -> str:
    """The telling part of a name: "lm_head" of "base_model.model.lm_head.weight"."""
    parts = [part for part in name.split(".") if part not in {"weight", "base_layer", "default", "modules_to_save"}]
    return parts[-1] if parts else name


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
