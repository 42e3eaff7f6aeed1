"""The chapters that have problems, in the parts and the order of the book."""

from __future__ import annotations

import functools
import importlib

from calc.practice._problem import PracticeError, Problem

PARTS = {
    "memory": ("kv_cache", "attention_variants", "paged_attention", "capacity", "quantization", "multi_lora"),
    "time": ("roofline", "continuous_batching", "chunked_prefill", "speculative_decoding"),
    "service": (
        *("latency_and_goodput", "first_token_budget", "cold_start", "disaggregation", "tail_latency"),
        "engine_selection",
    ),
}


@functools.cache
def chapters() -> tuple[str, ...]:
    """The chapters that have problems, by the name of their module."""
    return tuple(sorted(chapter for part in PARTS.values() for chapter in part))


@functools.cache
def problems(chapter: str) -> dict[str, Problem]:
    """The problems of a chapter by id, easy to hard.

    Raises
    ------
    PracticeError
        If no chapter of that name has problems.
    """
    if chapter not in chapters():
        raise PracticeError(f"no practice for chapter {chapter[:40]!r}: there is {', '.join(chapters())}")
    module = importlib.import_module(f"calc.practice.{chapter}")
    return {p.id: p for p in module.PROBLEMS}
