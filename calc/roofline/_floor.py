"""The least time of a step on a chip: what binds it, group by group, and the conveniences for the two phases."""

from __future__ import annotations

from dataclasses import dataclass

from calc.hardware import Accelerator
from calc.models import ModelGeometry
from calc.roofline._machine import floor_seconds, machine_balance
from calc.roofline._spread import all_reduce_seconds
from calc.roofline._work import StepWork, alike, spoken, step_work
from calc.units import CalcError, format_seconds, plain

MOST = 2**40  # sequences or positions that a search goes through: far more than any memory holds


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFloor:
    """Least time of one tensor group: of its arithmetic, and of its bytes.

    Attributes
    ----------
    name : str
        As in `GroupWork`.
    multiply_s, move_s : float
        Seconds at the peak, and at full bandwidth.
    """

    name: str
    multiply_s: float
    move_s: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.multiply_s, self.move_s)

    @property
    def bound(self) -> str:
        """What the longer one waits for: "memory" or "arithmetic"."""
        return "memory" if self.move_s >= self.multiply_s else "arithmetic"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFloor:
    """Least time of a step on one rank.

    Attributes
    ----------
    work : StepWork
    chip : str
        The accelerator's name.
    balance : float
        FLOP that the chip can do while it moves one byte.
    groups : tuple of GroupFloor
        Each on its own.
    links_s : float
        Least time of the all-reduces; 0 where no link was given.
    """

    work: StepWork
    chip: str
    balance: float
    groups: tuple[GroupFloor, ...]
    links_s: float = 0.0

    @property
    def multiply_s(self) -> float:
        """All arithmetic at the peak."""
        return sum(g.multiply_s for g in self.groups)

    @property
    def move_s(self) -> float:
        """All bytes at full bandwidth."""
        return sum(g.move_s for g in self.groups)

    @property
    def seconds(self) -> float:
        """Least time if arithmetic, memory and links all work at the same time: below this nothing can go."""
        return max(self.multiply_s, self.move_s, self.links_s)

    @property
    def apart_s(self) -> float:
        """Least time if the groups and the all-reduces run one after another, as in most engines."""
        return sum(g.seconds for g in self.groups) + self.links_s

    @property
    def bound(self) -> str:
        """What `seconds` waits for: "memory", "arithmetic" or "links"."""
        longest = {"memory": self.move_s, "arithmetic": self.multiply_s, "links": self.links_s}
        return max(longest, key=longest.get)

    def _repr_html_(self) -> str:
        head = "<tr><th>group</th><th>arithmetic</th><th>bytes</th><th>waits for</th></tr>"
        rows = [(spoken(g.name), g.multiply_s, g.move_s, g.bound) for g in self.groups]
        rows += [("step", self.multiply_s, self.move_s, self.bound)]
        body = "".join(
            f"<tr><th>{name}</th><td>{format_seconds(a)}</td><td>{format_seconds(b)}</td><td>{why}</td></tr>"
            for name, a, b, why in rows
        )
        return f'<table class="calc-table"><thead>{head}</thead><tbody>{body}</tbody></table>'


def step_floor(
    work: StepWork,
    chip: Accelerator,
    *,
    multiplies: str = "bf16",
    activations: bool = False,
    link: str | None = None,
    start_s: float = 0.0,
) -> StepFloor:
    """Least time of a step's work on one rank.

    Parameters
    ----------
    work : StepWork
        From `step_work`.
    chip : Accelerator
        From `calc.hardware.accelerator`.
    multiplies : str
        Type in which matrices are multiplied: one that the chip has a peak for.
    activations : bool
        Whether inputs and outputs of the products count as bytes moved. Fused kernels keep some of them on the
        chip, so the floor that always holds is the one without.
    link : str or None
        Family of the link between the ranks, a key of the chip's `links`; None leaves all-reduces out.
    start_s : float
        Time that one all-reduce takes however little it moves, seconds.

    Returns
    -------
    StepFloor

    Raises
    ------
    CalcError
        If the chip has no peak for `multiplies`, or no such link.

    Notes
    -----
    A floor, never a forecast. Launches, the host, sampling, shapes that don't fill the chip and a clock that falls
    under load come on top.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> work = step_work(load("llama-3.1-70b"), sequences=[(1, 4095)] * 16, ranks=8)
    >>> floor = step_floor(work, accelerator("h100-sxm"))
    >>> round(1000 * floor.seconds, 2), floor.bound
    (5.99, 'memory')
    """
    peak, bandwidth = chip.peak(multiplies).value, chip.bandwidth.value
    groups = tuple(
        GroupFloor(
            name=g.name,
            multiply_s=floor_seconds(flop=g.flop, moved_bytes=0, peak=peak, bandwidth=bandwidth),
            move_s=floor_seconds(
                flop=0, moved_bytes=g.moved_bytes(activations=activations), peak=peak, bandwidth=bandwidth
            ),
        )
        for g in work.groups
    )
    links_s = 0.0
    if link is not None and work.ranks > 1:
        links_s = all_reduce_seconds(
            sent_bytes=work.sent_bytes / max(work.all_reduces, 1),
            one_direction=chip.link(link).bytes_per_second.value,
            start=start_s,
            all_reduces=work.all_reduces,
        )
    balance = machine_balance(peak=peak, bandwidth=bandwidth)
    return StepFloor(work=work, chip=chip.name, balance=balance, groups=groups, links_s=links_s)


def decode_floor(
    model: ModelGeometry,
    chip: Accelerator,
    *,
    sequences: int,
    cached: int,
    new: int = 1,
    multiplies: str = "bf16",
    link: str | None = None,
    **options: object,
) -> StepFloor:
    """Least time of a decode step of equal sequences on one replica.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
        One of the replica's GPUs.
    sequences : int
        Decoding sequences.
    cached : int
        Positions that each of them has in the cache.
    new : int
        New tokens of each: 1, or drafts and one with speculation.
    multiplies, link
        As for `step_floor`.
    **options
        As for `step_work`: `ranks`, `element`, `cache_element`, `bytes_per_weight`.

    Returns
    -------
    StepFloor

    Raises
    ------
    CalcError
        As `step_work` and `step_floor`.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> floor = decode_floor(load("llama-3.1-8b"), accelerator("h100-sxm"), sequences=1, cached=1023)
    >>> round(1000 * floor.seconds, 2), floor.bound
    (4.52, 'memory')
    """
    work = step_work(model, sequences=alike(sequences, new=new, cached=cached), **options)
    return step_floor(work, chip, multiplies=multiplies, link=link)


def prefill_floor(
    model: ModelGeometry,
    chip: Accelerator,
    *,
    prompt: int,
    cached: int = 0,
    sequences: int = 1,
    multiplies: str = "bf16",
    link: str | None = None,
    **options: object,
) -> StepFloor:
    """Least time of a prefill step on one replica.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
        One of the replica's GPUs.
    prompt : int
        New tokens of each prompt in this step: all of it, or a chunk.
    cached : int
        Positions of it that are in the cache already: a shared prefix, or earlier chunks.
    sequences : int
        Equal prompts in the step.
    multiplies, link
        As for `step_floor`.
    **options
        As for `step_work`: `ranks`, `element`, `cache_element`, `bytes_per_weight`.

    Returns
    -------
    StepFloor

    Raises
    ------
    CalcError
        As `step_work` and `step_floor`.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> floor = prefill_floor(load("llama-3.1-8b"), accelerator("h100-sxm"), prompt=8192)
    >>> round(1000 * floor.seconds), floor.bound
    (133, 'arithmetic')
    """
    work = step_work(model, sequences=alike(sequences, new=prompt, cached=cached), **options)
    return step_floor(work, chip, multiplies=multiplies, link=link)


def decode_crossover(
    model: ModelGeometry, chip: Accelerator, *, cached: int, multiplies: str = "bf16", **options: object
) -> int | None:
    """The fewest equal sequences for which a decode step waits for its arithmetic, caches included.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
    cached : int
        Positions that each sequence has in the cache.
    multiplies : str
        As for `step_floor`.
    **options
        As for `step_work`: `ranks`, `element`, `cache_element`, `bytes_per_weight`.

    Returns
    -------
    int or None
        Sequences; None where no batch waits for arithmetic, because each sequence brings more bytes than
        arithmetic to cover them.

    Raises
    ------
    CalcError
        As `step_work`, or if the crossing lies beyond 2^40 sequences.

    Notes
    -----
    Memory for so many caches is not looked at: see `calc.capacity`.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> llama, h100 = load("llama-3.1-70b"), accelerator("h100-sxm")
    >>> [decode_crossover(llama, h100, cached=c) for c in (0, 512, 1024, 4096)]
    [296, 453, 967, None]
    """
    cached = plain("decode_crossover", "cached", cached, "count")

    def floor(sequences: int) -> StepFloor:
        return decode_floor(model, chip, sequences=sequences, cached=cached, multiplies=multiplies, **options)

    def crossed(sequences: int) -> bool:
        found = floor(sequences)
        return found.multiply_s > found.move_s

    if _reads_more(model, chip, cached, multiplies, options):
        return None
    low, high = 0, 1
    while not crossed(high):
        low, high = high, 2 * high
        if high > MOST:
            raise CalcError(f"{model.name}: no crossing below {MOST:,} sequences on {chip.name}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if crossed(middle) else (middle, high)
    return high


def never_crosses(
    model: ModelGeometry, chip: Accelerator, *, multiplies: str = "bf16", **options: object
) -> int | None:
    """The fewest cached positions in every sequence for which no batch makes a decode step wait for arithmetic.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
    multiplies, **options
        As for `decode_crossover`.

    Returns
    -------
    int or None
        Positions; None where some batch waits for arithmetic however long the sequences are, as with latent attention
        on a chip that reads fast, or when only windows are read.

    Raises
    ------
    CalcError
        As `step_work`.

    Notes
    -----
    `longest_crossing` counts the new token's own position too. This is one less, searched for in whole numbers, with
    windows honored.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> [never_crosses(load(slug), accelerator("h100-sxm")) for slug in ("llama-3.1-70b", "llama-2-7b")]
    [1476, 85]
    """

    low, high = -1, 1
    while not _reads_more(model, chip, high, multiplies, options):
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reads_more(model, chip, middle, multiplies, options) else (middle, high)
    return high


def _reads_more(model: ModelGeometry, chip: Accelerator, cached: int, multiplies: str, options: dict) -> bool:
    """Whether one sequence's own bytes take at least as long as its arithmetic, weights left aside."""
    work = step_work(model, sequences=[(1, cached)], **options)
    balance = machine_balance(peak=chip.peak(multiplies).value, bandwidth=chip.bandwidth.value)
    return work.flop <= balance * (work.cache_bytes + work.written_bytes)
