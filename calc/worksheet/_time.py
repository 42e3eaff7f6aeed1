"""The sections on time: floors of prefill and decode, limits against them, speculation."""

from __future__ import annotations

from dataclasses import dataclass

from calc.models import MixtureOfExperts
from calc.quantization import crossover
from calc.roofline import (
    StepFloor,
    StepWork,
    crossover_tokens,
    floor_seconds,
    ring_bytes,
    step_floor,
    step_work,
)
from calc.speculation import break_even_acceptance, expected_tokens, round_cost, round_speedup
from calc.units import CalcError, counted, format_decimal, format_seconds, significant
from calc.worksheet._choices import Choices
from calc.worksheet._lines import Builder, Section
from calc.worksheet._memory import Memory, label_of
from calc.worksheet._terms import added, number, spelled

# Groups of a step, and the groups of parameters that they read
READS = {
    "projections": ("attention", "indexer", "compressor", "recurrent"),
    "mlp": ("mlp",),
    "router": ("router",),
    "routed_experts": ("routed_experts",),
    "shared_experts": ("shared_experts",),
    "norms": ("norms",),
    "hyper_connections": ("hyper_connections",),
    "head": ("lm_head", "embedding"),
}
FLOORS_LEAVE_OUT = (
    "Floors, not forecasts: all-reduces, launches, the host, sampling, activations, shapes that don't fill the chip, a "
    "clock that falls under load, and queueing come on top."
)
DECIMALS = 3  # of a ratio of floors: more would be read as exactness


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Floors, for the sections and the warnings; None where a layer's work is not known."""

    prefill: StepFloor | None
    decode: StepFloor | None
    last: StepFloor | None
    why_not: str = ""
    most_by_tpot: int | None = None


def peer(c: Choices) -> str | None:
    """The link between the ranks: the fastest one to other accelerators, or the host's where there is none."""
    links = {family: link for family, link in c.chip.links.items() if link.role == "peer"} or dict(c.chip.links)
    return max(links, key=lambda family: links[family].bytes_per_second.value, default=None)


def group_sequences(c: Choices) -> int:
    """Sequences that pass the stages together: with several stages, a group for each keeps all of them busy."""
    return max(1, c.concurrency // c.parallel.pipeline)


class Steps:
    """Steps of one set of choices, on one tensor-parallel rank through all layers."""

    def __init__(self, c: Choices, m: Memory) -> None:
        self.c = c
        self.options = {
            "cache_element": c.cache,
            "ranks": c.parallel.tensor,
            "bytes_per_weight": _widths(m),
        }

    def work(self, new: int, cached: int, sequences: int, head: str = "last") -> StepWork:
        return step_work(self.c.model, sequences={(new, cached): sequences}, head=head, **self.options)

    def floor(self, new: int, cached: int, sequences: int, head: str = "last") -> StepFloor:
        return step_floor(self.work(new, cached, sequences, head), self.c.chip, multiplies=self.c.multiplies)

    def links_s(self, floor: StepFloor) -> float:
        """Least time of a step's all-reduces by rings, alone; with many ranks, switches that add up can halve it."""
        return step_floor(floor.work, self.c.chip, multiplies=self.c.multiplies, link=peer(self.c)).links_s


def _widths(m: Memory) -> dict[str, float]:
    """Stored bytes of a parameter in each group of a step."""
    parts = {part.group: part for part in m.stored.parts}
    found = {}
    for group, names in READS.items():
        held = [parts[name] for name in names if name in parts]
        if group == "head":
            held = held[:1]
        if held:
            found[group] = sum(p.stored_bytes for p in held) / sum(p.parameters for p in held)
    return found


def work_out(c: Choices, m: Memory) -> Times:
    """The floors, once."""
    steps = Steps(c, m)
    try:
        return Times(
            prefill=steps.floor(c.context, 0, 1),
            decode=steps.floor(1, c.context, group_sequences(c)),
            last=steps.floor(1, c.positions, group_sequences(c)),
            most_by_tpot=None if c.tpot_s is None else most_sequences(c, m, c.tpot_s),
        )
    except CalcError as error:
        return Times(prefill=None, decode=None, last=None, why_not=str(error))


def roofline_section(c: Choices, m: Memory, t: Times) -> Section:
    """Floors of a prompt and of a decode step, and what binds them."""
    b = Builder("roofline", "Time floors", FLOORS_LEAVE_OUT)
    peak, bandwidth = c.chip.peak(c.multiplies), c.chip.bandwidth
    b.figure("peak", f"Dense peak in {c.multiplies}", peak, "FLOP/second", step="roofline#step-1")
    b.figure("bandwidth", "Memory bandwidth", bandwidth, "byte/second", step="roofline#step-1")
    note = "" if c.multiplies == "bf16" else "All products count at this peak; those that stay in 16 bits take longer."
    b.add("multiplies", "Multiplied as", c.multiplies, step="quantization#step-7", kind="assumed", note=note)
    if t.prefill is None or t.decode is None or t.last is None:
        for key, label in (("prefill_floor_s", "A prompt, least time"), ("decode_floor_s", "A decode step")):
            b.add(key, label, None, "second", step="roofline#step-4", note=t.why_not)
        return b.section()
    steps, rates = Steps(c, m), {"peak": peak.value, "bandwidth": bandwidth.value}
    for key, label, floor, note in (
        ("prefill", "A prompt", t.prefill, "All of it in one step, nothing cached before."),
        ("decode", "A decode step", t.decode, _decode_note(c)),
    ):
        work, floor_by = floor.work, _floor_by(floor, rates)
        step = "roofline#step-2"
        by = _groups(work, "flop", "FLOP")
        b.add(f"{key}.flop", f"{label}: arithmetic on a rank", work.flop, "FLOP", step="roofline#step-4", by=by)
        by = _groups(work, "weight_bytes", "byte")
        b.add(f"{key}.weight_bytes", f"{label}: weights read", work.weight_bytes, "byte", step=step, by=by)
        if key == "decode":
            by = _groups(work, "cache_bytes", "byte")
            b.add("decode.cache_bytes", f"{label}: cache read", work.cache_bytes, "byte", step=step, by=by)
        by = _alone("arithmetic / peak", work.flop, "FLOP", peak.value, floor.multiply_s)
        alone, step = floor.multiply_s, "roofline#step-4"
        b.add(f"{key}.multiply_s", f"{label}: arithmetic alone", alone, "second", step=step, by=by)
        by = _alone("bytes / bandwidth", work.moved_bytes(), "B", bandwidth.value, floor.move_s)
        b.add(f"{key}.move_s", f"{label}: bytes alone", floor.move_s, "second", step=step, by=by)
        if c.parallel.tensor > 1 and peer(c) is not None:
            links_s = steps.links_s(floor)
            b.add(
                f"{key}.links_s",
                f"{label}: all-reduces over {c.chip.links[peer(c)].name} alone",
                links_s,
                "second",
                step="roofline#step-7",
                note=_rings_note(c),
                by=_rings(c, work, links_s),
            )
        by = floor_by
        b.add(
            f"{key}_floor_s",
            f"{label}, least time",
            floor.seconds,
            "second",
            step="roofline#step-4",
            by=by,
            keep=True,
            note=note,
        )
        numbers = f"longer of {format_seconds(floor.move_s)} and {format_seconds(floor.multiply_s)}"
        by = spelled("Waits for", "memory or arithmetic, whichever takes longer alone", numbers, floor.bound)
        b.add(f"{key}_bound", "… waits for", floor.bound, step="roofline#step-4", by=by)
    b.add(
        "decode_floor_end_s",
        "The last decode step of a response, least time",
        t.last.seconds,
        "second",
        step="roofline#step-4",
        by=_longer(t.last),
    )
    rate = c.concurrency / t.decode.seconds
    numbers = f"{number(c.concurrency)} / {format_seconds(t.decode.seconds)}"
    b.add(
        "output_tokens_per_s",
        "Tokens a second of one replica, at most",
        rate,
        "1/second",
        step="roofline#step-4",
        text=f"{significant(rate)}/s",
        by=spelled("Tokens a second", "sequences / time of a step", numbers, f"≈ {significant(rate)}/s"),
    )
    where, label = {"step": "roofline#step-5"}, "Tokens in a step from which weights stop being the bound"
    if any(isinstance(layer.mlp, MixtureOfExperts) for layer in c.model.layers):
        cross = crossover(c.model, m.stored, c.chip, c.multiplies, ranks=c.parallel.tensor)
        words = "fewest tokens whose arithmetic takes as long as the weights that they read"
        speed = format_decimal(peak.value, "FLOP/s"), format_decimal(bandwidth.value, "B/s")
        by = spelled("Tokens", words, f"FLOP / {speed[0]} ≥ bytes / {speed[1]}, searched", cross)
        note = "Later than for a dense model: experts share the tokens."
        b.add("crossover_tokens", label, cross, **where, note=note, by=by)
    else:
        tokens = {**rates, "bytes_per_weight": m.stored.bits_per_weight / 8}
        b.add("crossover_tokens", label, crossover_tokens(**tokens), by=(crossover_tokens, tokens), **where)
    return b.section()


def _floor_by(floor: StepFloor, rates: dict) -> tuple:
    return floor_seconds, {"flop": round(floor.work.flop), "moved_bytes": round(floor.work.moved_bytes()), **rates}


def _groups(work: StepWork, what: str, unit: str) -> str:
    """A step's sum over the groups that have some of it."""
    parts = {label_of(g.name): getattr(g, what) for g in work.groups if getattr(g, what)}
    return added(
        "A step", {name: round(part) for name, part in parts.items()} or {"none": 0}, sum(parts.values()), unit
    )


def _alone(words: str, amount: float, unit: str, rate: float, value: float) -> str:
    numbers = f"{format_decimal(amount, unit)} / {format_decimal(rate, f'{unit}/s')}"
    return spelled("Time", words, numbers, value, "second")


def _longer(floor: StepFloor) -> str:
    numbers = f"max({format_seconds(floor.move_s)}, {format_seconds(floor.multiply_s)})"
    return spelled("Step", "max(bytes / bandwidth, arithmetic / peak)", numbers, floor.seconds, "second")


def _rings(c: Choices, work: StepWork, value: float) -> str:
    """The all-reduces of a step: what a ring sends for each of them, over the link."""
    sent = ring_bytes(message_bytes=work.message_bytes, ranks=c.parallel.tensor)
    rate = format_decimal(c.chip.links[peer(c)].bytes_per_second.value, "B/s")
    words = "all-reduces · bytes that a rank sends for one / link, one direction"
    return spelled("Time", words, f"{work.all_reduces} · {number(sent, 'byte')} / {rate}", value, "second")


def _rings_note(c: Choices) -> str:
    link = c.chip.links[peer(c)]
    beyond = link.joins is not None and c.parallel.tensor > link.joins
    return "By rings; not part of the floor." + (
        f" Counted as if {link.name} joined all ranks; it joins {link.joins}." if beyond else ""
    )


def _decode_note(c: Choices) -> str:
    group = group_sequences(c)
    text = f"{counted(group, 'sequence')}, each with its prompt of {counted(c.context, 'token')} in the cache."
    if c.parallel.pipeline > 1:
        return text + f" The {c.parallel.pipeline} stages work on a group of sequences each."
    return text


def limits_section(c: Choices, m: Memory, t: Times) -> Section | None:
    """The reader's limits, held against the floors."""
    if c.ttft_s is None and c.tpot_s is None:
        return None
    b = Builder("limits", "Limits", "A floor within a limit is necessary, not enough; one above it settles the matter.")
    if c.ttft_s is not None:
        b.add(
            "ttft_s",
            "Limit on the time to the first token",
            c.ttft_s,
            "second",
            kind="assumed",
            step="latency_and_goodput#step-2",
        )
        met = None if t.prefill is None else t.prefill.seconds <= c.ttft_s
        by = _within(t.prefill, c.ttft_s)
        b.add("ttft_possible", "A prompt's floor keeps it", met, step="roofline#step-4", note=t.why_not, by=by)
    if c.tpot_s is not None:
        b.add(
            "tpot_s",
            "Limit on the time per output token",
            c.tpot_s,
            "second",
            kind="assumed",
            step="latency_and_goodput#step-3",
        )
        met = None if t.last is None else t.last.seconds <= c.tpot_s
        by, label = _within(t.last, c.tpot_s), "A decode step's floor keeps it to the end"
        b.add("tpot_possible", label, met, step="roofline#step-4", note=t.why_not, by=by)
        most = t.most_by_tpot
        text = None if most is None else "none" if most == 0 else None
        b.add(
            "most_sequences_by_tpot",
            "Most sequences at once whose floor keeps it",
            most,
            step="roofline#step-4",
            note="Up to as many as fit in memory.",
            text=text,
            by=None if most is None else _most_by(c, m, most),
        )
    return b.section()


def _within(floor: StepFloor | None, limit: float) -> str | None:
    if floor is None:
        return None
    numbers = f"{format_seconds(floor.seconds)} ≤ {format_seconds(limit)}"
    return spelled("Kept", "floor ≤ limit", numbers, floor.seconds <= limit)


def _most_by(c: Choices, m: Memory, most: int) -> str:
    """The largest count of sequences whose last step's floor is within the limit, and the floor there."""
    group = max(1, most // c.parallel.pipeline)
    floor = Steps(c, m).floor(1, c.positions, group).seconds
    sign = "≤" if floor <= c.tpot_s else ">"
    numbers = f"floor of {number(most)}: {format_seconds(floor)}" if most else f"floor of 1: {format_seconds(floor)}"
    words = "most sequences whose last step's floor ≤ limit, and that fit"
    return spelled("Sequences", words, f"{numbers} {sign} {format_seconds(c.tpot_s)}", most or "none")


def most_sequences(c: Choices, m: Memory, tpot_s: float) -> int:
    """The most sequences of one replica, up to those that fit, whose last decode step can keep a limit."""
    steps = Steps(c, m)

    def keeps(group: int) -> bool:
        return steps.floor(1, c.positions, group).seconds <= tpot_s

    stages = c.parallel.pipeline
    low, high = 0, max(1, -(-m.max_sequences // stages)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return min(low * stages, m.max_sequences)


def speculation_section(c: Choices, m: Memory, t: Times) -> Section:
    """What a draft of some length would have to reach."""
    b = Builder(
        "speculation",
        "Speculation",
        "Floors are not times, and their ratio is a guide. The drafter's memory, "
        "drafts that get worse along the way, and prefill, which speculation does not touch.",
    )
    step = "speculative_decoding#step-7"
    b.add("draft_tokens", "Draft tokens in a round", c.draft_tokens, kind="assumed", step="speculative_decoding#step-4")
    b.add(
        "acceptance",
        "Acceptance of a tested draft token",
        c.acceptance,
        "1",
        kind="assumed",
        step="speculative_decoding#step-4",
    )
    if t.decode is None:
        b.add("break_even_acceptance", "Acceptance that breaks even", None, "1", step=step, note=t.why_not)
        return b.section()
    steps, group = Steps(c, m), group_sequences(c)
    plain = steps.floor(1, c.context, group, "every").seconds
    check = steps.floor(c.draft_tokens + 1, c.context, group, "every").seconds
    verify = round(max(1.0, check / plain), DECIMALS)
    note = f"{format_seconds(check)} over {format_seconds(plain)}."
    b.add(
        "verify_cost",
        "The step that checks a draft, over a plain one",
        verify,
        "×",
        step="speculative_decoding#step-8",
        note=note,
        by=spelled(
            "Cost",
            "max(1, step with drafts / plain step)",
            f"max(1, {format_seconds(check)} / {format_seconds(plain)})",
            verify,
            "×",
        ),
    )
    costs = {"draft_tokens": c.draft_tokens, "draft_cost": c.draft_cost, "verify_cost": verify}
    cost = round_cost(**costs)
    b.add("round_cost", "A round, in plain steps", cost, step="speculative_decoding#step-6", by=(round_cost, costs))
    chance = {"acceptance": c.acceptance, "draft_tokens": c.draft_tokens}
    tokens = expected_tokens(**chance)
    b.add(
        "tokens_per_round",
        "Tokens of a round",
        tokens,
        step="speculative_decoding#step-4",
        by=(expected_tokens, chance),
    )
    gain = {"tokens_per_round": tokens, "round_cost": cost}
    b.add(
        "speedup", "Speed-up between tokens", round_speedup(**gain), "×", step=step, by=(round_speedup, gain), keep=True
    )
    least = break_even_acceptance(round_cost=cost, draft_tokens=c.draft_tokens)
    b.add(
        "break_even_acceptance",
        "Acceptance that breaks even",
        least,
        "1",
        step=step,
        keep=True,
        text="none" if least is None else None,
        by=_break_even(c, cost, least),
    )
    return b.section()


def _break_even(c: Choices, cost: float, least: float | None) -> str:
    """The acceptance at which a round's tokens are worth its cost."""
    words = "the acceptance at which tokens of a round = its cost in plain steps"
    if least is None:
        most = number(c.draft_tokens + 1)
        return spelled("Acceptance", words, f"{most} tokens at most, {significant(cost)} steps", "none")
    tokens = significant(expected_tokens(acceptance=least, draft_tokens=c.draft_tokens))
    return spelled("Acceptance", words, f"{tokens} tokens = {significant(cost)} steps", least, "1")
