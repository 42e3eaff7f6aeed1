"""Latency and goodput: what a run felt like, in the book's words and in those of every common tool.

`_timeline` holds what was recorded of a request, `_request` the book's own definitions, `_formulas` their
arithmetic, `_percentiles`, `_counts` and `_spread` the statistics. `_loop` makes recordings of simulated
clients, `_retries` turns attempts into requests. `_tools` computes what each tool would, `_dialect` says in
words what that is and where it was read, and `measure` puts both together. `_read_…` take the tools' own
result files, `_detect` finds out whose a file is, `_stream` runs too long to hold in memory, `_recorded` a
summary of the book's own runs.
"""

from calc.latency._counts import fewest_requests, requests_within
from calc.latency._detect import ResultFile, read_result
from calc.latency._dialect import QUANTITIES, Dialect, dialect, dialects, mlperf_limits
from calc.latency._formulas import (
    attainment,
    end_to_end,
    normalized_latency,
    per_second,
    requests_decoding,
    time_per_output_token,
    time_to_first_token,
    tokens_per_message,
    tpot_left_by_end_to_end,
)
from calc.latency._loop import delayed_requests, from_due, one_at_a_time, serial_latency
from calc.latency._measure import Measurement, Statistic, measure, observations
from calc.latency._objectives import Objectives
from calc.latency._panel import goodput_panel
from calc.latency._percentiles import (
    METHODS,
    binomial_cdf,
    histogram_percentile,
    interval_ranks,
    percentile,
    percentile_interval,
    requests_for_margin,
    requests_for_percentile,
    requests_to_prove,
    weighted_percentile,
)
from calc.latency._read_aiperf import read_aiperf
from calc.latency._read_guidellm import read_guidellm
from calc.latency._read_llmservingsim import Tick, read_llmservingsim, read_ticks
from calc.latency._read_shelf import Gauge, Repeat, read_shelf, shelf
from calc.latency._read_vllm import read_vllm_bench
from calc.latency._recorded import Hop, Load, RatePoint, goodput_by_rate, hops, loads
from calc.latency._request import RequestLatency, Stall, gaps, request_latency, stalls
from calc.latency._retries import fold_retries
from calc.latency._stream import Batch, measure_stream
from calc.latency._timeline import BOUNDARIES, KINDS, STATUSES, Chunk, Run, Timeline

__all__ = [
    "BOUNDARIES",
    "KINDS",
    "METHODS",
    "QUANTITIES",
    "STATUSES",
    "Batch",
    "Chunk",
    "Dialect",
    "Gauge",
    "Hop",
    "Load",
    "Measurement",
    "Objectives",
    "RatePoint",
    "Repeat",
    "RequestLatency",
    "ResultFile",
    "Run",
    "Stall",
    "Statistic",
    "Tick",
    "Timeline",
    "attainment",
    "binomial_cdf",
    "delayed_requests",
    "dialect",
    "dialects",
    "end_to_end",
    "fewest_requests",
    "fold_retries",
    "from_due",
    "gaps",
    "goodput_by_rate",
    "goodput_panel",
    "histogram_percentile",
    "hops",
    "interval_ranks",
    "loads",
    "measure",
    "measure_stream",
    "mlperf_limits",
    "normalized_latency",
    "observations",
    "one_at_a_time",
    "per_second",
    "percentile",
    "percentile_interval",
    "read_aiperf",
    "read_guidellm",
    "read_llmservingsim",
    "read_result",
    "read_shelf",
    "read_ticks",
    "read_vllm_bench",
    "request_latency",
    "requests_decoding",
    "requests_for_margin",
    "requests_for_percentile",
    "requests_to_prove",
    "requests_within",
    "serial_latency",
    "shelf",
    "stalls",
    "time_per_output_token",
    "time_to_first_token",
    "tokens_per_message",
    "tpot_left_by_end_to_end",
    "weighted_percentile",
]
