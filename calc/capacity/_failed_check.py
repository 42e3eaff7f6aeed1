"""A start that failed: what the engine says it needed, held against the arithmetic, and what would start."""

from __future__ import annotations

from math import ceil, floor

from calc.capacity._cache_check import Reading
from calc.capacity._check import AGREES, DERIVED, DIFFERS, Check, close, signed_bytes, span
from calc.capacity._formulas import pool_blocks
from calc.capacity._log import StartupLog
from calc.units import counted, format_bytes, format_count, significant

NEEDED, LONGEST, CHANGE = "one longest sequence", "longest that fits", "to start"
HIGHEST = 0.99  # share of a GPU's memory that is worth trying


def failed_checks(
    log: StartupLog,
    readings: tuple[Reading, ...],
    *,
    stages: int,
    bits16: bool,
    total: float | None,
    fraction: float | None,
) -> list[Check]:
    """What a failed start needed and had; nothing for one that came up.

    Parameters
    ----------
    log : StartupLog
    readings : tuple of Reading
    stages : int
        Pipeline stages.
    bits16 : bool
        Whether the cache takes 2 bytes an element, so that fp8 would halve it.
    total, fraction : float, optional
        The GPU's memory and the engine's share of it, where they are known.
    """
    if not log.failed:
        return []
    checks, needed, fits = [], None, None
    length, available = log.get("length"), log.get("available")
    reading, block, note = readings[0], readings[0].block, ""
    if length:
        reading, block, note, check = _needed(log, readings, stages)
        needed = reading.layout.request_blocks(length=int(length.value), in_flight=reading.in_flight) * block
        checks.append(check)
    if available and length:
        fits, check = _longest(log, reading, block, note)
        checks.append(check)
    stored = log.get("stored")
    if stored:
        fits = int(stored.value)
    states = any(g.kind == "state" for g in reading.layout.groups)
    checks.append(_change(log, needed, fits, bits16=bits16, states=states, total=total, fraction=fraction))
    return checks


def _needed(log: StartupLog, readings: tuple[Reading, ...], stages: int) -> tuple[Reading, float, str, Check]:
    """The cache of one sequence of the longest length, by the reading that agrees."""
    length, printed = log.get("length"), log.get("needed")
    rows = []
    for reading in readings:
        blocks = reading.layout.request_blocks(length=int(length.value), in_flight=reading.in_flight)
        one = f"{format_count(blocks)} blocks of {{}}"
        rows.append((reading, reading.block, "", one))
        if stages > 1:
            all_layers = "; of all layers, as vLLM 0.15 reckons, though a stage holds only its own (vllm issue 34076)"
            rows.append((reading, reading.layout.block_bytes(), all_layers, one))
    for reading, block, note, one in rows:
        value = reading.layout.request_blocks(length=int(length.value), in_flight=reading.in_flight) * block
        if printed and close(printed, value) == AGREES:
            text = one.format(format_bytes(block)) + note
            check = Check(NEEDED, format_bytes(printed.value), format_bytes(value), AGREES, text, (printed.line,))
            return reading, block, note, check
    reading, block, _, one = rows[0]
    value = reading.layout.request_blocks(length=int(length.value), in_flight=reading.in_flight) * block
    note = one.format(format_bytes(block))
    if printed is None:
        return reading, block, "", Check(NEEDED, "", format_bytes(value), DERIVED, note, (length.line,))
    if reading.unsaid:
        note += ", if no token is in flight: the log doesn't print max_num_batched_tokens"
    else:
        apart = max(printed.value, value) / max(1, min(printed.value, value))
        note += f": {significant(apart, 3)}× apart, as with another cache type or another cut"
    verdict = DERIVED if reading.unsaid else DIFFERS
    check = Check(NEEDED, format_bytes(printed.value), format_bytes(value), verdict, note, (printed.line,))
    return reading, block, "", check


def _longest(log: StartupLog, reading: Reading, block: float, note: str) -> tuple[int, Check]:
    """The longest sequence that the memory left holds: the engine's estimate, or ours where it gives none."""
    available, printed, length = log.get("available"), log.get("estimated"), log.get("length")
    ends = [
        _fitting(reading, int(pool_blocks(pool_bytes=max(0, memory), block_bytes=block)), int(length.value))
        for memory in (available.value - available.half_step, available.value + available.half_step)
    ]
    text = f"whole blocks of {format_bytes(block)} in {signed_bytes(available.value)}{note}"
    if printed is None:
        return ends[0], Check(LONGEST, "", f"{span(*ends)} tokens", DERIVED, text, (available.line,))
    agrees = ends[0] <= printed.value <= ends[1]
    verdict = AGREES if agrees else DERIVED if reading.unsaid else DIFFERS
    texts = counted(printed.value, "token"), f"{span(*ends)} tokens"
    lines = tuple(dict.fromkeys((printed.line, available.line)))
    return int(printed.value), Check(LONGEST, *texts, verdict, text, lines)


def _fitting(reading: Reading, blocks: int, length: int) -> int:
    """The most positions, up to a length, whose blocks are at most so many."""
    least, most = 0, length
    while least < most:
        middle = (least + most + 1) // 2
        if reading.layout.request_blocks(length=middle, in_flight=reading.in_flight) <= blocks:
            least = middle
        else:
            most = middle - 1
    return least


def _change(
    log: StartupLog,
    needed: float | None,
    fits: int | None,
    *,
    bits16: bool,
    states: bool,
    total: float | None,
    fraction: float | None,
) -> Check:
    """What to change so that it starts."""
    available, stated = log.get("available"), log.get("needed")
    free, whole = log.get("free"), log.get("total")
    if free and whole and whole.value:
        share = floor(100 * free.value / whole.value) / 100
        note = "something else is on the GPU. Either of: stop it; gpu_memory_utilization of at most what is free"
        return Check(CHANGE, "", f"{share:.2f}", DERIVED, note, (free.line,))
    ranks = "more ranks, each with a part of the weights and of the cache"
    if log.get("empty") or (available and available.value <= 0):
        missing = -available.value if available and available.value < 0 else None
        share = _share(missing, total, fraction, least=True)
        ways = [ranks, "weights in fewer bits", "fewer tokens in a step (max_num_batched_tokens)", share]
        text = f"{signed_bytes(available.value)} left" if available else ""
        return Check(CHANGE, "", text, DERIVED, "weights and the trial step leave nothing. Any of: " + "; ".join(ways))
    if stated:
        needed = stated.value  # what the engine asks for is what counts
    ways = [f"max_model_len of at most {format_count(fits)}"] if fits else []
    if bits16:
        ways.append("an fp8 cache, with half the bytes a position")
        if needed is not None and available and not states:
            over = needed / 2 > available.value
            ways[-1] += f": {format_bytes(needed / 2)}{', still more than there is' if over else ', which fits'}"
    missing = needed - available.value if needed is not None and available else None
    ways += [ranks, _share(missing, total, fraction)]
    return Check(CHANGE, "", counted(fits, "token") if fits else "", DERIVED, "any of: " + "; ".join(ways))


def _share(missing: float | None, total: float | None, fraction: float | None, least: bool = False) -> str:
    if missing is None:
        return "a higher gpu_memory_utilization"
    more = f"{'more than ' if least else ''}{format_bytes(missing)} more for the cache"
    if total is None or fraction is None:
        return f"a higher gpu_memory_utilization, for {more}"
    share = ceil((fraction + missing / total) * 100) / 100
    if share > HIGHEST:
        return f"a larger GPU: {more} is beyond any gpu_memory_utilization of this one"
    wanted = f"{'above' if least else 'of'} {share:.2f} in place of {significant(fraction)}"
    return f"gpu_memory_utilization {wanted}, for {more}"
