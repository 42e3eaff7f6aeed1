"""Choose a scheme: what the chip and the engine support, what it does to quality, what it holds, how fast it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

from calc.hardware import Accelerator
from calc.models import DenseMLP, FullAttention, ModelGeometry
from calc.quantization._schemes import Scheme, scheme, schemes, stored
from calc.sources import load_json
from calc.units import CalcError, plain, significant

ORIGINAL = "bf16"


@dataclass(frozen=True, slots=True)
class Support:
    """Whether an engine runs a scheme on a chip, and in which arithmetic.

    Attributes
    ----------
    multiplies : str or None
        Type in which matrices are multiplied: the scheme's own, or "bf16" where the chip or the engine has no
        arithmetic for it and the weights are widened on the way. None where it does not run.
    why : str
        For a reader.
    """

    multiplies: str | None
    why: str

    @property
    def runs(self) -> bool:
        """Whether it runs at all."""
        return self.multiplies is not None


def engines() -> tuple[str, ...]:
    """Engines whose support is recorded.

    Examples
    --------
    >>> engines()
    ('vllm', 'tensorrt-llm')
    """
    return tuple(load_json("quantization.json")["engines"])


def engine_name(engine: str) -> str:
    """An engine's name and version, for display."""
    return _engine(engine)["name"]


def _engine(engine: str) -> Mapping[str, Any]:
    table = load_json("quantization.json")["engines"]
    if engine not in table:
        raise CalcError(f"no engine {engine!r:.40} here: support is recorded for {', '.join(table)}")
    return table[engine]


def support(name: str, accelerator: Accelerator, engine: str) -> Support:
    """Whether an engine runs a scheme on a chip.

    Parameters
    ----------
    name : str
        One of `schemes`.
    accelerator : Accelerator
    engine : str
        One of `engines`.

    Returns
    -------
    Support

    Raises
    ------
    CalcError
        If the scheme or the engine is not in the catalogue.

    Notes
    -----
    For dense models, as the engine's documentation and source state it for one release. That a scheme is
    supported does not mean that its kernel is fast.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> support("fp8-channel", accelerator("h100-sxm"), "vllm").multiplies
    'fp8'
    >>> support("fp8-channel", accelerator("a100-80gb-sxm"), "vllm").why
    'stored as fp8, multiplied as bf16'
    """
    how, rules = scheme(name), _engine(engine)
    capability = load_json("quantization.json")["capability"].get(accelerator.slug)
    if capability is None:
        return Support(None, f"{rules['name']}: no support recorded for {accelerator.name}")
    if name == ORIGINAL:
        return Support("bf16", "the original")
    if capability == "amd":
        return _native(how) if name in rules["amd"] else Support(None, f"{rules['name']} lists no support on AMD")
    if name in rules.get("refused", ()):
        return Support(None, f"{rules['name']} does not list it")
    least = rules.get("least_by_scheme", {}).get(name, 0)
    window = rules.get("only", {}).get(name, {})
    native = rules["native"].get(how.multiplies)
    if how.multiplies in accelerator.peaks and native and _inside(native | window, capability):
        return _native(how)
    widened = rules["weights_only"].get(how.element)
    if widened and not window and capability >= least and _inside(widened, capability):
        return Support("bf16", f"stored as {how.element}, multiplied as bf16")
    return Support(None, f"{rules['name']} lists no support at compute capability {capability}")


def _native(how: Scheme) -> Support:
    return Support(how.multiplies, f"multiplied as {how.multiplies}")


def _inside(window: Mapping[str, float], capability: float) -> bool:
    return window.get("least", 0) <= capability < window.get("below", 100)


# --- what others measured ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recovery:
    """A quantized model's score over the original's, percent; a bound where only that is printed."""

    percent: float
    at_least: bool
    source: str
    url: str

    def __str__(self) -> str:
        return f"{'at least ' if self.at_least else ''}{significant(self.percent, 4)}%"


def benchmarks() -> tuple[str, ...]:
    """Benchmarks for which recoveries are recorded.

    Examples
    --------
    >>> benchmarks()[:2]
    ('OpenLLM v1', 'OpenLLM v2')
    """
    return tuple(load_json("quantization.json")["recovery"]["benchmarks"])


def recovery(slug: str, name: str, benchmark: str) -> Recovery | None:
    """The published quality of a quantized model.

    Parameters
    ----------
    slug : str
        The model, by its name in the catalogue of `calc.models`.
    name : str
        One of `schemes`.
    benchmark : str
        One of `benchmarks`.

    Returns
    -------
    Recovery or None
        None where nothing was found: unknown stays unknown.

    Raises
    ------
    CalcError
        If there is no such benchmark.

    Examples
    --------
    >>> str(recovery("llama-3.1-70b", "gptq-int4-g128", "OpenLLM v2"))
    '97.4%'
    >>> recovery("llama-3.1-70b", "nvfp4", "OpenLLM v2") is None
    True
    """
    if benchmark not in benchmarks():
        raise CalcError(f"no benchmark {benchmark!r:.40} here: use {', '.join(benchmarks())}")
    if name == ORIGINAL:
        return Recovery(100.0, False, "the original, by definition", "")
    entry = load_json("quantization.json")["recovery"]["models"].get(slug, {}).get(name, {})
    value = entry.get(benchmark)
    if value is None:
        return None
    bound = isinstance(value, dict)
    return Recovery(value["at_least"] if bound else value, bound, entry["source"], entry["url"])


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured multiplications: how many times faster than bf16, with which engine, at how many tokens."""

    times_faster: float
    engine: str
    tokens: int
    microseconds: float


def timing_records(accelerator_slug: str) -> tuple[Mapping[str, Any], ...]:
    """The records of measured multiplications on one chip, as the data file holds them."""
    records = load_json("quantization.json")["kernels"]["records"]
    return tuple(r for r in records if r["accelerator"] == accelerator_slug)


def measured_tokens() -> tuple[int, ...]:
    """Numbers of tokens at which multiplications were measured."""
    return tuple(load_json("quantization.json")["kernels"]["tokens"])


def _measured_as(how: Scheme, multiplies: str) -> str:
    """The name under which the data file holds a scheme's multiplications on such a chip."""
    if multiplies == "bf16":
        return "bf16" if how.element == "bf16" else f"{how.element}-w{int(how.bits)}a16"
    if how.element == "fp4":
        return "mxfp4" if how.block == (1, 32) else "nvfp4"
    return "fp8-block" if how.element == "fp8" and None not in how.block else how.element


def timing(
    name: str, multiplies: str, accelerator_slug: str, *, model: ModelGeometry, ranks: int, tokens: int, engine: str
) -> Timing | None:
    """The published speed of a scheme's multiplications against bf16, with the same engine on the same chip.

    Parameters
    ----------
    name : str
        One of `schemes`.
    multiplies : str
        The arithmetic it gets there: see `support`.
    accelerator_slug : str
    model : ModelGeometry
    ranks : int
        Tensor-parallel ranks.
    tokens : int
        Tokens in a step; the nearest measured number is taken.
    engine : str
        Preferred engine where several were measured.

    Returns
    -------
    Timing or None
        None where nothing was measured for such matrices.

    Raises
    ------
    CalcError
        If there is no such scheme, or no token.

    Notes
    -----
    FP8 was measured with one scale for each tensor, and stands for channel scales too: a scale for each row and
    token is applied to the product once, as one for all is.

    Examples
    --------
    >>> from calc.models import load
    >>> found = timing("int8-channel", "int8", "a100-80gb-sxm", model=load("llama-3.1-70b"), ranks=8, tokens=64,
    ...     engine="vllm")
    >>> round(found.times_faster, 2), found.engine
    (1.45, 'TensorRT-LLM 1.0.0')
    """
    plain("timing", "tokens", tokens, "count>0")
    if not _same_matrices(model, ranks):
        return None
    counts = measured_tokens()
    at = min(range(len(counts)), key=lambda i: abs(log(counts[i] / tokens)))
    kind = _measured_as(scheme(name), multiplies)
    records = [r for r in timing_records(accelerator_slug) if kind in r["microseconds"]]
    if not records:
        return None
    record = min(records, key=lambda r: not r["engine"].lower().startswith(engine))
    times = record["microseconds"]
    return Timing(times[ORIGINAL][at] / times[kind][at], record["engine"], counts[at], times[kind][at])


def _same_matrices(model: ModelGeometry, ranks: int) -> bool:
    """Whether a rank's attention output, gate, up and down have the shapes that were measured."""
    table = load_json("quantization.json")["kernels"]
    wanted = table["model"]
    return ranks == table["ranks"] and model.hidden == wanted["hidden"] and all(
        isinstance(layer.mlp, DenseMLP)
        and layer.mlp.intermediate == wanted["intermediate"]
        and isinstance(layer.mixer, FullAttention)
        and layer.mixer.query_heads * layer.mixer.value_dim == wanted["query_width"]
        for layer in model.layers
    )  # fmt: skip


# --- the choice ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One scheme for one model on one chip with one engine.

    Attributes
    ----------
    scheme : str
        Its name in the catalogue.
    support : Support
    rank_bytes : float
        Weights on one rank: an equal share.
    fits : bool
        Whether a rank has room for them and for the cache that is wanted.
    recovery : Recovery or None
    timing : Timing or None
    """

    scheme: str
    support: Support
    rank_bytes: float
    fits: bool
    recovery: Recovery | None
    timing: Timing | None

    @property
    def name(self) -> str:
        """For display."""
        return scheme(self.scheme).name

    @property
    def possible(self) -> bool:
        """Whether it runs and fits."""
        return self.support.runs and self.fits

    @property
    def known(self) -> bool:
        """Whether quality and speed were both published."""
        return self.recovery is not None and self.timing is not None


def candidates(
    model: ModelGeometry,
    slug: str,
    accelerator: Accelerator,
    *,
    engine: str,
    ranks: int,
    step_tokens: int,
    benchmark: str,
    usable_bytes: float,
    cache_bytes: float,
) -> tuple[Candidate, ...]:
    """All schemes of the catalogue for one deployment, with what is known of each.

    Parameters
    ----------
    model, slug : ModelGeometry, str
        The model, and its name in the catalogue, under which its published quality is kept.
    accelerator : Accelerator
    engine : str
        One of `engines`.
    ranks : int
        Tensor-parallel ranks.
    step_tokens : int
        Tokens in a step.
    benchmark : str
        One of `benchmarks`.
    usable_bytes, cache_bytes : float
        Memory of a rank that the engine may use, and what its cache must have.

    Returns
    -------
    tuple of Candidate

    Raises
    ------
    CalcError
        If a name is unknown or a number makes no sense.

    Notes
    -----
    Weights on a rank are an equal share of all; what ranks copy, and workspace, are left out.
    """
    ranks = plain("candidates", "ranks", ranks, "count>0")
    step_tokens = plain("candidates", "step_tokens", step_tokens, "count>0")
    found = []
    for name in schemes():
        how = support(name, accelerator, engine)
        share = stored(model, name).total_bytes / ranks
        seen = None
        if how.multiplies is not None:
            seen = timing(
                name, how.multiplies, accelerator.slug, model=model, ranks=ranks, tokens=step_tokens, engine=engine
            )
        found.append(
            Candidate(
                scheme=name,
                support=how,
                rank_bytes=share,
                fits=share + cache_bytes <= usable_bytes,
                recovery=recovery(slug, name, benchmark),
                timing=seen,
            )
        )
    return tuple(found)


def front(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The possible candidates, fully known, that no other one beats in bytes, quality and speed together.

    A bound on quality counts as the bound.
    """
    known = [c for c in found if c.possible and c.known]
    return tuple(c for c in known if not any(_beats(other, c) for other in known))


def _beats(one: Candidate, other: Candidate) -> bool:
    a, b = _score(one), _score(other)
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


def _score(c: Candidate) -> tuple[float, float, float]:
    assert c.recovery and c.timing
    return -c.rank_bytes, c.recovery.percent, c.timing.times_faster


def decide(found: Iterable[Candidate], *, floor_percent: float) -> Candidate | None:
    """The fastest possible candidate whose published quality reaches the floor; of equals the smallest.

    Parameters
    ----------
    found : iterable of Candidate
    floor_percent : float
        Least recovery, percent.

    Returns
    -------
    Candidate or None
        None where nothing possible is fully known and good enough: then measure.
    """
    good = [c for c in front(found) if c.recovery and c.recovery.percent >= floor_percent]
    return max(good, key=lambda c: (c.timing.times_faster if c.timing else 0, -c.rank_bytes), default=None)
