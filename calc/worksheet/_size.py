"""The composite function: one deployment in, the whole book's numbers out."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import calc
from calc.units import UNITS, counted
from calc.worksheet import _fit, _memory, _service, _time
from calc.worksheet._choices import AUTO, Choices, choose
from calc.worksheet._lines import Line
from calc.worksheet._report import Report
from calc.worksheet._warnings import warnings

GIB, GB_PER_S = UNITS["GiB"].factor, UNITS["GB/s"].factor


def size(
    config: str | PathLike[str] | dict[str, Any] | bytes,
    *,
    accelerator: str = "h100-sxm",
    count: int | None = None,
    tensor: int = 1,
    pipeline: int = 1,
    expert_parallel: bool = False,
    weights: str = AUTO,
    arithmetic: str = AUTO,
    cache: str = AUTO,
    context: int = 8192,
    output: int = 1024,
    concurrency: int = 16,
    engine: str = "vllm",
    memory_fraction: float | None = None,
    workspace_bytes: float = 1.5 * GIB,
    graph_bytes: float = GIB,
    communication_bytes: float = GIB,
    block_tokens: int = 16,
    batched_tokens: int = 8192,
    prefix_caching: bool = True,
    lora_rank: int = 16,
    lora_slots: int = 0,
    draft_tokens: int = 3,
    acceptance: float = 0.7,
    draft_cost: float = 0.05,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    object_rate: float = 5 * GB_PER_S,
    disk_rate: float = 7 * GB_PER_S,
    host_rate: float | None = None,
    reached: float = 1.0,
    quantization_file: str | PathLike[str] | dict[str, Any] | None = None,
    name: str | None = None,
) -> Report:
    """Size one deployment: memory, floors of time, adapters, speculation and cold start.

    Parameters
    ----------
    config : str, path, dict or bytes
        A slug of `calc.models.catalogue`, the path of a ``config.json``, its text, or its parsed content. Beside a
        file, ``hf_quant_config.json`` is read too (``X.hf_quant_config.json`` beside ``X.json``).
    accelerator : str
        A slug of `calc.hardware.accelerators`.
    count : int or None
        GPUs there are; None for those of one replica. More make further replicas.
    tensor, pipeline : int
        Ranks that share every layer; stages of layers.
    expert_parallel : bool
        Whether whole experts are dealt out over the tensor ranks, instead of a slice of each.
    weights : str
        One of `weight_types`: "auto" takes what the checkpoint's own files say, 16 bits where they say nothing.
    arithmetic : str
        Type in which matrices are multiplied, one that the chip has a peak for; "auto" is the scheme's own where the
        chip has it, else bf16.
    cache : str
        One of `cache_types`; "auto" is what the quantization asks for, else the checkpoint's 16-bit type.
    context, output : int
        Tokens of a request's prompt and of its whole response. A sequence ends at ``context + output − 1`` positions:
        the last token is never put into the cache.
    concurrency : int
        Sequences at once on one replica.
    engine : str
        One of `calc.capacity.engines`: what `memory_fraction` is a share of.
    memory_fraction : float or None
        The engine's memory setting; None takes its default, or an assumed share where it works one out at start.
        llama.cpp takes none.
    workspace_bytes, graph_bytes, communication_bytes : float
        Activations and workspace without logits, captured graphs, communication buffers and context: on every GPU.
    block_tokens, batched_tokens : int
        Positions in a block; most tokens in one engine step.
    prefix_caching : bool
        Whether the engine keeps blocks for requests with the same beginning; hybrids hold more blocks then.
    lora_rank, lora_slots : int
        Rank of an adapter; slots that the engine reserves at that rank, 0 for none.
    draft_tokens, acceptance, draft_cost : int, float, float
        Draft tokens in a round, acceptance of each, and time of one over that of a plain step.
    ttft_s, tpot_s : float or None
        Limits on the time to the first token and the time per output token, seconds.
    object_rate, disk_rate, host_rate : float
        What object storage and the disks deliver to the node, and one GPU's host link, B/s; None takes the chip's.
    reached : float
        Share of these rates that arrives, up to 1.
    quantization_file : path, dict, str or None
        ``hf_quant_config.json``, if it lies elsewhere: path, content or text.
    name : str or None
        Name to show.

    Returns
    -------
    Report
        Its `values` and `to_json` have a fixed set of keys, listed in the documentation.

    Raises
    ------
    CalcError
        If a choice is out of range or unknown, the model or its quantization is refused, or can't be cut this way.
        A model that doesn't fit is no error: its `capacity.max_sequences` is 0.

    Notes
    -----
    Everything is computed by the functions of the chapters; this one puts them together. A number that could not be
    worked out is None, and `values["refused"]` says why.

    Examples
    --------
    >>> report = size("llama-3.1-70b", accelerator="h100-sxm", tensor=8, context=8192, output=1024)
    >>> report["kv.bytes_per_token"], report["capacity.max_sequences"]
    (327680, 150)
    >>> report["roofline.decode_bound"]
    'memory'
    """
    given = dict(locals())
    config, accelerator = given.pop("config"), given.pop("accelerator")
    c = choose(config, accelerator, given)
    m = _memory.work_out(c)
    t = _time.work_out(c, m)
    sections = (
        _memory.parameter_section(c, m),
        _memory.weight_section(c, m),
        _memory.cache_section(c, m),
        _fit.capacity_section(c, m),
        _time.roofline_section(c, m, t),
        _time.limits_section(c, m, t),
        _service.lora_section(c, m),
        _time.speculation_section(c, m, t),
        _service.cold_start_section(c, m),
    )
    report = Report(
        title=_title(c),
        about=_about(c),
        sections=tuple(s for s in sections if s is not None),
        warnings=warnings(c, m, t),
        assumptions=_assumptions(c),
    )
    return report if c.chip.noun == "GPU" else _called(report, c.chip.noun)


def _called(report: Report, noun: str) -> Report:
    """A report whose words say what its chips are: most texts say GPU."""

    def said(text: str) -> str:
        return text.replace("GPU", noun)

    def line(one: Line) -> Line:
        words = {name: said(getattr(one, name)) for name in ("label", "note", "working")}
        return replace(one, **words)

    return replace(
        report,
        sections=tuple(replace(s, lines=tuple(map(line, s.lines)), leaves_out=said(s.leaves_out))
                       for s in report.sections),
        warnings=tuple(replace(w, text=said(w.text)) for w in report.warnings),
    )  # fmt: skip


def _title(c: Choices) -> str:
    cut = "" if c.parallel.gpus == 1 else f", {c.parallel}"
    replicas = "" if c.replicas == 1 else f", {counted(c.replicas, 'replica')}"
    return f"{c.model.name} on {c.count} × {c.chip.name}{cut}{replicas}"


def _about(c: Choices) -> dict[str, Any]:
    return {
        "calc": calc.__version__,
        "model": {
            "name": c.model.name,
            "architecture": c.model.architecture,
            "layers": len(c.model.layers),
            "hidden": c.model.hidden,
            "vocab": c.model.vocab,
            "max_positions": c.model.max_positions,
            "source": c.model.source,
        },
        "accelerator": {
            "slug": c.chip.slug,
            "name": c.chip.name,
            "count": c.count,
            "gpus_per_replica": c.parallel.gpus,
            "replicas": c.replicas,
        },
    }


def _assumptions(c: Choices) -> dict[str, Any]:
    """Every choice as it was used, what stood behind "auto" included."""
    host = next((link.bytes_per_second.value for link in c.chip.links.values() if link.role == "host"), None)
    return {
        "accelerator": c.chip.slug,
        "count": c.count,
        "tensor": c.parallel.tensor,
        "pipeline": c.parallel.pipeline,
        "expert_parallel": c.parallel.experts,
        "weights": c.scheme.name,
        "weights_from": c.found_in
        if c.weights == AUTO and c.found is not None
        else "chosen"
        if c.weights != AUTO
        else "16 bits: the checkpoint's files name no quantization",
        "arithmetic": c.multiplies,
        "cache": c.cache,
        "cache_from": c.cache_why,
        "engine": c.engine,
        "memory_fraction": c.fraction,
        "memory_fraction_from": c.fraction_from,
        "positions_at_end": c.positions,
        "sequences_in_a_decode_step": _time.group_sequences(c),
        **{key: value for key, value in c.given.items() if key != "host_rate"},
        "host_rate": c.host_rate if c.host_rate is not None else host,
    }
