"""Hold the roofline's floor against every row of measured H100 kernels and write what came out to the data folder.

Run as ``uv run --with pyarrow tools/roofline_check.py PROFILES`` or with any Python that has pyarrow, the one package
that the book itself does without. PROFILES is a folder with the four public files that `SOURCES` names; they are not
part of this repository, only counts and quantiles taken from them are.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from calc import roofline  # noqa: E402
from calc.hardware import accelerator  # noqa: E402
from calc.kv_cache import bytes_per_position  # noqa: E402
from calc.units import parse  # noqa: E402

OUTPUT = Path(__file__).parent.parent / "data" / "roofline_check.json"
AICONFIGURATOR = {
    "source": "ai-dynamo/aiconfigurator 0.12.0, kernels of vLLM 0.24 measured on an H100 SXM, Apache-2.0",
    "url": "https://github.com/ai-dynamo/aiconfigurator",
}
VIDUR = {
    "source": "microsoft/vidur at 7d475133, data/profiling, MIT",
    "url": "https://github.com/microsoft/vidur/tree/7d475133/data/profiling",
}
SOURCES = {
    "h100_sxm_vllm0.24_gemm.parquet": AICONFIGURATOR,
    "h100_sxm_vllm0.24_decode_attention.parquet": AICONFIGURATOR,
    "h100_llama2_70b_mlp.csv": VIDUR,
    "h100_dgx_all_reduce.csv": VIDUR,
}
CACHE = {
    "amount": "50 MB",
    "source": "NVIDIA, Hopper Tuning Guide, increased L2 capacity",
    "url": "https://docs.nvidia.com/cuda/hopper-tuning-guide",
    "checked": "2026-11-30",
}
CHIP = accelerator("h100-sxm")
BANDWIDTH, LINK = CHIP.bandwidth.value, CHIP.link("nvlink").bytes_per_second.value
QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)
PER_DECADE, PER_OCTAVE = 6, 4  # cells of the histogram: of the floor, and of the ratio
DECADES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
BLOCK = 128  # weights in a side of an fp8 block, one fp32 scale each


@dataclass(frozen=True, slots=True)
class Timed:
    """One measured row: its floor, its time, the bytes it moves at least, and its floor with its input at hand.

    Of a product also how long its arithmetic takes at the peak, and the share of its bytes that are its input.
    """

    floor_s: float
    measured_s: float
    moved_bytes: float
    input_at_hand_s: float = 0.0
    multiply_s: float = 0.0
    input_share: float = 0.0

    @property
    def ratio(self) -> float:
        """Measured over floor."""
        return self.measured_s / self.floor_s


def product(*, tokens: int, inputs: int, outputs: int, weight_bytes: float, peak: str, seconds: float) -> Timed:
    """A matrix product in 16-bit activations: its weights, its input and its output move once."""
    states = 2 * tokens * (inputs + outputs)
    flop = roofline.matmul_flop(step_tokens=tokens, weights=inputs * outputs)
    moved = weight_bytes + states
    floor = roofline.floor_seconds(flop=flop, moved_bytes=moved, peak=CHIP.peak(peak).value, bandwidth=BANDWIDTH)
    near = roofline.floor_seconds(
        flop=flop,
        moved_bytes=weight_bytes + 2 * tokens * outputs,
        peak=CHIP.peak(peak).value,
        bandwidth=BANDWIDTH,
    )
    return Timed(floor, seconds, moved, near, flop / CHIP.peak(peak).value, 2 * tokens * inputs / moved)


def products(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Timed]]:
    """Matrix products of vLLM's linear layers: bf16, fp8, and fp8 with a scale for each block."""
    for row in rows:
        tokens, outputs, inputs = row["m"], row["n"], row["k"]
        kind, weights = row["gemm_dtype"], inputs * outputs
        size = {"bfloat16": 2 * weights, "fp8": weights, "fp8_block": weights}[kind]
        if kind == "fp8_block":
            size += 4 * math.ceil(outputs / BLOCK) * math.ceil(inputs / BLOCK)
        peak, seconds = "bf16" if kind == "bfloat16" else "fp8", row["latency"] / 1000
        shape = {"tokens": tokens, "inputs": inputs, "outputs": outputs}
        yield f"product, {kind}", product(**shape, weight_bytes=size, peak=peak, seconds=seconds)


def attentions(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Timed]]:
    """Decode attention of one layer: the cache of every sequence is read once, by one query token each."""
    for row in rows:
        held = min(row["step"] + 1, row["window_size"] or math.inf)  # the new token's own position included
        kind = row["kv_cache_dtype"]
        sizes = {"query_heads": row["num_heads"], "key_dim": row["head_dim"], "value_dim": row["head_dim"]}
        position = bytes_per_position(
            layers=1,
            kv_heads=row["num_key_value_heads"],
            head_dim=row["head_dim"],
            element_bytes=1 if kind == "fp8" else 2,
        )
        moved = row["batch_size"] * (held * position + 2 * 2 * row["num_heads"] * row["head_dim"])
        floor = roofline.floor_seconds(
            flop=row["batch_size"] * roofline.decode_flop(**sizes, positions=held),
            moved_bytes=moved,
            peak=CHIP.peak("fp8" if kind == "fp8" else "bf16").value,
            bandwidth=BANDWIDTH,
        )
        yield f"decode attention, cache in {kind}", Timed(floor, row["latency"] / 1000, moved)


def blocks(rows: list[dict[str, str]]) -> Iterator[tuple[str, Timed]]:
    """The four matrix products of a layer of Llama-2-70B in fp16, the fastest of their repeats."""
    for row in rows:
        tokens, ranks, hidden = (int(row[k]) for k in ("num_tokens", "num_tensor_parallel_workers", "n_embd"))
        heads, groups, wide = (int(row[k]) // ranks for k in ("n_head", "n_kv_head", "n_expanded_embd"))
        size = hidden // int(row["n_head"])
        shapes = {
            "attn_pre_proj": (hidden, (heads + 2 * groups) * size),
            "attn_post_proj": (heads * size, hidden),
            "mlp_up_proj": (hidden, 2 * wide),
            "mlp_down_proj": (wide, hidden),
        }
        for name, (inputs, outputs) in shapes.items():
            shape = {"tokens": tokens, "inputs": inputs, "outputs": outputs, "weight_bytes": 2 * inputs * outputs}
            seconds = float(row[f"time_stats.{name}.min"]) / 1000
            yield "a layer of Llama-2-70B, fp16", product(**shape, peak="bf16", seconds=seconds)


def sums(rows: list[dict[str, str]]) -> Iterator[tuple[str, Timed]]:
    """All-reduces over NVLink, the fastest of their repeats: a rank sends the ring's share."""
    for row in rows:
        size, ranks = int(row["size"]), int(row["num_workers"])
        sent = roofline.ring_bytes(message_bytes=size, ranks=ranks)
        floor = roofline.all_reduce_seconds(sent_bytes=sent, one_direction=LINK)
        yield f"all-reduce, {ranks} ranks", Timed(floor, float(row["time_stats.all_reduce.min"]) / 1000, sent)


def quantile(ordered: list[float], share: float) -> float:
    """The value at a share of the way through ordered values, between neighbors in proportion."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def rounded(value: float) -> float:
    """Four significant digits: enough for a picture and a sentence."""
    return float(f"{value:.4g}")


def summary(rows: list[Timed]) -> dict[str, Any]:
    """Counts and quantiles of measured over floor, by the size of the floor too, and the cells of a histogram."""
    cache = parse(CACHE["amount"]).value
    ratios = sorted(row.ratio for row in rows)
    beaten = [row for row in rows if row.ratio < 1]
    beyond = [row.ratio for row in rows if row.moved_bytes > cache]
    cells = Counter(
        (math.floor(PER_DECADE * math.log10(row.floor_s)), math.floor(PER_OCTAVE * math.log2(row.ratio)))
        for row in rows
    )
    bands = []
    for low, high in zip((0, *DECADES), (*DECADES, math.inf), strict=True):
        inside = sorted(row.ratio for row in rows if low <= row.floor_s < high)
        if inside:
            ends = {"from_s": low, "to_s": None if high == math.inf else high, "rows": len(inside)}
            bands.append(ends | {f"p{100 * q:g}": rounded(quantile(inside, q)) for q in (0.05, 0.5, 0.95)})
    found = {
        "rows": len(rows),
        "ratio": {f"p{100 * q:g}": rounded(quantile(ratios, q)) for q in QUANTILES},
        "beat_the_floor": len(beaten),
        "of_them_in_cache": sum(row.moved_bytes <= cache for row in beaten),
        "of_them_hold_with_input_at_hand": sum(row.measured_s >= row.input_at_hand_s for row in beaten),
        "in_cache": sum(row.moved_bytes <= cache for row in rows),
        "by_floor": bands,
        "cells": sorted([*cell, count] for cell, count in cells.items()),
    }
    if beyond:
        found["least_beyond_cache"] = rounded(min(beyond))
    if beaten:
        found["most_arithmetic"] = rounded(max(row.multiply_s / row.floor_s for row in beaten))
        found["least_input_share"] = rounded(min(row.input_share for row in beaten))
        found["largest_that_beat_bytes"] = max(row.moved_bytes for row in beaten)
        found["fastest_read"] = rounded(max(row.moved_bytes / row.measured_s for row in beaten))
    return found


def starts(rows: list[dict[str, str]]) -> dict[str, dict[str, float]]:
    """All-reduces of the smallest message of at least 16 KiB, for each number of ranks: what one costs at batch 1."""
    found = {}
    for ranks in sorted({int(row["num_workers"]) for row in rows}):
        of_these = [row for row in rows if int(row["num_workers"]) == ranks and int(row["size"]) >= 16 * 1024]
        least = min(of_these, key=lambda row: int(row["size"]))
        times = {
            name: rounded(float(least[f"time_stats.all_reduce.{name}"]) / 1000) for name in ("min", "median", "max")
        }
        found[str(ranks)] = {"message_bytes": int(least["size"])} | {f"{name}_s": times[name] for name in times}
    return found


def table(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV or Parquet file."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    import pyarrow.parquet  # not needed by the book, nor by the CSV files

    return pyarrow.parquet.read_table(path).to_pylist()


READERS = dict(zip(SOURCES, (products, attentions, blocks, sums), strict=True))


def check(profiles: Path, names: tuple[str, ...] = tuple(SOURCES)) -> dict[str, Any]:
    """Summaries by kind of kernel of some of the files.

    Parameters
    ----------
    profiles : Path
        Folder of the files.
    names : tuple of str
        Keys of `SOURCES`.
    """
    kinds: dict[str, list[Timed]] = {}
    origin = {}
    for name in names:
        for kind, row in READERS[name](table(profiles / name)):
            kinds.setdefault(kind, []).append(row)
            origin[kind] = name
    return {kind: {"file": origin[kind]} | summary(rows) for kind, rows in kinds.items()}


def main() -> None:
    """Write the data file."""
    about = (
        "Measured H100 kernels over the roofline's floor: peak of the type, 3.35 TB/s, weights, inputs and outputs "
        "moved once. Matrix products of vLLM's linear layers and its decode attention (mean of six runs); the four "
        "products of a Llama-2-70B layer and NCCL all-reduces (fastest of their repeats). Cells count rows: floor of "
        f"{PER_DECADE} × log10 of the floor in seconds, floor of {PER_OCTAVE} × log2 of the ratio."
    )
    found = {
        "about": about,
        "made": "2026-11-30",
        "made_by": "tools/roofline_check.py",
        "chip": CHIP.slug,
        "per_decade": PER_DECADE,
        "per_octave": PER_OCTAVE,
        "last_level_cache": CACHE,
        "files": SOURCES,
        "all_reduce_start": starts(table(Path(sys.argv[1]) / "h100_dgx_all_reduce.csv")),
        "kinds": check(Path(sys.argv[1])),
    }
    text = json.dumps(found, indent=1)
    OUTPUT.write_text(compact(text) + "\n", encoding="utf-8")


def compact(text: str) -> str:
    """JSON with each innermost list and object on one line."""
    import re

    return re.sub(r"([\[{])\n\s+([^\[\]{}]*?)\n\s+([\]}])", lambda m: m[1] + re.sub(r",\n\s+", ", ", m[2]) + m[3], text)


if __name__ == "__main__":
    main()
