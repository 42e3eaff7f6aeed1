"""A slow tail: clocks that must agree, the segments of a slow request, and fast ones to compare it with.

`_formulas` holds the arithmetic, `_clocks` bounds another machine's clock from messages. `_traces` joins what client,
gateway and engine recorded of a request, `_diagnose` compares a slow one with a matched cohort. `_read_spans` and
`_read_metrics` take what tracing and monitoring export. `_summary` is what the live panel in `_panel` shows.
"""

from calc.tail._clocks import Between, ClockFit, align
from calc.tail._diagnose import (
    FINDINGS,
    Finding,
    cohort,
    find,
    findings,
    longest_step,
    prompts_in_step,
    shares,
)
from calc.tail._formulas import (
    added_seconds,
    bucket_point,
    chance_overlap,
    clock_offset,
    clock_slack,
    drift_slack,
    mean_shift,
    recompute_seconds,
    turn_seconds,
    turn_tokens,
    unclocked_seconds,
)
from calc.tail._panel import tail_panel
from calc.tail._read_metrics import Histogram, Metrics, Sample, read_metrics
from calc.tail._read_spans import EngineSpan, Span, engine_spans, outside_parent_s, read_spans
from calc.tail._summary import CaseSummary, SlowRequest, summary
from calc.tail._traces import (
    SEGMENTS,
    Case,
    Trace,
    cases,
    client_pairs,
    engine_pairs,
    join,
    moved,
    reading,
    repeats_of,
    skewed,
    traces_of,
)

__all__ = [
    "FINDINGS",
    "SEGMENTS",
    "Between",
    "Case",
    "CaseSummary",
    "ClockFit",
    "EngineSpan",
    "Finding",
    "Histogram",
    "Metrics",
    "Sample",
    "SlowRequest",
    "Span",
    "Trace",
    "added_seconds",
    "align",
    "bucket_point",
    "cases",
    "chance_overlap",
    "client_pairs",
    "clock_offset",
    "clock_slack",
    "cohort",
    "drift_slack",
    "engine_pairs",
    "engine_spans",
    "find",
    "findings",
    "join",
    "longest_step",
    "mean_shift",
    "moved",
    "outside_parent_s",
    "prompts_in_step",
    "read_metrics",
    "read_spans",
    "reading",
    "recompute_seconds",
    "repeats_of",
    "shares",
    "skewed",
    "summary",
    "tail_panel",
    "traces_of",
    "turn_seconds",
    "turn_tokens",
    "unclocked_seconds",
]
