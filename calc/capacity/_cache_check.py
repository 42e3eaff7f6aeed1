"""What a log says of its cache, held against the arithmetic: blocks, tokens, bytes per token, concurrency."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calc.capacity._check import AGREES, CLOSE, DERIVED, DIFFERS, Check, close, span
from calc.capacity._formulas import concurrency, pool_blocks, printed_tokens
from calc.capacity._log import Fact, StartupLog
from calc.capacity._pool import Group, Pool
from calc.units import format_bytes, format_count, format_percent, significant

TOKENS, TIMES = "cache size, tokens", "maximum concurrency"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a log: how the cache is laid out, tokens in flight, and what that would mean.

    Attributes
    ----------
    layout : Pool
    block : float
        Bytes of a block on the stage where it is largest.
    in_flight : int
    means : str
        What holds if this reading agrees; empty where the log says it all.
    """

    layout: Pool
    block: float
    in_flight: int
    means: str = ""

    @property
    def block_tokens(self) -> int:
        """Positions in the smallest block of any group, which is what older versions multiply by."""
        return min(g.block_tokens for g in self.layout.groups)

    @property
    def unsaid(self) -> bool:
        """Whether windows hold more than this, for tokens in flight that the log doesn't tell."""
        return not self.in_flight and any(g.window for g in self.layout.groups)


def without_windows(layout: Pool) -> Pool:
    """The layout of versions that keep every position in every layer: all layers share one block table."""
    tokens = min(g.block_tokens for g in layout.groups)
    places = [
        (layer, page * tokens / g.block_tokens)
        for g in layout.groups
        for layer, page in zip(g.layers, g.page_bytes, strict=True)
    ]
    return Pool((Group("full", tuple(i for i, _ in places), tuple(page for _, page in places), tokens),))


def cache_checks(log: StartupLog, readings: tuple[Reading, ...], ranks: int) -> tuple[list[Check], float | None]:
    """The checks by the reading that agrees with the log, else by the first; and what a token takes."""
    length = log.get("length")
    charges = {r.layout.request_blocks(length=int(length.value), in_flight=r.in_flight) for r in readings if length}
    found = [(r, *_by(log, r, ranks)) for r in readings]
    reading, checks, per_token = next((row for row in found if _agrees(row[1])), found[0])
    if reading.means and _agrees(checks) and (len(charges) > 1 or reading.layout is not readings[0].layout):
        named = {c.name: i for i, c in enumerate(checks) if c.verdict == AGREES}
        at = named.get(TOKENS if not log.older else TIMES, named.get(TOKENS))
        if at is not None:
            checks[at] = replace(checks[at], note=f"{checks[at].note}; {reading.means}")
    return checks, per_token


def _agrees(checks: list[Check]) -> bool:
    verdicts = {c.verdict for c in checks if c.name in (TOKENS, TIMES)}
    return AGREES in verdicts and DIFFERS not in verdicts


def _by(log: StartupLog, reading: Reading, ranks: int) -> tuple[list[Check], float | None]:
    available, blocks, layout = log.get("available"), log.get("blocks"), reading.layout
    tokens = log.get("tokens") or (log.get("stored") if layout.invertible else None)
    length, times = log.get("length"), log.get("concurrency")
    needed = layout.request_blocks(length=int(length.value), in_flight=reading.in_flight) if length else None
    checks: list[Check] = []
    ends = None
    if available:
        least, most = (available.value - available.half_step, available.value + available.half_step)
        ends = tuple(int(pool_blocks(pool_bytes=max(0, m), block_bytes=reading.block)) for m in (least, most))
        checks.append(_blocks(*ends, blocks, reading.block))
    elif blocks:
        ends = int(blocks.value), int(blocks.value)
        note = f"blocks times {format_bytes(reading.block)}"
        text = format_bytes(blocks.value * reading.block)
        checks.append(Check("memory of the blocks", "", text, DERIVED, note, (blocks.line,)))
    if tokens and ends is not None and (length or layout.invertible or log.get("tokens")):
        held = (int(blocks.value),) * 2 if blocks else ends
        check = _tokens(held, needed, tokens, length, reading, log.older, ranks)
        checks += [check] if check else []
    elif blocks and not available and layout.invertible:
        text = format_count(blocks.value * reading.block_tokens)
        checks.append(Check(TOKENS, "", text, DERIVED, "blocks times their size", (blocks.line,)))
    per_token, source = None, tokens or blocks
    if available and available.value > 0 and source and source.value:
        per_token = available.value / (source.value if tokens else source.value * reading.block_tokens)
        stretch = needed * reading.block_tokens / length.value if tokens and length and layout.invertible else 1.0
        lines = tuple(dict.fromkeys((available.line, source.line)))
        checks.append(_per_token(per_token, layout, reading.block / reading.block_tokens, stretch, lines))
    if length and times and (log.get("tokens") or log.get("stored") or ends is not None):
        counted = (int(blocks.value),) if blocks else ends  # what the memory allows only where no count is printed
        checks.append(_times(log, reading, needed, counted))
    if log.get("tokens") and not layout.invertible:
        checks.append(_size(log, len(layout.groups)))
    return checks, per_token if layout.invertible else None


def _blocks(least: int, most: int, printed: Fact | None, block: float) -> Check:
    note = f"memory over {format_bytes(block)} a block"
    if printed is None:
        return Check("blocks", "", span(least, most), DERIVED, note + ", as far as the memory is printed")
    verdict = AGREES if least <= printed.value <= most else DIFFERS
    return Check("blocks", format_count(printed.value), span(least, most), verdict, note, (printed.line,))


def _tokens(
    held: tuple[int, int],
    needed: int | None,
    printed: Fact,
    length: Fact | None,
    reading: Reading,
    older: bool,
    ranks: int,
) -> Check | None:
    """The printed size is concurrency times length; before 0.21, blocks over groups times their size."""
    groups, size = len(reading.layout.groups), reading.block_tokens
    shared = [count // groups * size for count in held]
    shown, note, agrees = shared, "blocks times their size", False
    if groups > 1:
        note = f"blocks over {groups} groups of layers, times {size} positions, as vLLM before 0.21 prints it"
    if reading.layout.invertible or older or length is None:
        agrees = shared[0] <= printed.value <= shared[1]
    if length and not agrees and not (older and groups > 1):
        shown = [printed_tokens(blocks=b, request_blocks=needed, length=int(length.value)) for b in held]
        note = "blocks over those of one longest sequence, times its length"
        agrees = shown[0] <= printed.value <= shown[1]
    elif not agrees and groups > 1 and not older:
        return None  # a newer version's, which takes the longest sequence
    unsaid = not agrees and not older and reading.unsaid
    if unsaid:
        note += (
            ", if no token is in flight: windows hold more with each, and the log doesn't print max_num_batched_tokens"
        )
    elif not agrees:
        off = printed.value / ((shown[0] + shown[1]) / 2) if shown[1] else 0
        change = f"{format_percent(abs(off - 1), 2)} {'more' if off > 1 else 'fewer'} than that"
        note += f": the log has {change}" if 0.5 < off < 1.9 else ": another cache type or another cut"
        note += ", as where another rank has less memory" if 0.5 < off < 1 and ranks > 1 else ""
    verdict = AGREES if agrees else DERIVED if unsaid else DIFFERS
    return Check(TOKENS, format_count(printed.value), span(*shown), verdict, note, (printed.line,))


def _times(log: StartupLog, reading: Reading, needed: int, held: tuple[int, ...] | None) -> Check:
    """Concurrency: the cache size over the length; before 0.21 blocks over those of a sequence, which may not be it."""
    tokens, length, times = log.get("tokens") or log.get("stored"), log.get("length"), log.get("concurrency")
    if log.older:
        held = _shared_out(tokens, len(reading.layout.groups), reading.block_tokens, held)
    if tokens and not log.older:
        ends, note = [tokens.value / length.value], "the cache size over the longest sequence"
    else:
        ends = [concurrency(blocks=int(count), request_blocks=needed) for count in held]
        note = f"blocks over {f'the {format_count(needed)}' if log.older else 'those'} of the longest sequence"
    if len({fact.value for fact in log.all("tokens")}) > 1:
        note += ", of the rank with the least"
    near = close(times, min(max(times.value, ends[0]), ends[-1]), 1 / length.value) == AGREES
    verdict = DERIVED if near else DIFFERS
    if log.older and near:
        verdict, note = AGREES, note + "; before vLLM 0.21 the cache size over it is another number"
    elif log.older and reading.unsaid:
        verdict, note = DERIVED, note + ", if no token is in flight: the log doesn't print max_num_batched_tokens"
    texts = f"{significant(times.value)}×", " to ".join(dict.fromkeys(f"{significant(end)}×" for end in ends))
    return Check(TIMES, *texts, verdict, note, (times.line,))


def _shared_out(tokens: Fact, groups: int, size: int, held: tuple[int, ...] | None) -> tuple[int, int]:
    """Least and most blocks that an older version's cache size may stand for, as far as the memory allows them."""
    least = int(tokens.value) // size * groups
    most = least + groups - 1
    if held and held[0] <= most and held[-1] >= least:
        return max(least, held[0]), min(most, held[-1])
    return least, most


def _size(log: StartupLog, groups: int) -> Check:
    tokens, length, times = (log.get(name) for name in ("tokens", "length", "concurrency"))
    note = "window or recurrent layers: it depends on the longest sequence and can't be turned into bytes per token"
    if log.older:
        note = f"blocks shared out evenly over {groups} groups of layers, which no request does: no capacity; "
        note += f"concurrency times the longest sequence is {format_count(round(times.value * length.value))}"
    return Check("the printed size", f"{format_count(tokens.value)} tokens", "", DERIVED, note)


def _per_token(value: float, layout: Pool, ours: float, stretch: float, lines: tuple[int, ...]) -> Check:
    """`stretch` is above 1 where the longest sequence is no whole number of blocks."""
    if not layout.invertible:
        text = "the quotient of two numbers of the log, and no property of the model"
        return Check("bytes per token", format_bytes(value), "", DERIVED, text, lines)
    note = "memory over tokens, against the cache of one position on the rank"
    agrees = abs(value / ours - 1) <= CLOSE
    if not agrees and abs(value / (ours * stretch) - 1) <= CLOSE:
        agrees, note = True, note + f", {significant(stretch)}× for a longest sequence that ends inside a block"
    if not agrees:
        note += f": {significant(max(value / ours, ours / value), 3)}× apart"
    return Check("bytes per token", format_bytes(value), format_bytes(ours), AGREES if agrees else DIFFERS, note, lines)
