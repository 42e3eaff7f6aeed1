"""Practice problems of the cold-start chapter."""

from calc.practice.cold_start._bytes import every_rank, from_a_log, one_hop, page_faults, passing_on
from calc.practice.cold_start._graphs import faster_storage, lever, ready, slack, unlogged
from calc.practice.cold_start._queue import drained, scale_up, waiting

PROBLEMS = (  # easy to hard
    one_hop,
    from_a_log,
    every_rank,
    unlogged,
    page_faults,
    passing_on,
    ready,
    waiting,
    faster_storage,
    slack,
    lever,
    drained,
    scale_up,
)
