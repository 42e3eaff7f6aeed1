"""What a reader chooses, checked; and what follows from the choices alone: model, chip, scheme, memory setting."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from calc import capacity, hardware, kv_cache, quantization
from calc.capacity import MemorySetting
from calc.hardware import Accelerator
from calc.models import ConfigError, LatentWindowAttention, ModelGeometry, catalogue, load, parse
from calc.models.fields import read_file, shown
from calc.parallel import Parallel
from calc.quantization import Quantization, Scheme
from calc.units import CalcError, of_python, plain

AUTO = "auto"
MOST_GPUS, MOST_SEQUENCES, MOST_TOKENS = 4096, 2**20, 2**24
MOST_POSITIONS = 2**26  # a prompt's scores are as many squared, and still counted exactly
ALIASES = {"fp16": "bf16", "fp8": "fp8-channel", "int8": "int8-channel", "int4": "int4-g128"}
FLAGS = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "float16": "fp16"}  # types of a cache, to engines
SIBLING = "hf_quant_config.json"


def weight_types() -> tuple[str, ...]:
    """What `size` takes for the type of the weights: "auto", short names and the schemes of `calc.quantization`.

    Examples
    --------
    >>> weight_types()[:4]
    ('auto', 'bf16', 'fp8', 'int8')
    """
    schemes = quantization.schemes()
    return (AUTO, "bf16", *(name for name in ("fp8", "int8", "int4") if name not in schemes), *schemes[1:])


def arithmetic_types() -> tuple[str, ...]:
    """What `size` takes for the type in which matrices are multiplied."""
    return (AUTO, "bf16", "fp16", "fp8", "int8", "fp4")


def cache_types() -> tuple[str, ...]:
    """What `size` takes for the type of the cache."""
    return (AUTO, *kv_cache.ELEMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Everything that decides a worksheet, checked and looked up. Made by `choose`."""

    model: ModelGeometry
    config: Mapping[str, Any]
    chip: Accelerator
    parallel: Parallel
    count: int
    found: Quantization | None
    found_in: str
    weights: str
    scheme: Scheme
    kept: tuple[str, ...]
    multiplies: str
    cache: str
    cache_why: str
    engine: str
    fraction: float | None
    fraction_from: str
    given: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        """The plain choices by name: context, output, concurrency and so on."""
        try:
            return self.given[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def positions(self) -> int:
        """Positions written when a response is complete."""
        return kv_cache.positions_written(prompt=self.given["context"], generated=self.given["output"])

    @property
    def replicas(self) -> int:
        """Whole replicas on the GPUs there are."""
        return self.count // self.parallel.gpus

    @property
    def quantized(self) -> bool:
        """Whether any weight is stored in fewer than 16 bits."""
        return self.scheme.element != "bf16"


def read_model(config: Any, name: str | None = None) -> tuple[ModelGeometry, dict[str, Any], Path | None]:
    """A model from the catalogue, a file, a file's text or its parsed content; its fields; and where it lay."""
    if isinstance(config, dict):
        return ModelGeometry.from_config(config, name=name or _named(config)), config, None
    if isinstance(config, (bytes, bytearray)) or (
        isinstance(config, str) and config.lstrip("\ufeff \t\r\n").startswith("{")
    ):
        return *_from_text(bytes(config) if isinstance(config, bytearray) else config, name), None
    if isinstance(config, str) and config in catalogue(every=True):
        from calc.sources import load_json

        model, data = load(config), load_json("models", f"{config}.json")["config"]
        if name is not None:
            model = replace(model, name=ModelGeometry.from_config(data, name=name).name)
        return model, data, None
    if isinstance(config, PathLike) or (isinstance(config, str) and _like_a_path(config)):
        data = read_file(config)
        model = ModelGeometry.from_config(data, name=name or _named(data, Path(config).stem))
        return replace(model, source="a config.json"), data, Path(config)
    if isinstance(config, str):
        load(config)  # refuses it, with the names that come close
    raise ConfigError(f"a model is {shown(config)}: give a slug of the catalogue, a config.json, its text or a dict")


@functools.lru_cache(maxsize=8)
def _from_text(text: str | bytes, name: str | None) -> tuple[ModelGeometry, dict[str, Any]]:
    """A model from a file's text, read once however often the other choices change."""
    data = parse(text)
    return replace(ModelGeometry.from_config(data, name=name or _named(data)), source="a config.json"), data


def _like_a_path(text: str) -> bool:
    return len(text) < 4096 and (text.endswith(".json") or "/" in text or "\\" in text)


def _named(data: dict[str, Any], file: str = "config") -> str | None:
    """The name that a file states or bears, where it is one that can be shown."""
    for stated in (data.get("_name_or_path"), file.rpartition("--")[2]):
        if isinstance(stated, str) and stated != "config" and len(stated) <= 80:
            tail = stated.rstrip("/").rpartition("/")[2]
            if tail and all(c.isascii() and (c.isalnum() or c in " ._+:()-") for c in tail):
                return tail
    return None


def read_scheme(data: dict[str, Any], path: Path | None, quantization_file: Any) -> tuple[Quantization | None, str]:
    """How the checkpoint is quantized, and in which file that was said."""
    if quantization_file is not None:
        if isinstance(quantization_file, str) and quantization_file.lstrip("\ufeff \t\r\n").startswith("{"):
            quantization_file = parse(quantization_file)
        elif isinstance(quantization_file, str | PathLike) and not _is_file(quantization_file):
            raise ConfigError(f"no file at {shown(str(quantization_file))}: give the path of an {SIBLING}")
        found = quantization.read_quantization(quantization_file)
        if found is None:
            raise ConfigError("the quantization file says nothing of quantization: give hf_quant_config.json")
        return found, SIBLING
    found = quantization.read_quantization(data)
    if found is not None:
        return found, "quantization_config"
    for place in _siblings(path):
        if place.is_file():
            return quantization.read_quantization(place), SIBLING
    return None, ""


def _is_file(path: str | PathLike[str]) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def _siblings(path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    own = path.with_name(f"{path.name.removesuffix('.json')}.{SIBLING}")
    return (own, path.with_name(SIBLING)) if path.name == "config.json" else (own,)


@dataclass(frozen=True, slots=True, kw_only=True)
class HowStored:
    """How weights and cache are stored, and who said so. Made by `how_stored`."""

    found: Quantization | None
    found_in: str
    scheme: Scheme
    kept: tuple[str, ...]
    cache: str
    cache_why: str


def how_stored(
    model: ModelGeometry, data: dict[str, Any], path: Path | None, weights: Any, cache: Any, quantization_file: Any
) -> HowStored:
    """What the checkpoint's files say of its weights and its cache, and what was chosen in their place."""
    found, found_in = read_scheme(data, path, quantization_file)
    scheme, kept = _scheme(weights, found)
    cache, why = _cache(cache, found, model)
    return HowStored(found=found, found_in=found_in, scheme=scheme, kept=kept, cache=cache, cache_why=why)


def choose(config: Any, accelerator: str, given: dict[str, Any]) -> Choices:
    """Check all choices and look up what they name."""
    model, data, path = read_model(config, given.pop("name"))
    given |= {name: of_python(value) for name, value in given.items()}
    chip = hardware.accelerator(accelerator)
    for name, most in (
        ("tensor", MOST_GPUS),
        ("pipeline", MOST_GPUS),
        ("context", MOST_POSITIONS),
        ("output", MOST_POSITIONS),
    ):
        whole_number(name, given[name], most)
    for name, most in (("concurrency", MOST_SEQUENCES), ("block_tokens", MOST_TOKENS), ("batched_tokens", MOST_TOKENS)):
        whole_number(name, given[name], most)
    for name, most in (("lora_rank", 2**12), ("draft_tokens", 2**10)):
        whole_number(name, given[name], most)
    whole_number("lora_slots", given["lora_slots"], 2**12, least=0)
    for name in ("workspace_bytes", "graph_bytes", "communication_bytes", "draft_cost"):
        plain("size", name, given[name], "")
    for name in ("ttft_s", "tpot_s", "object_rate", "disk_rate", "host_rate"):
        if given[name] is not None:
            plain("size", name, given[name], ">0")
    plain("size", "reached", given["reached"], ">0")
    if given["reached"] > 1:
        raise CalcError(f"reached is {given['reached']!r:.40}: it is the share of printed rates that arrives, up to 1")
    if not 0 <= plain("size", "acceptance", given["acceptance"], "") < 1:
        raise CalcError(f"acceptance is {given['acceptance']!r:.40}, wanted from 0 to below 1")
    for name in ("expert_parallel", "prefix_caching"):
        if not isinstance(given[name], bool):
            raise CalcError(f"{name} is {given[name]!r:.40}, wanted True or False")
    parallel = Parallel(
        tensor=given.pop("tensor"), pipeline=given.pop("pipeline"), experts=given.pop("expert_parallel")
    )
    count = given.pop("count")
    count = parallel.gpus if count is None else count
    whole_number("count", count, MOST_GPUS)
    if count < parallel.gpus:
        raise CalcError(f"count is {count}, but {parallel} needs {parallel.gpus} GPUs: give more, or cut less")
    weights = given.pop("weights")
    kept_as = how_stored(model, data, path, weights, given.pop("cache"), given.pop("quantization_file"))
    engine, fraction = given.pop("engine"), given.pop("memory_fraction")
    fraction, fraction_from = _fraction(capacity.memory_setting(engine), fraction)
    return Choices(
        model=model,
        config=data,
        chip=chip,
        parallel=parallel,
        count=count,
        found=kept_as.found,
        found_in=kept_as.found_in,
        weights=weights,
        scheme=kept_as.scheme,
        kept=kept_as.kept,
        multiplies=_arithmetic(given.pop("arithmetic"), _covering(model, kept_as), chip),
        cache=kept_as.cache,
        cache_why=kept_as.cache_why,
        engine=engine,
        fraction=fraction,
        fraction_from=fraction_from,
        given=given,
    )


def whole_number(name: str, value: Any, most: int, least: int = 1) -> None:
    """Refuse what is no count in its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise CalcError(f"{name} is {value!r:.40}, wanted a whole number from {least:,} to {most:,}")


def _fraction(setting: MemorySetting, stated: Any) -> tuple[float | None, str]:
    """The engine's memory setting and whose it is; None for an engine that takes no share of a memory."""
    if setting.rule == "none":
        if stated is not None:
            raise CalcError(
                f"memory_fraction is {stated!r:.40}, but {setting.engine} takes no share of the memory: leave it out"
            )
        return None, "none taken"
    if stated is not None:
        memory_share(stated)
        return stated, "chosen"
    if setting.default is not None:
        return setting.default, f"{setting.engine}'s default"
    return setting.assumed, f"assumed: {setting.engine} works it out at start"


def memory_share(value: Any) -> None:
    """Refuse what is no share of a memory."""
    if not 0 < plain("size", "memory_fraction", value, "") <= 1:
        raise CalcError(f"memory_fraction is {value!r:.40}, wanted above 0 and at most 1")


def _scheme(weights: Any, found: Quantization | None) -> tuple[Scheme, tuple[str, ...]]:
    if not isinstance(weights, str):
        raise CalcError(f"weights is {weights!r:.40}, wanted one of {', '.join(weight_types())}")
    if weights == AUTO:
        if found is not None:
            return found.scheme, found.kept
        return quantization.scheme("bf16"), ()
    name = ALIASES.get(weights, weights)
    if name not in quantization.schemes():
        raise CalcError(f"weights is {weights!r:.40}, wanted one of {', '.join(weight_types())}")
    return quantization.scheme(name), ("embed_tokens", "lm_head")


def _covering(model: ModelGeometry, kept_as: HowStored) -> Scheme:
    """The scheme, or 16 bits where it covers none of the model's matrices."""
    plain16 = quantization.scheme("bf16")
    if kept_as.scheme.element == plain16.element:
        return plain16
    return kept_as.scheme if quantization.stored(model, kept_as.scheme, keeps=kept_as.kept).quantized else plain16


def _arithmetic(stated: Any, scheme: Scheme, chip: Accelerator) -> str:
    if stated == AUTO:
        return scheme.multiplies if scheme.multiplies in chip.peaks else "bf16"
    if stated not in arithmetic_types():
        raise CalcError(f"arithmetic is {stated!r:.40}, wanted one of {', '.join(arithmetic_types())}")
    chip.peak(stated)  # refuses what the chip has no peak for
    return stated


def _cache(stated: Any, found: Quantization | None, model: ModelGeometry) -> tuple[str, str]:
    stated = FLAGS.get(stated, stated) if isinstance(stated, str) else stated
    if stated != AUTO:
        kv_cache.element_of(stated)
    if any(isinstance(layer.mixer, LatentWindowAttention) for layer in model.layers):
        return "fp8" if stated == AUTO else stated, "the one format that engines have for these latents, mostly fp8"
    if stated != AUTO:
        return stated, "chosen"
    if found is not None and found.cache:
        return found.cache, "asked for by the checkpoint's quantization"
    if model.element in ("fp16", "bf16"):
        return model.element, "the checkpoint's own type, what engines take unless told otherwise"
    return "bf16", "what engines take for such a checkpoint unless told otherwise"
