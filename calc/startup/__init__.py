"""Cold start: what a new replica does before it answers, what waits for what, and what a change is worth.

`_formulas` holds the arithmetic, one function each. `_graph` puts phases that wait for one another in time: slack,
the critical path, what halving a phase gains. `_start` builds the graph of a replica from bytes and rates, `_levers`
ranks what can be done about it. `_recording` reads recorded starts and those that others printed. `_panel` is the
live panel of the chapter.
"""

from calc.startup._formulas import (
    average_rate,
    backlog,
    drain_seconds,
    link_bytes,
    payback_steps,
    pieces,
    pipelined_seconds,
    probe_wait,
    reached_rate,
    read_bytes,
    request_rate,
    seconds_left,
)
from calc.startup._graph import Cut, Phase, Schedule, Timed, allowance, cuts, lasting, schedule, walk_chain
from calc.startup._levers import Gain, Lever, apply, ranked, smallest_set, storage_allowance, usual_levers
from calc.startup._panel import PLACES, startup_panel
from calc.startup._recording import (
    PARTS,
    PublishedLoad,
    PublishedStart,
    RecordedStart,
    Spread,
    by_state,
    published_loads,
    published_starts,
    read_starts,
    recording,
    spread,
)
from calc.startup._start import COPY, ORDERS, WEIGHT_PHASES, WEIGHTS_FROM, Hop, StartUp, hops, phases, stream_seconds

__all__ = [
    "COPY",
    "ORDERS",
    "PARTS",
    "PLACES",
    "WEIGHTS_FROM",
    "WEIGHT_PHASES",
    "Cut",
    "Gain",
    "Hop",
    "Lever",
    "Phase",
    "PublishedLoad",
    "PublishedStart",
    "RecordedStart",
    "Schedule",
    "Spread",
    "StartUp",
    "Timed",
    "allowance",
    "apply",
    "average_rate",
    "backlog",
    "by_state",
    "cuts",
    "drain_seconds",
    "hops",
    "lasting",
    "link_bytes",
    "payback_steps",
    "phases",
    "pieces",
    "pipelined_seconds",
    "probe_wait",
    "published_loads",
    "published_starts",
    "ranked",
    "reached_rate",
    "read_bytes",
    "read_starts",
    "recording",
    "request_rate",
    "schedule",
    "seconds_left",
    "smallest_set",
    "spread",
    "startup_panel",
    "storage_allowance",
    "stream_seconds",
    "usual_levers",
    "walk_chain",
]
