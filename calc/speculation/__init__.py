"""Speculative decoding: what a round emits, what it costs, and what "acceptance" means.

`_formulas` holds the closed forms, one function each, and `_search` what has none. `_exact` enumerates
rounds on a small vocabulary with fractions: the proof that the output is the target's, and that naive
rules miss it; `_trace` follows one round. `_floor` sets the step that checks a draft against a plain one.
`_log` reads one log in the words of every engine. `_panel` is the live panel of the chapter.
"""

from calc.speculation._exact import (
    LARGEST_VOCABULARY,
    LONGEST_DRAFT,
    RULES,
    Emitted,
    Outcome,
    Rule,
    chances,
    distance,
    one_position,
    overlap,
    residual,
    round_outcomes,
    sequences,
)
from calc.speculation._floor import VerificationFloor, verification_floor
from calc.speculation._formulas import (
    acceptance_length,
    accepted_share,
    accepted_when_tested,
    expected_accepted,
    expected_tokens,
    operations_factor,
    round_cost,
    round_seconds,
    round_speedup,
)
from calc.speculation._log import (
    MEASURES,
    AcceptanceLog,
    Convention,
    PublishedLengths,
    conventions,
    published_lengths,
)
from calc.speculation._panel import speculation_panel
from calc.speculation._search import (
    acceptance_for,
    best_draft_length,
    break_even_acceptance,
    by_position,
    expected_tokens_by_position,
)
from calc.speculation._trace import Tested, Trace, pick, trace_round

__all__ = [
    "LARGEST_VOCABULARY",
    "LONGEST_DRAFT",
    "MEASURES",
    "RULES",
    "AcceptanceLog",
    "Convention",
    "Emitted",
    "Outcome",
    "PublishedLengths",
    "Rule",
    "Tested",
    "Trace",
    "VerificationFloor",
    "acceptance_for",
    "acceptance_length",
    "accepted_share",
    "accepted_when_tested",
    "best_draft_length",
    "break_even_acceptance",
    "by_position",
    "chances",
    "conventions",
    "distance",
    "expected_accepted",
    "expected_tokens",
    "expected_tokens_by_position",
    "one_position",
    "operations_factor",
    "overlap",
    "pick",
    "published_lengths",
    "residual",
    "round_cost",
    "round_outcomes",
    "round_seconds",
    "round_speedup",
    "sequences",
    "speculation_panel",
    "trace_round",
    "verification_floor",
]
