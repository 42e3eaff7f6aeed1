"""What a million requests of 200 tokens cost to measure: time against a plain loop, and peak memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np

from calc.latency import Batch, Chunk, Measurement, Timeline, measure, measure_stream
from calc.units import format_bytes, format_seconds, significant


def batches(requests: int, tokens: int, size: int = 5_000, seed: int = 1) -> Iterator[Batch]:
    """Made-up answers: a request every 10 ms, TTFT around 0.3 s, gaps around 20 ms."""
    random = np.random.default_rng(seed)
    for begin in range(0, requests, size):
        n = min(size, requests - begin)
        sent = np.arange(begin, begin + n) * 0.01
        gaps = random.standard_exponential((n, tokens), dtype=np.float32).astype(float) * 0.02
        gaps[:, 0] = 0.2 + 5 * gaps[:, 0]
        times = np.cumsum(gaps, axis=1) + sent[:, None]
        yield Batch(sent, times.ravel(), np.full(n, tokens))


def bench(requests: int = 1_000_000, tokens: int = 200, sample: int = 500) -> Measurement:
    """Measure a made-up run and print what it cost.

    Parameters
    ----------
    requests, tokens : int
        Size of the run.
    sample : int
        Requests for the plain loop that it is compared with.
    """
    began = time.perf_counter()
    for _ in batches(requests, tokens):
        pass
    making = time.perf_counter() - began
    began = time.perf_counter()
    streamed = measure_stream(batches(requests, tokens))
    streaming = time.perf_counter() - began - making
    few = next(batches(sample, tokens, size=sample))
    answers = few.times_s.reshape(sample, tokens)
    timelines = [
        Timeline(sent_s=float(s), chunks=tuple(Chunk(float(t)) for t in row), end_s=float(row[-1]))
        for s, row in zip(few.sent_s, answers, strict=True)
    ]
    began = time.perf_counter()
    measure(timelines)
    plain = (time.perf_counter() - began) * requests / sample
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{requests:,} requests of {tokens} tokens: {format_seconds(streaming)}, made in {format_seconds(making)}")
    print(f"a plain loop, from {sample} requests: {significant(plain / max(streaming, 1e-9), 2)}× that time")
    print(f"peak memory of the process: {format_bytes(peak)}")
    return streamed


if __name__ == "__main__":
    bench()
